"""Events become rows. Pure: what is known of some rows, and the entries since, give the rows to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.values import OPERATIONS
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.columns import TERM_LIMIT, micros, name, names, number, part, real
from mcpproxy_py.store.database.tables import activity, events
from mcpproxy_py.store.database.text_search import folded
from mcpproxy_py.store.journal.entries import ROUND_KINDS, JournalEntry

Row = dict[str, Any]
Word = tuple[int, int]
INTERRUPTED: Final = "interrupted"
ERASED: Final = "erased"
MOST_ROUNDS: Final = 100
"""That a row shows; a server may ask without end. All of them are in the chain."""
_GUESS, _KNOWLEDGE = 1, 2
_SILENCE: Final[Word] = (0, 0)


def asked_columns(event: Mapping[str, Any], payload: bytes) -> Row:
    get, client = event.get, event.get("client")
    kind, source, surface, server, tool, session, principal, client_name, client_version = names(
        get("type"), get("source"), get("surface"), get("server"), get("tool"), get("session_id"), get("principal"),
        part(client, "name"), part(client, "version"),
    )  # fmt: skip
    return {
        "type": (kind or "tool_call")[:TERM_LIMIT],
        "source": source or "internal",
        "surface": surface,
        "server": server,
        "tool": tool or "",
        "session_id": session,
        "principal": principal,
        "client_name": client_name or "",
        "client_version": client_version or "",
        "request_id": name(get("request_id")),
        "arguments": _text(payload),
        "arguments_size": number(get("arguments_size")),
    }


def finished_columns(event: Mapping[str, Any], payload: bytes) -> Row:
    error = event.get("error")
    return {
        "finished_at": micros(event.get("at")),
        "status": (name(event.get("status")) or "error")[:TERM_LIMIT],
        "error": None if error is None else encode(error).decode(),
        "error_code": name(part(error, "code")),
        "response": _text(payload),
        "response_size": number(event.get("response_size")),
        "duration_ms": real(event.get("duration_ms")),
    }


def erased_columns(event: Mapping[str, Any], payload: bytes) -> Row:
    return {"arguments": None, "response": None}


def event_left(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of an erased record: its head without what agents, servers and people wrote."""
    error, metadata = event.get("error"), event.get("metadata")
    left = {
        "error": error and {"code": part(error, "code"), "message": ERASED},
        "metadata": metadata and metadata_left(metadata),
    }
    return {key: left.get(key, value) for key, value in event.items() if key != "answers"}


def metadata_left(metadata: Any) -> dict[str, Any]:
    """Of the declared intent only the operation stays, and no notes of a person and no answers of a client."""
    known = json_values.as_object(metadata) or {}
    operation = part(known.get("intent"), "operation_type")
    left = {
        "rounds": [{key: each[key] for key in each if key != "answers"} for each in known.get("rounds", ())],
        "intent": {"operation_type": operation if operation in OPERATIONS else None},
        "confirmed": {**(json_values.as_object(known.get("confirmed")) or {}), "notes": None},
    }
    return {key: left.get(key, value) for key, value in known.items()}


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


class KnownRow(NamedTuple):
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
    error_code: str | None


