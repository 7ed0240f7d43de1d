"""Taking away what is old, or too much (ACT-7): in small batches, by whoever writes the database, between batches of
new records. Nothing waits for it, and the file shrinks.

The chain stays verifiable. Before the events go, a sealed checkpoint says up to which one they may be gone and with
which hash the chain goes on, and before which moment rows may be missing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert, select

from mcpproxy_py.store.database.columns import at_of, first_of
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.tables import activity, checkpoints, events, gateways, rollup, words
from mcpproxy_py.store.journal.chain import Sealer
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.projection.rollups import DAY, RollupDelta

log = logging.getLogger(__name__)

EVERY: Final = 60.0
"""Seconds between two looks."""
SLICE: Final = 0.05
"""Seconds at a time, so that new records are not kept waiting."""
ROWS_AT_ONCE: Final = 250
EVENTS_AT_ONCE: Final = 500
_ENOUGH: Final = 0.9
"""Over the limit, this much of it is kept, so that not every new record pushes out an old one."""
_COUNTED: Final = [activity.c[name] for name in ("n", "gateway", "type", "server", "tool", "intent_type", "status",
                                                 "duration_ms")]  # fmt: skip


class Retention:
    """`step` does a little, when there is something to do. `sealer` is of the gateway that does it."""

    def __init__(self, database: Database, sealer: Sealer, me: int, options: Options) -> None:
        self._database = database
        self._sealer = sealer
        self._me = me
        self._days = options.retention_days
        self._bytes = options.max_size_mb * 1e6 if options.max_size_mb is not None else None
        self._next_look = 0.0
        self._before: int | None = None
        self._shrinking = False
        self.deleted = 0

    @property
    def busy(self) -> bool:
        return self._before is not None or self._shrinking

    def step(self) -> None:
        """Some of it, for at most some hundredths of a second."""
        if not self.busy:
            self._look()
        until = time.monotonic() + SLICE
        while self.busy and time.monotonic() < until:
            self._go_on()

    def _go_on(self) -> None:
        if self._before is None:
            self._shrinking = self._database.give_back()
        elif not self._delete_some(self._before):
            log.info("records from before %s were deleted", _day(self._before))
            self._before, self._shrinking = None, True

    # -- what has to go

    def _look(self) -> None:
        if time.monotonic() < self._next_look or (self._days is None and self._bytes is None):
            return
        self._next_look = time.monotonic() + EVERY
        before = max(self._too_old(), self._too_much())
        with self._database.reading() as connection:
            if not self._anything(connection, before):
                return
            marks = list(_marks(connection, before))
        with self._database.writing() as connection:
            self._database.lock_for_changes(connection)  # one gateway at a time sets the marks
            for mark in marks:
                self._checkpoint(connection, *mark, before)
        self._before = before

    def _too_old(self) -> int:
        return 0 if self._days is None else round((time.time() - self._days * 86_400) * 1e6)

    def _too_much(self) -> int:
        """The moment before which enough would have to go."""
        if self._bytes is None or (size := self._database.size()) <= self._bytes:
            return 0
        with self._database.reading() as connection:
            many = int(connection.execute(select(func.sum(rollup.c.many)).where(rollup.c.span == DAY)).scalar() or 0)
            surplus = int(many * (1 - _ENOUGH * self._bytes / size))
            query = select(activity.c.n).order_by(activity.c.n).offset(surplus).limit(1)
            last = connection.execute(query).scalar()
        return 0 if last is None else at_of(last)

    def _anything(self, connection: Connection, before: int) -> bool:
        old = select(activity.c.n).where(activity.c.n < first_of(before)).limit(1)
        return connection.execute(old).first() is not None

    def _checkpoint(self, connection: Connection, chain: int, seq: int, mac: str, before: int) -> None:
        there = connection.execute(select(checkpoints.c.seq).where(checkpoints.c.chain == chain)).scalar()
        if there is not None and there >= seq:
            return  # another gateway was quicker
        connection.execute(delete(checkpoints).where(checkpoints.c.chain == chain))
        seal = self._sealer.seal("checkpoint", chain, seq, mac, before)
        values: dict[str, Any] = {"chain": chain, "seq": seq, "mac": mac, "before": before}
        connection.execute(insert(checkpoints).values(**values, sealed_by=self._me, seal=seal))

    # -- making it go

    def _delete_some(self, before: int) -> bool:
        with self._database.writing() as connection:
            rows = self._delete_rows(connection, before)
            gone = self._delete_events(connection)
        self.deleted += rows
        return rows > 0 or gone > 0

    def _delete_rows(self, connection: Connection, before: int) -> int:
        oldest = select(*_COUNTED).where(activity.c.n < first_of(before)).order_by(activity.c.n).limit(ROWS_AT_ONCE)
        rows = connection.execute(oldest.with_for_update(skip_locked=True)).all()
        if rows:
            ids = [row.n for row in rows]
            connection.execute(delete(words).where(words.c.rowid.in_(ids)))
            connection.execute(delete(activity).where(activity.c.n.in_(ids)))
            tally = RollupDelta()
            for row in rows:
                tally.count(row._asdict(), -1)
            tally.write(self._database, connection)
        return len(rows)

    def _delete_events(self, connection: Connection) -> int:
        gone = 0
        for chain, seq in connection.execute(select(checkpoints.c.chain, checkpoints.c.seq)).all():
            first = connection.execute(select(func.min(events.c.seq)).where(events.c.chain == chain)).scalar()
            if first is not None and first <= seq:
                upto = min(seq, first + EVENTS_AT_ONCE - 1)
                old = delete(events).where(events.c.chain == chain, events.c.seq <= upto)
                gone += connection.execute(old).rowcount
        return gone


def _marks(connection: Connection, before: int) -> Iterator[tuple[int, int, str]]:
    """For every chain, the event up to which it may be missing: the last one before the first that has to stay."""
    of_chain = select(events.c.seq, events.c.mac)
    for chain in connection.execute(select(gateways.c.number)).scalars().all():
        ours = events.c.chain == chain
        stays = select(events.c.seq).where(ours, events.c.at >= before).order_by(events.c.seq).limit(1)
        first = connection.execute(stays).scalar()
        older = of_chain.where(ours) if first is None else of_chain.where(ours, events.c.seq < first)
        row = connection.execute(older.order_by(events.c.seq.desc()).limit(1)).first()
        if row is not None:
            yield chain, row.seq, row.mac


def _day(micros: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(micros / 1e6))
