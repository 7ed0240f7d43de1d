"""Reading the activity: newest first, page by page, without ever counting or sorting what is not shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mcpproxy_py.store.activity.filters import Bookmark, Filters
from mcpproxy_py.store.activity.pages import WALK, rows_of, shown
from mcpproxy_py.store.activity.summary import summarise
from mcpproxy_py.store.codec import decode
from mcpproxy_py.store.database.columns import at_of
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import activity

__all__ = ["Filters", "Page", "Reader"]

EXPORT_PAGE = 200


@dataclass(frozen=True, slots=True)
class Page:
    activities: list[dict[str, Any]]
    next_cursor: str | None
    """`None` when this page was the last."""


class Reader:
    """Blocking. Every method raises `StoreUnavailable` when the database cannot be read. `walk` is how many rows a
    text search goes through by itself; see `pages`."""

    def __init__(self, database: Database, walk: int = WALK) -> None:
        self._database = database
        self._walk = walk

    def list(self, filters: Filters) -> Page:
        with self._database.reading() as connection:
            rows = rows_of(connection, filters, self._walk)
        shown = rows[: filters.limit]
        more = len(rows) > filters.limit
        return Page([as_json(row) for row in shown], str(Bookmark(shown[-1].n)) if more else None)

    def get(self, activity_id: str) -> dict[str, Any] | None:
        with self._database.reading() as connection:
            row = connection.execute(shown(activity.c.id == activity_id)).first()
        return None if row is None else as_json(row)

    def summary(self, filters: Filters) -> dict[str, Any]:
        """Counts and durations of everything that matches; `limit` and `cursor` mean nothing here."""
        with self._database.reading() as connection:
            return summarise(connection, filters)

    def pages(self, filters: Filters) -> Iterator[Page]:
        """Everything that matches from the cursor on, in pages of the store's own size. Each is a reading of its
        own, so that a slow export does not hold back the database's housekeeping."""
        page = self.list(replace(filters, limit=EXPORT_PAGE))
        yield page
        while page.next_cursor is not None:
            page = self.list(replace(filters, limit=EXPORT_PAGE, cursor=page.next_cursor))
            yield page

    def export(self, filters: Filters) -> Iterator[dict[str, Any]]:
        for page in self.pages(filters):
            yield from page.activities


def as_json(row: Any) -> dict[str, Any]:
    """A row under the names that ACT-1 gives."""
    return {
        "id": row.id,
        "type": row.type,
        "source": row.source,
        "surface": row.surface,
        "server": row.server,
        "tool": row.tool,
        "arguments": _value(row.arguments),
        "response": _value(row.response),
        "arguments_size": row.arguments_size,
        "response_size": row.response_size,
        "status": row.status,
        "error": _value(row.error),
        "duration_ms": row.duration_ms,
        "timestamp": timestamp(at_of(row.n)),
        "session_id": row.session_id,
        "request_id": row.request_id,
        "client": {"name": row.client_name, "version": row.client_version},
        "principal": row.principal,
        "metadata": _value(row.metadata),
    }


def _value(text: str | None) -> Any:
    return None if text is None else decode(text)


def timestamp(micros: int) -> str:
    """RFC 3339, UTC, always with microseconds, so that timestamps sort as text too."""
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
