"""The signs in the activity that something was missing, as `core.catalog.gaps` takes them (MISS-3).

Each kind is read newest first and up to a bound, so that a report over millions of records takes seconds at most.
Times are read off the ids, which are ordered by time whatever engine and whatever tables keep them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

from sqlalchemy import ColumnElement, Connection, select

from mcpproxy_py.core.catalog.gaps import GapSignal, Kind, mentions_lack
from mcpproxy_py.core.record.short_ids import first_id, millis_of
from mcpproxy_py.store.codec import decode
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import activity

T = TypeVar("T")
Read = Callable[[Connection, Any], GapSignal | None]

MOST: Final = 2_000
"""Records of a kind."""
FOLLOW_UP_MS: Final = 600_000
"""A search is met where the same principal and client call a tool within this time."""
FOUND_NOTHING: Final = '%"total":0,%'
"""In the response to a search; what a tool says of itself stands there with its quotes escaped."""


class GapReaderThread(Protocol):
    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class GapReading:
    sightings: list[GapSignal]
    cut: list[Kind]
    """Kinds of which there were more than are read."""


class GapSignals:
    """Raises `StoreUnavailable`."""

    def __init__(self, database: Database, in_thread: GapReaderThread) -> None:
        self._database = database
        self._in_thread = in_thread

    async def seen(self, since_ms: int) -> GapReading:
        return await self._in_thread(partial(self._seen, since_ms))

    def _seen(self, since_ms: int) -> GapReading:
        recent = activity.c.id >= first_id(since_ms)
        sightings: list[GapSignal] = []
        cut: list[Kind] = []
        with self._database.reading() as connection:
            for kind, (where, read) in _KINDS.items():
                rows = connection.execute(_query(recent, where)).all()
                sightings += _read(connection, rows[:MOST], read)
                if len(rows) > MOST:
                    cut.append(kind)
        return GapReading(sightings, cut)


def _query(*where: ColumnElement[bool]) -> Any:
    unmet = activity.c.response.like(FOUND_NOTHING).label("found_nothing")
    wanted = ("id", "server", "tool", "error", "arguments", "metadata", "principal", "client_name")
    columns = [activity.c[name] for name in wanted]
    return select(*columns, unmet).where(*where).order_by(activity.c.id.desc()).limit(MOST + 1)


def _read(connection: Connection, rows: Sequence[Any], read: Read) -> Iterator[GapSignal]:
    for row in rows:
        if (sighting := read(connection, row)) is not None:
            yield sighting


def _said(kind: Kind, row: Any, subject: Any, text: Any = "") -> GapSignal | None:
    """`None` where what was said is gone: erased, or cut to fit."""
    if not isinstance(subject, str) or not subject.strip():
        return None
    return GapSignal(kind, subject, millis_of(row.id), row.id, text if isinstance(text, str) else "")


def _request(connection: Connection, row: Any) -> GapSignal | None:
    return _said("request", row, _object(row.arguments).get("capability"))


def _formal_request(connection: Connection, row: Any) -> GapSignal | None:
    wish = _object(row.arguments)
    return _said("formal_request", row, wish.get("catalog_slug") or wish.get("mcp_name"), wish.get("rationale"))


def _passive(connection: Connection, row: Any) -> GapSignal | None:
    reason = _object(_object(row.metadata).get("intent")).get("reason")
    return _said("passive", row, reason) if isinstance(reason, str) and mentions_lack(reason) else None


def _unmet(connection: Connection, row: Any) -> GapSignal | None:
    met = not row.found_nothing and _followed(connection, row)
    return None if met else _said("unmet_search", row, _object(row.arguments).get("query"))


def _followed(connection: Connection, row: Any) -> bool:
    until = first_id(millis_of(row.id) + FOLLOW_UP_MS)
    call = select(activity.c.id).where(
        activity.c.type == "tool_call",
        activity.c.server.is_not(None),
        activity.c.principal == row.principal,
        activity.c.client_name == row.client_name,
        activity.c.id > row.id,
        activity.c.id < until,
    )
    return connection.execute(call.limit(1)).first() is not None


def _refused(connection: Connection, row: Any) -> GapSignal | None:
    return _said("refused", row, f"{row.server}:{row.tool}", _object(row.error).get("message"))


def _failing(connection: Connection, row: Any) -> GapSignal | None:
    return _said("failing", row, f"{row.server}:{row.tool}", _object(row.error).get("message"))


def _object(value: Any) -> Mapping[str, Any]:
    found = decode(value) if isinstance(value, str) else value
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


_A_CALL: Final = activity.c.type == "tool_call"
_OF_A_SERVER: Final = activity.c.server.is_not(None)
_KINDS: Final[Mapping[Kind, tuple[ColumnElement[bool], Read]]] = {
    "request": (_A_CALL & (activity.c.tool == "request_capability") & activity.c.server.is_(None)
                & (activity.c.status == "success"), _request),
    "formal_request": ((activity.c.tool == "mcp_request_capability") & (activity.c.server == "catalog")
                       & (activity.c.status == "success"), _formal_request),
    "passive": (_A_CALL & activity.c.metadata.like('%"source":"passive"%'), _passive),
    "unmet_search": ((activity.c.type == "tool_search") & (activity.c.status == "success"), _unmet),
    "refused": (_A_CALL & _OF_A_SERVER & (activity.c.status == "blocked"), _refused),
    "failing": (_A_CALL & _OF_A_SERVER & activity.c.status.in_(("error", "timeout")), _failing),
}  # fmt: skip
"""Where each kind stands in the activity, and how it is read."""
