"""Events become rows. Pure: what is known of some rows, and the events since, give the rows to write.

Every field is brought into the shape that its column takes, whatever the event holds. One event that no
database accepts would otherwise hold up all that come after it, for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from mcpproxy_py.store.codec import decode, encode

Row = dict[str, Any]
NAME_LIMIT = 500
"""Characters of a name that are kept. An index of PostgreSQL refuses rows of more than some 2,700 bytes."""
_MOST = (1 << 63) - 1
_LAST_MOMENT = 253_402_300_799_999_999
UNREADABLE = "unreadable"


def name(value: Any) -> str | None:
    """A name as a column and a filter hold it: without NUL, which PostgreSQL refuses, and not too long."""
    if value is None:
        return None
    text = clean(value) if isinstance(value, str) else clean(str(value))
    return text if len(text) <= NAME_LIMIT else text[: NAME_LIMIT - 1] + "…"


def clean(text: str) -> str:
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "␀").encode("utf-8", "replace").decode()


def number(value: Any) -> int | None:
    usable = isinstance(value, (int, float)) and math.isfinite(value)
    return max(-_MOST, min(_MOST, int(value))) if usable else None


def micros(seconds: Any) -> int:
    """Seconds since 1970 as a time column holds them, kept within the years that a timestamp can show."""
    usable = isinstance(seconds, (int, float)) and 0 < seconds < math.inf
    return min(_LAST_MOMENT, round(seconds * 1e6)) if usable else 0


def real(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else None


def json_column(value: Any) -> str | None:
    return None if value is None else encode(value).decode()


def part(value: Any, key: str) -> Any:
    """`value[key]` of an object, `None` of anything else."""
    return value.get(key) if isinstance(value, dict) else None


def asked_columns(event: Mapping[str, Any]) -> Row:
    client = event.get("client")
    return {
        "at": micros(event.get("at")),
        "type": name(event.get("type")) or "tool_call",
        "source": name(event.get("source")) or "internal",
        "surface": name(event.get("surface")),
        "server": name(event.get("server")),
        "tool": name(event.get("tool")) or "",
        "arguments": json_column(event.get("arguments")),
        "arguments_size": number(event.get("arguments_size")),
        "session_id": name(event.get("session_id")),
        "request_id": name(event.get("request_id")),
        "client_name": name(part(client, "name")) or "",
        "client_version": name(part(client, "version")) or "",
        "principal": name(event.get("principal")),
    }


def finished_columns(event: Mapping[str, Any]) -> Row:
    error = event.get("error")
    return {
        "finished_at": micros(event.get("at")),
        "status": name(event.get("status")) or "error",
        "error": json_column(error),
        "error_code": name(part(error, "code")),
        "response": json_column(event.get("response")),
        "response_size": number(event.get("response_size")),
        "duration_ms": real(event.get("duration_ms")),
    }


COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], Row]] = {"asked": asked_columns, "finished": finished_columns}
# A row that only ever finished: its ask could not be written, which is no reason to forget how it ended.
_BLANK: Row = {**finished_columns({}), **asked_columns({}), "status": "pending", "finished_at": None}


@dataclass(frozen=True, slots=True)
class Known:
    """What folding needs to know of a row that is in the database already."""

    metadata: str
    searchable: str


class Draft:
    """The changes to one row: of one that is there already, or the whole of a new one."""

    __slots__ = ("_before", "_columns", "_metadata", "_searchable", "new")

    def __init__(self, known: Known | None) -> None:
        self.new = known is None
        self._columns: Row = {}
        self._metadata: dict[str, Any] = decode(known.metadata) if known else {}
        self._searchable = known.searchable if known else ""
        self._before = {} if known is None else self._derived()

    def fold(self, event: Mapping[str, Any]) -> None:
        kind, told = event["kind"], event.get("metadata")
        self._columns |= COLUMNS[kind](event)
        if isinstance(told, dict):
            # An ask that is read again must not take back what was known at the end.
            self._metadata = {**told, **self._metadata} if kind == "asked" else {**self._metadata, **told}
        for words in _words(event):
            if words not in self._searchable:
                self._searchable += "\n" + words

    def row(self, row_id: str) -> Row:
        """All columns of a new row; of an old one those that changed, because every index of the others rests then."""
        derived = self._derived()
        if self.new:
            return {**_BLANK, "at": self._columns.get("finished_at", 0), **self._columns, **derived, "id": row_id}
        changed = {column: value for column, value in derived.items() if value != self._before[column]}
        return {**self._columns, **changed, "id": row_id}

    def _derived(self) -> Row:
        return {
            "metadata": encode(self._metadata).decode(),
            "tool_variant": name(self._metadata.get("tool_variant")),
            "intent_type": name(part(self._metadata.get("intent"), "operation_type")),
            "searchable": self._searchable,
        }


def _words(event: Mapping[str, Any]) -> Iterator[str]:
    """What a text search of this event looks at: names, arguments, the reason given and the error."""
    reason = part(part(event.get("metadata"), "intent"), "reason")
    error = event.get("error")
    for value in (event.get("tool"), event.get("server"), event.get("arguments"), reason, error):
        if value is not None:
            yield clean("\n".join(_leaves(value))).casefold()


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield str(value).lower() if isinstance(value, bool) else str(value)


def drafts(parsed: Iterable[Mapping[str, Any]], known: Mapping[str, Known]) -> dict[str, Draft]:
    """The rows that these events make or change, by id, in the order of their first event."""
    found: dict[str, Draft] = {}
    for event in parsed:
        if not is_projected(event):
            continue
        row_id = name(event["id"]) or ""
        if row_id not in found:
            found[row_id] = Draft(known.get(row_id))
        found[row_id].fold(event)
    return found


def is_projected(event: Mapping[str, Any]) -> bool:
    return event.get("kind") in COLUMNS and isinstance(event.get("id"), str)


def parse(line: bytes) -> Mapping[str, Any]:
    """The event of a line; for one that makes no sense, an event that says so and is kept like any other."""
    try:
        event = decode(line)
    except (ValueError, RecursionError):
        event = None
    return event if isinstance(event, dict) else {"kind": UNREADABLE}


def event_row(line: bytes, event: Mapping[str, Any]) -> Row:
    """The event as the append-only table keeps it: its digest, and its text only where no row holds what it said."""
    return {
        "ask_id": name(event.get("id")) or "",
        "kind": name(event.get("kind")) or UNREADABLE,
        "at": micros(event.get("at")),
        "digest": sha256(line).hexdigest(),
        "body": None if is_projected(event) else clean(line.decode("utf-8", "replace")),
    }
