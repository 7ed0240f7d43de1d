"""What of the activity is asked for (ACT-3), and the bookmark that the next page starts from."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, UnaryExpression
from sqlalchemy.sql.operators import custom_op

from mcpproxy_py.store.database.columns import first_of, micros, name
from mcpproxy_py.store.database.tables import activity, words
from mcpproxy_py.store.database.text_search import asked_words, matching

MAX_LIMIT = 500
MAX_QUERY = 1000
MAX_WORDS = 50
EQUALS = {
    "request_id": "request_id", "session_id": "session_id", "tool": "tool", "server": "server",
    "principal": "principal", "client": "client_name", "intent_type": "intent_type", "status": "status", "type": "type",
}  # fmt: skip
"""Filters that a column has to equal, and the column. Those that let few rows through come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """All given filters have to hold. `start_time` is included, `end_time` is not; both need a zone.

    Raises `ValueError`, with a sentence for people, where a value cannot be meant.
    """

    intent_type: str | None = None
    type: str | None = None
    exclude_type: str | None = None
    status: str | None = None
    server: str | None = None
    tool: str | None = None
    session_id: str | None = None
    request_id: str | None = None
    client: str | None = None
    principal: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    q: str | None = None
    limit: int = 50
    cursor: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit must be from 1 to {MAX_LIMIT}")
        if self.q is not None and len(self.q) > MAX_QUERY:
            raise ValueError(f"q must have at most {MAX_QUERY} characters")
        if self.q is not None and not 1 <= len(asked_words(self.q)) <= MAX_WORDS:
            raise ValueError(f"q must hold a word to look for, and at most {MAX_WORDS}")
        for label, time in (("start_time", self.start_time), ("end_time", self.end_time)):
            if time is not None and time.tzinfo is None:
                raise ValueError(f"{label} needs a time zone")
        if self.start_time and self.end_time and self.end_time < self.start_time:
            raise ValueError("end_time is before start_time")
        if self.cursor is not None:
            PageCursor.read(self.cursor)

    @property
    def equals_any(self) -> bool:
        """Whether it asks for more than a text and a time."""
        return any(getattr(self, field) is not None for field in EQUALS)


class PageCursor(NamedTuple):
    """The last row of a page. As text it is opaque, has a version, and shows when it was changed."""

    n: int

    def __str__(self) -> str:
        body = b"\x02" + struct.pack(">q", self.n)
        return base64.urlsafe_b64encode(_sum(body) + body).rstrip(b"=").decode()

    @classmethod
    def read(cls, text: str) -> PageCursor:
        """Raises `ValueError` for anything that was not made here."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
            mark = cls(*struct.unpack(">q", raw[7:]))
            if str(mark) == text:
                return mark
        except (ValueError, binascii.Error, struct.error):
            pass
        raise ValueError("cursor was not issued by this gateway; leave it out to start from the newest")


def _sum(body: bytes) -> bytes:
    return sha256(b"mcpproxy activity cursor" + body).digest()[:6]


def conditions(filters: Filters, dialect: str) -> Iterator[ColumnElement[bool]]:
    """The filters as conditions on `activity`, joined with `words` where there is a text to look for; for a summary."""
    yield from equalities(filters, dialect)
    # The order of a text search is that of its own table, whose numbers are the same.
    yield from span(filters, words.c.rowid if filters.q else activity.c.n, paged=False)
    if filters.q:
        yield matching(dialect, filters.q)


def equalities(filters: Filters, dialect: str, *, by_index: bool = True) -> Iterator[ColumnElement[bool]]:
    """SQLite cannot know which of several indexes is best, so it is left the first, or none."""
    for field, column in EQUALS.items():
        value: Any = getattr(filters, field)
        if value is not None:
            compared: Any = activity.c[column]
            yield (compared if by_index or dialect != "sqlite" else _unindexed(compared)) == name(value)
            by_index = False
    if filters.exclude_type is not None:
        yield activity.c.type != name(filters.exclude_type)


def _unindexed(column: Any) -> Any:
    """A plus sign is how SQLite is told that an index is not wanted."""
    return UnaryExpression(column, operator=custom_op("+"))


def span(filters: Filters, n: Any, *, paged: bool = True) -> Iterator[ColumnElement[bool]]:
    """The times asked for, and where the page before ended."""
    if filters.start_time is not None:
        yield n >= first_of(micros(filters.start_time.timestamp()))
    if filters.end_time is not None:
        yield n < first_of(micros(filters.end_time.timestamp()))
    if paged and filters.cursor is not None:
        yield n < PageCursor.read(filters.cursor).n
