"""Reading the activity: newest first, page by page, without ever counting or sorting what is not shown.

Finding the rows of a page without looking at many more than it shows, whatever is asked for.

A filter alone is followed along its index. A text can be looked for in two ways: go through the newest rows that the
other filters let through and read the words of each, or ask the index of words. The first is quick where most have
the words, the second where few have; the engines cannot tell which, so it is tried: so many rows are gone through,
and only where those did not fill the page does the index find the rest. By then it is known that it finds little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, case, func, null, select

from mcpproxy_py.core.record.short_ids import id_ranges
from mcpproxy_py.store.activity.filters import Filters, PageCursor, equalities, span
from mcpproxy_py.store.activity.summary import MOST_REFUSED, MOST_SAMPLED, SAMPLED, of_sample, refusals, summarise
from mcpproxy_py.store.codec import decode
from mcpproxy_py.store.database.columns import at_of, within
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import activity, words
from mcpproxy_py.store.database.text_search import asked_words, matching, saying

WALK: Final = 2000
"""Rows whose words are read before the index is asked: some milliseconds."""
_SHOWN: Final = [column for column in activity.c if column.name not in ("gateway", "tool_variant", "intent_type")]


_SEARCHED = case((activity.c.type == "tool_search", activity.c.arguments))
_BRIEF: Final = {"arguments": _SEARCHED.label("arguments"), "response": null().label("response")}
"""Without payloads; what a search looked for is all that it says of itself."""


def shown(*where: ColumnElement[bool], brief: bool = False) -> Select[Any]:
    """Rows that `activity.as_json` can show."""
    query: Any = select(*(_BRIEF.get(column.name, column) if brief else column for column in _SHOWN))
    return query.where(*where)


def rows_of(
    connection: Connection, filters: Filters, walk: int = WALK, columns: Sequence[Any] = _SHOWN, many: int | None = None
) -> Sequence[Any]:
    """The rows of one page, and one more where there is another page; or so `many`."""
    dialect, many = connection.dialect.name, filters.limit + 1 if many is None else many
    if not filters.q:
        return connection.execute(page_query(filters, dialect, columns).limit(many)).all()
    found: list[Any] = []
    edge: int | None = None
    if _walks(filters, dialect):
        edge = connection.execute(_edge(filters, dialect, walk)).scalar()
        found += connection.execute(_walk(filters, dialect, edge, columns).limit(many))
        if edge is None or len(found) == many:
            return found
    rest = look_up_query(filters, dialect, edge, columns).limit(many - len(found))
    return [*found, *connection.execute(rest)]


def page_query(filters: Filters, dialect: str, columns: Any = _SHOWN) -> Select[Any]:
    """Without a text to look for: along the index of the filter that lets the fewest through."""
    query: Any = select(*columns)
    return query.where(*_conditions(filters, dialect)).order_by(activity.c.n.desc())


def _conditions(filters: Filters, dialect: str) -> Iterator[ColumnElement[bool]]:
    yield from equalities(filters, dialect)
    yield from span(filters, activity.c.n)


def _walks(filters: Filters, dialect: str) -> bool:
    """SQLite's index gives the newest of a word at once, so it is best asked first; but not for all words that begin
    somehow, which it has to gather first, or where other filters let few of them through."""
    return dialect != "sqlite" or any(star for _, star in asked_words(filters.q or "")) or filters.equals_any


def _edge(filters: Filters, dialect: str, walk: int) -> Select[Any]:
    """Where going through the rows ends; nowhere, where there are so few."""
    of_filters = select(activity.c.n).where(*_conditions(filters, dialect))
    return of_filters.order_by(activity.c.n.desc()).offset(walk).limit(1)


def _walk(filters: Filters, dialect: str, edge: int | None, columns: Sequence[Any]) -> Select[Any]:
    query = page_query(filters, dialect, columns).where(saying(dialect, filters.q or "", activity.c.n))
    return query if edge is None else query.where(activity.c.n > edge)


def look_up_query(filters: Filters, dialect: str, edge: int | None = None, columns: Any = _SHOWN) -> Select[Any]:
    """What the index of words finds; from row `edge` back, where the rows after it were gone through already."""
    n: Any = words.c.rowid
    # The zero keeps PostgreSQL from gathering all older rows from another index, only to find these few among them.
    row = n if dialect == "sqlite" else n + 0
    hits = select(n).where(matching(dialect, filters.q or ""), *span(filters, row))
    if edge is not None:
        hits = hits.where(row <= edge)
    if dialect != "sqlite":  # whose index gives its hits in order; PostgreSQL would guess how many there are, and wrong
        n = hits.cte("hits").prefix_with("MATERIALIZED").c.rowid
        hits = select(n)
    found = hits.order_by(n.desc()).subquery("found")
    # The zero keeps PostgreSQL from going through all rows in step with the few that were found.
    both = found.join(activity, activity.c.n == found.c.rowid + 0)
    query: Any = select(*columns)
    query = query.where(*equalities(filters, dialect, by_index=False))
    return query.select_from(both).order_by(found.c.rowid.desc())


__all__ = ["Filters", "Page", "Reader"]

EXPORT_PAGE = 200
MOST_CANDIDATES: Final = 10
_NAMED: Final = [activity.c[column] for column in ("id", "n", "server", "tool", "status")]


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
        return Page([as_json(row) for row in shown], str(PageCursor(shown[-1].n)) if more else None)

    def get(self, activity_id: str) -> dict[str, Any] | None:
        with self._database.reading() as connection:
            row = connection.execute(shown(activity.c.id == activity_id)).first()
        if row is None:
            return None
        rounds = _value(row.metadata).get("rounds", ())
        return {**as_json(row), "rounds": [{**each, "at": timestamp(each["at"])} for each in rounds]}

    def candidates(self, typed: str) -> list[dict[str, Any]]:
        """What a short form, or the beginning of an id, can mean: some words on each, and at most one more than
        `MOST_CANDIDATES`."""
        found: dict[str, Any] = {}
        with self._database.reading() as connection:
            first, last = (connection.execute(select(edge(activity.c.n))).scalar() for edge in (func.min, func.max))
            if first is None or last is None:
                return []
            for ids in id_ranges(typed, at_of(first) // 1000, at_of(last) // 1000):
                query = select(*_NAMED).where(within(activity.c.id, ids)).order_by(activity.c.id.desc())
                rows = connection.execute(query.limit(MOST_CANDIDATES + 1 - len(found)))
                found |= {row.id: row for row in rows}
                if len(found) > MOST_CANDIDATES:
                    break
        return [{"id": row.id, "timestamp": timestamp(at_of(row.n)), "server": row.server, "tool": row.tool,
                 "status": row.status} for row in found.values()]  # fmt: skip

    def summary(self, filters: Filters) -> dict[str, Any]:
        """Counts and durations of everything that matches; `limit` and `cursor` mean nothing here."""
        with self._database.reading() as connection:
            filters = replace(filters, cursor=None)
            newest = rows_of(connection, filters, self._walk, SAMPLED, MOST_SAMPLED + 1)
            refused = newest
            if len(newest) > MOST_SAMPLED and filters.status in (None, "blocked"):
                of_refused = replace(filters, status="blocked")
                refused = rows_of(connection, of_refused, self._walk, SAMPLED, MOST_REFUSED + 1)
            return summarise(connection, filters) | of_sample(newest) | refusals(refused)

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
        "metadata": {key: value for key, value in _value(row.metadata).items() if key != "rounds"},
    }


def _value(text: str | None) -> Any:
    return None if text is None else decode(text)


def timestamp(micros: int) -> str:
    """RFC 3339, UTC, always with microseconds, so that timestamps sort as text too."""
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
