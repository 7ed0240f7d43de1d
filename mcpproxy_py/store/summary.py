"""Counts and durations over the activity. Correct and simple; it reads every row that matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from mcpproxy_py.store.tables import activity

GROUPS = ("status", "type", "intent_type", "server", "tool")
MOST_GROUPS = 100
"""Names of tools come from agents too, who may ask for any number of tools that do not exist."""


def summarise(connection: Connection, where: Sequence[ColumnElement[bool]]) -> dict[str, Any]:
    """`total`, `by_<group>` (the most frequent values and how often; rows without a value are left out) and
    `duration_ms` with `p50` and `p95`, of the rows that match."""
    found: dict[str, Any] = {"total": _count(connection, [*where])}
    for group in GROUPS:
        found[f"by_{group}"] = _by(connection, activity.c[group], where)
    timed = [*where, activity.c.duration_ms.is_not(None)]
    many = _count(connection, timed)
    found["duration_ms"] = {f"p{share}": _percentile(connection, timed, many, share) for share in (50, 95)}
    return found


def _count(connection: Connection, where: Sequence[ColumnElement[bool]]) -> int:
    return connection.execute(select(func.count()).select_from(activity).where(*where)).scalar_one()


def _by(connection: Connection, column: ColumnElement[Any], where: Sequence[ColumnElement[bool]]) -> dict[str, int]:
    often = func.count()
    query = select(column, often).where(*where, column.is_not(None)).group_by(column)
    rows = connection.execute(query.order_by(often.desc(), column).limit(MOST_GROUPS))
    return {value: count for value, count in rows}  # noqa: C416 - dict() does not know what a Row is


def _percentile(connection: Connection, where: Sequence[ColumnElement[bool]], many: int, share: int) -> float | None:
    """The nearest rank: the smallest duration that is not exceeded by this share of all."""
    rank = -(-many * share // 100)
    query = select(activity.c.duration_ms).where(*where).order_by(activity.c.duration_ms).limit(1)
    return connection.execute(query.offset(max(rank - 1, 0))).scalar() if many else None
