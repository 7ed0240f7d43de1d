"""Events become rows. Pure: what is known of some rows, and the entries since, give the rows to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.entry import Entry
from mcpproxy_py.store.scalars import clean, micros, name, number, part, real
from mcpproxy_py.store.tables import activity, events
from mcpproxy_py.store.words import words_of, words_of_json

Row = dict[str, Any]
INTERRUPTED: Final = "interrupted"


def asked_columns(event: Mapping[str, Any], payload: bytes) -> Row:
    client = event.get("client")
    return {
        "type": name(event.get("type")) or "tool_call",
        "source": name(event.get("source")) or "internal",
        "surface": name(event.get("surface")),
        "server": name(event.get("server")),
        "tool": name(event.get("tool")) or "",
        "arguments": _text(payload),
        "arguments_size": number(event.get("arguments_size")),
        "session_id": name(event.get("session_id")),
        "request_id": name(event.get("request_id")),
        "client_name": name(part(client, "name")) or "",
        "client_version": name(part(client, "version")) or "",
        "principal": name(event.get("principal")),
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
    duration_ms: float | None
    metadata: str


class Draft:
    """The changes to one row: of one that is there already, or the whole of a new one."""

    __slots__ = ("_metadata", "_told", "at", "columns", "known", "words")

    def __init__(self, known: Known | None, at: int) -> None:
        self.known = known
        self.at = at
        self.columns: Row = {} if known else {**_BLANK}
        self.words: set[str] = set()
        self._metadata: dict[str, Any] = decode(known.metadata) if known else {}
        self._told = known is None

    def fold(self, entry: Entry) -> None:
        event = entry.event
        kind, told = event["kind"], event.get("metadata")
        if event.get("status") == INTERRUPTED and not self._pending():
            return  # somebody else took it for dead, and it was not
        self.columns |= COLUMNS[kind](event, entry.payload)
        if told and isinstance(told, dict):
            # An ask that is read again must not take back what was known at the end.
            self._metadata = {**told, **self._metadata} if kind == "asked" else {**self._metadata, **told}
            self._told = True
        if kind == "erased":
            self.words = set()
        else:
            self.words |= _words(event, entry.payload)

    def _pending(self) -> bool:
        before = self.known.status if self.known else "pending"
        return self.columns.get("status", before) == "pending"

    def row(self) -> Row:
        """All columns of a new row but its number; of an old one those that changed, because every index of the
        others rests then."""
        return {**self.columns, **self._derived()} if self._told else self.columns

    def _derived(self) -> Row:
        return {
            "metadata": encode(self._metadata).decode(),
            "tool_variant": name(self._metadata.get("tool_variant")),
            "intent_type": name(part(self._metadata.get("intent"), "operation_type")),
        }


def _words(event: Mapping[str, Any], payload: bytes) -> set[str]:
    """What a text search of this event looks at: names, arguments, the reason given and the error."""
    found = words_of_json(payload) if event["kind"] == "asked" else set[str]()
    for value in (event.get("server"), event.get("tool"), event.get("error"), _reason(event)):
        if value:
            found.update(words_of(value) if isinstance(value, str) else words_of_json(encode(value)))
    return found


def _reason(event: Mapping[str, Any]) -> Any:
    return part(part(event.get("metadata"), "intent"), "reason")


def row_id(event: Mapping[str, Any]) -> str:
    return name(event["id"]) or ""


def drafts(entries: Iterable[Entry], known: Mapping[str, Known]) -> dict[str, Draft]:
    """The rows that these entries make or change, by id, in the order of their first event."""
    found: dict[str, Draft] = {}
    for entry in entries:
        if not is_projected(entry.event):
            continue
        key = row_id(entry.event)
        draft = found.get(key)
        if draft is None:
            draft = found[key] = Draft(known.get(key), micros(entry.event.get("at")))
        draft.fold(entry)
    return found


def is_projected(event: Mapping[str, Any]) -> bool:
    return event.get("kind") in COLUMNS and isinstance(event.get("id"), str)


def event_rows(chain: int, entries: Iterable[Entry], before: int) -> Iterator[tuple[Any, ...]]:
    """The entries as the append-only table keeps them, but for those it has."""
    for seq, head, _, mac, event in entries:
        if seq > before:
            yield chain, seq, micros(event.get("at")), clean(head.decode("utf-8", "replace")), mac


EVENT_COLUMNS: Final = tuple(column.name for column in events.c)