class RowDraft:
    """The changes to one row: of one that is there already, or the whole of a new one."""

    __slots__ = ("_metadata", "_told", "at", "columns", "known", "words")

    def __init__(self, known: KnownRow | None, at: int) -> None:
        self.known = known
        self.at = at
        self.columns: Row = {}
        self.words: list[str] = []
        """What a text search of it looks at."""
        self._metadata: Mapping[str, Any] = decode(known.metadata) if known else {}
        self._told = known is None

    @property
    def erased(self) -> bool:
        return ERASED in self._metadata

    def fold(self, entry: JournalEntry) -> None:
        kind = entry.kind
        event, payload = (event_left(entry.event), b"") if self.erased else (entry.event, entry.payload)
        if kind in ROUND_KINDS:
            self._add_round(kind, entry.at, event)
            return
        changes, told = COLUMNS[kind](event, payload), event.get("metadata")
        if kind == ERASED:
            self._metadata = metadata_left(self._metadata)
            code = self.columns.get("error_code", self.known and self.known.error_code)
            if code is not None:
                changes["error"] = encode({"code": code, "message": ERASED}).decode()
        outdone = kind == "finished" and _word(changes) < self._last_word()
        if told and isinstance(told, dict):
            self._merge("asked" if outdone else kind, told)
        if outdone:
            return
        if self.columns:
            self.columns.update(changes)
        else:
            self.columns = changes
        self._add_words(kind, entry, changes)

    def _merge(self, kind: str, told: Mapping[str, Any]) -> None:
        if not self._metadata:
            self._metadata = told
        elif kind == "asked":  # one that is read again, or later, must not take back what was known at the end
            self._metadata = {**told, **self._metadata}
        else:
            self._metadata = {**self._metadata, **told}
        self._told = True

    def _add_round(self, kind: str, at: int, event: Mapping[str, Any]) -> None:
        """Rounds can come in any order, and twice; the same ones are kept."""
        said = {key: event[key] for key in ("methods", "answers", "forwarded") if key in event}
        rounds = [*self._metadata.get("rounds", ()), {"at": at, "kind": kind, **said}]
        kept = {(each["at"], each["kind"]): each for each in rounds}
        self._metadata = {**self._metadata, "rounds": [kept[key] for key in sorted(kept)[:MOST_ROUNDS]]}
        self._told = True

    def _last_word(self) -> Word:
        if "status" in self.columns:
            return _word(self.columns)
        return _word(self.known._asdict()) if self.known is not None else _SILENCE

    def _add_words(self, kind: str, entry: JournalEntry, columns: Row) -> None:
        """Of what was asked the names, the arguments and the reason given; of how it ended the error."""
        if self.erased:
            self.words = []
        elif kind == "asked":
            self.words.append(folded(entry.payload, _names(entry.event)))
        elif columns["error"]:
            self.words.append(folded(columns["error"].encode()))

    def row(self) -> Row:
        """All columns of a new row but its number; of an old one those that changed, because every index of the
        others rests then."""
        if not self._told:
            return self.columns
        if self.known is None and len(self.columns) < len(_BLANK):
            return {**_BLANK, **self.columns, **self._derived()}
        return {**self.columns, **self._derived()}

    def _derived(self) -> Row:
        told = self._metadata
        return {
            "metadata": encode(told).decode(),
            "tool_variant": name(told.get("tool_variant")),
            "intent_type": name(part(told.get("intent"), "operation_type")),
        }


def _word(row: Mapping[str, Any]) -> Word:
    """How far somebody's word on how an ask ended is to be believed, where several gateways have one: who saw it end
    knows how long it took and counts for more than who only took it for dead, or for given up; then the later one. So
    the order in which they come makes no difference."""
    if row["status"] == "pending":
        return _SILENCE
    return (_GUESS if row["duration_ms"] is None else _KNOWLEDGE), row["finished_at"] or 0


def _names(event: Mapping[str, Any]) -> str:
    said = (event.get("server"), event.get("tool"), part(part(event.get("metadata"), "intent"), "reason"))
    return " ".join([text if type(text) is str else folded(encode(text)) for text in said if text])


def drafts(entries: Iterable[JournalEntry], known: Mapping[str, KnownRow]) -> dict[str, RowDraft]:
    """The rows that these entries make or change, by id, in the order of their first event."""
    found: dict[str, RowDraft] = {}
    for entry in entries:
        key = entry.key
        if key is not None:
            draft = found.get(key)
            if draft is None:
                draft = found[key] = RowDraft(known.get(key), entry.at)
            draft.fold(entry)
    return found


def event_rows(chain: int, entries: Iterable[JournalEntry], before: int) -> list[tuple[Any, ...]]:
    """The entries as the append-only table keeps them, but for those it has."""
    return [(chain, entry.seq, entry.at, entry.head, entry.mac) for entry in entries if entry.seq > before]


EVENT_COLUMNS: Final = tuple(column.name for column in events.c)
