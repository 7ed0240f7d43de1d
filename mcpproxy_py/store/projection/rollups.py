"""Counts that are kept instead of counted: how many records of each sort there were in each hour and day, and how long
they took. They change in the transaction that changes the rows, so they are never wrong, and only coarse about
durations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import add
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, case, delete

from mcpproxy_py.store.database.columns import at_of
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import BUCKETS, rollup

HOUR: Final = 3_600_000_000
DAY: Final = 24
"""Hours. What is counted is each hour, each day, and everything."""
EVER: Final = 0
KEY_LIMIT: Final = 120
_FACTOR: Final = 1.6
BOUNDS: Final = tuple(0.1 * _FACTOR**step for step in range(BUCKETS - 1))
"""Milliseconds. A bucket holds what is over the bound before it and not over its own; the last has none."""
BUCKET_NAMES: Final = tuple(f"b{bucket:02}" for bucket in range(BUCKETS))
GROUPS: Final = ("type", "server", "tool", "intent_type", "status")


_Sort = tuple[int, int, str, str, str, str, str]
"""What is counted together: hour, gateway, and the groups. A name that a record lacks is empty."""


def bucket_column(duration: ColumnElement[Any]) -> ColumnElement[Any]:
    """The bucket of each row, found by the database."""
    return case(*((duration <= bound, bucket) for bucket, bound in enumerate(BOUNDS)), else_=BUCKETS - 1)


@lru_cache(maxsize=4096)
def key_part(name: str | None) -> str:
    """A name as part of a key. PostgreSQL takes no key of more than 2,700 bytes, and agents ask for what they like."""
    if name is None or len(name) <= KEY_LIMIT:
        return name or ""
    return f"{name[:KEY_LIMIT]}…{sha256(name.encode()).hexdigest()[:16]}"


class RollupDelta:
    """Changes to the counts, gathered while a batch is written."""

    def __init__(self) -> None:
        self._counts: dict[_Sort, list[int]] = {}
        """How many of each sort, and how many of those are in each bucket."""
        self._fewer = False

    def count(self, row: Mapping[str, Any], by: int = 1) -> None:
        """A row that is there from now on or, with a `by` of -1, that was."""
        sort = (at_of(row["n"]) // HOUR, row["gateway"], row["type"], key_part(row["server"]), key_part(row["tool"]),
                key_part(row["intent_type"]), row["status"])  # fmt: skip
        counts = self._counts.get(sort)
        if counts is None:
            counts = self._counts[sort] = [0] * (1 + BUCKETS)
        counts[0] += by
        self._fewer = self._fewer or by < 0
        duration = row["duration_ms"]
        if duration is not None:
            counts[1 + bisect_left(BOUNDS, duration)] += by

    def write(self, database: Database, connection: Connection) -> None:
        """In an order that is the same for everybody, so that no two gateways wait for each other."""
        totals: dict[tuple[int, _Sort], list[int]] = {}
        for sort, counts in self._counts.items():
            for key in _spans_of(sort):
                total = totals.get(key)
                totals[key] = counts if total is None else list(map(add, total, counts))
        rows = [(span, *sort, *counts) for (span, sort), counts in sorted(totals.items())]
        database.add_many(connection, rollup, rows)
        if self._fewer:
            connection.execute(delete(rollup).where(rollup.c.many <= 0))


def _spans_of(sort: _Sort) -> tuple[tuple[int, _Sort], ...]:
    return (1, sort), (DAY, (sort[0] // DAY * DAY, *sort[1:])), (EVER, (0, *sort[1:]))


def percentile(took: Sequence[int], share: int) -> float | None:
    """The duration that this share of all do not exceed, as well as the buckets tell."""
    rank = -(-sum(took) * share // 100)
    seen = 0
    for bucket, many in enumerate(took):
        if many and seen + many >= rank:
            return round(_within(bucket, (rank - seen) / many), 3)
        seen += many
    return None


def _within(bucket: int, share: float) -> float:
    """Durations in a bucket are taken to be spread evenly over it; in the last, which is open, to be at its start."""
    if bucket == len(BOUNDS):
        return BOUNDS[-1]
    low = BOUNDS[bucket - 1] if bucket else 0.0
    return low + (BOUNDS[bucket] - low) * share


def exact_durations(took: Sequence[float]) -> dict[str, float | None]:
    """By the nearest rank: each is the duration of a call that was made."""
    ranked = sorted(took)
    return {f"p{share}": ranked[-(-len(ranked) * share // 100) - 1] if ranked else None for share in (50, 95)}


def durations(took: Sequence[int]) -> dict[str, float | None]:
    return {f"p{share}": percentile(took, share) for share in (50, 95)}
