"""Events become rows. Pure: what is known of some rows, and the entries since, give the rows to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.entry import Entry
from mcpproxy_py.store.scalars import micros, name, number, part, real
from mcpproxy_py.store.tables import activity, events
from mcpproxy_py.store.words import words_of, words_of_json

Row = dict[str, Any]
Word = tuple[int, int]
INTERRUPTED: Final = "interrupted"
_GUESS, _KNOWLEDGE = 1, 2
_SILENCE: Final[Word] = (0, 0)


def asked_columns(event: Mapping[str, Any], payload: bytes) -> Row:
    get, client = event.get, event.get("client")
    named = (get("type"), get("source"), get("surface"), get("server"), get("tool"), get("session_id"),
             get("principal"), part(client, "name"), part(client, "version"))  # fmt: skip
    try:
        same = _same(*named)  # few callers ask for few tools again and again
    except TypeError:  # a list, say, where a name should be
        same = _same.__wrapped__(*named)
    return {
        **same,
        "request_id": name(get("request_id")),
        "arguments": _text(payload),
        "arguments_size": number(get("arguments_size")),
    }


@lru_cache(maxsize=4096, typed=True)
def _same(kind: Any, source: Any, surface: Any, server: Any, tool: Any, session: Any, principal: Any, client: Any,
          version: Any) -> Row:  # fmt: skip
    return {
        "type": name(kind) or "tool_call",
        "source": name(source) or "internal",
        "surface": name(surface),
        "server": name(server),
        "tool": name(tool) or "",
        "session_id": name(session),
        "principal": name(principal),
        "client_name": name(client) or "",
        "client_version": name(version) or "",
    }


def finished_columns(event: Mapping[str, Any], payload: bytes) -> Row:
    error = event.get("error")
    return {
        "finished_at": micros(event.get("at")),
        "status": name(event.get("status")) or "error",
        "error": None if error is None else encode(error).decode(),
        "error_code": name(part(error, "code")),
        "response": _text(payload),
        "response_size": number(event.get("response_size")),
        "duration_ms": real(event.get("duration_ms")),
    }


def erased_columns(event: Mapping[str, Any], payload: bytes) -> Row:
    return {"arguments": None, "response": None}


def _text(payload: bytes) -> str | None:
    return payload.decode("utf-8", "replace") if payload else None


COLUMNS: Final[Mapping[Any, Callable[[Mapping[str, Any], bytes], Row]]] = {
    "asked": asked_columns,
    "finished": finished_columns,
    "erased": erased_columns,
}
# A row that only ever finished: its ask could not be written, which is no reason to forget how it ended.
_BLANK: Final[Row] = {
    **finished_columns({}, b""), **asked_columns({}, b""), "status": "pending", "finished_at": None,
}  # fmt: skip
ROW_COLUMNS: Final = tuple(column.name for column in activity.c)
values_of: Final = itemgetter(*ROW_COLUMNS)


class Known(NamedTuple):
    """What folding needs to know of a row that is in the database already, and counting of what it was."""

    n: int
    gateway: int
    type: str
    server: str | None
    tool: str
    intent_type: str | None
    status: str
    finished_at: int | None
    duration_ms: float | None
    metadata: str


class Draft:
    """The changes to one row: of one that is there already, or the whole of a new one."""

    __slots__ = ("_metadata", "_told", "at", "columns", "erased", "known", "words")

    def __init__(self, known: Known | None, at: int) -> None:
        self.known = known
        self.at = at
        self.columns: Row = {}
        self.words: set[str] = set()
        self.erased = False
        self._metadata: Mapping[str, Any] = decode(known.metadata) if known else {}
        self._told = known is None

    def fold(self, entry: Entry) -> None:
        event, kind = entry.event, entry.kind
        changes, told = COLUMNS[kind](event, entry.payload), event.get("metadata")
        outdone = kind == "finished" and _word(changes) < self._last_word()
        if told and isinstance(told, dict):
            self._merge("asked" if outdone else kind, told)
        if outdone:
            return
        self.columns.update(changes)
        if kind == "erased":
            self.words, self.erased = set(), True
        else:
            _add_words(self.words, entry)

    def _merge(self, kind: str, told: Mapping[str, Any]) -> None:
        if not self._metadata:
            self._metadata = told
        elif kind == "asked":  # one that is read again, or later, must not take back what was known at the end
            self._metadata = {**told, **self._metadata}
        else:
            self._metadata = {**self._metadata, **told}
        self._told = True

    def _last_word(self) -> Word:
        if "status" in self.columns:
            return _word(self.columns)
        return _word(self.known._asdict()) if self.known is not None else _SILENCE

    def row(self) -> Row:
        """All columns of a new row but its number; of an old one those that changed, because every index of the
        others rests then."""
        if not self._told:
            return self.columns
        if self.known is None and len(self.columns) < len(_BLANK):
            return {**_BLANK, **self.columns, **self._derived()}
        return {**self.columns, **self._derived()}

    def _derived(self) -> Row:
        return {
            "metadata": encode(self._metadata).decode(),
            "tool_variant": name(self._metadata.get("tool_variant")),
            "intent_type": name(part(self._metadata.get("intent"), "operation_type")),
        }


def _word(row: Mapping[str, Any]) -> Word:
    """How far somebody's word on how an ask ended is to be believed, where several gateways have one: who saw it end
    knows how long it took and counts for more than who only took it for dead, or for given up; then the later one. So
    the order in which they come makes no difference."""
    if row["status"] == "pending":
        return _SILENCE
    return (_GUESS if row["duration_ms"] is None else _KNOWLEDGE), row["finished_at"] or 0


def _add_words(words: set[str], entry: Entry) -> None:
    """What a text search of this event looks at: names, arguments, the reason given and the error."""
    event = entry.event
    if entry.kind == "finished":
        if event.get("error"):
            words |= words_of_json(encode(event["error"]))
        return
    words |= words_of_json(entry.payload)
    for value in (event.get("server"), event.get("tool"), part(part(event.get("metadata"), "intent"), "reason")):
        if value:
            words |= words_of(value) if isinstance(value, str) else words_of_json(encode(value))


def drafts(entries: Iterable[Entry], known: Mapping[str, Known]) -> dict[str, Draft]:
    """The rows that these entries make or change, by id, in the order of their first event."""
    found: dict[str, Draft] = {}
    for entry in entries:
        key = entry.key
        if key is not None:
            draft = found.get(key)
            if draft is None:
                draft = found[key] = Draft(known.get(key), entry.at)
            draft.fold(entry)
    return found


def event_rows(chain: int, entries: Iterable[Entry], before: int) -> list[tuple[Any, ...]]:
    """The entries as the append-only table keeps them, but for those it has."""
    return [(chain, entry.seq, entry.at, entry.head, entry.mac) for entry in entries if entry.seq > before]


EVENT_COLUMNS: Final = tuple(column.name for column in events.c)
