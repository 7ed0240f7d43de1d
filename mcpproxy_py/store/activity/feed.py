"""What happens, as it happens: events in the order of their chains, resumable from any of them (ACT-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, func, select

from mcpproxy_py.store.activity.reader import as_json, shown
from mcpproxy_py.store.approvals import requests
from mcpproxy_py.store.cluster.event_bus import RECORDED, RESYNC, EventBus
from mcpproxy_py.store.codec import decode
from mcpproxy_py.store.database.columns import name
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.reader_threads import ReaderThreads
from mcpproxy_py.store.database.tables import activity, approvals, events, gateways
from mcpproxy_py.store.journal.entries import ROUND_KINDS, JournalEntry, entry_of
from mcpproxy_py.store.seals import Seals

AT_ONCE: Final = 100
QUIET: Final = 15.0
"""Seconds after which even nothing is told, so that everybody in between keeps the connection."""
PACE: Final = 0.2
"""Seconds from one reading to the next for the same listener. What happened in between is read together: a reading for
each event would cost the calls more than the calls do."""
READERS: Final = 2
"""Threads for all streams together; whoever lists and searches has others."""


class FeedPosition(NamedTuple):
    """How far each chain was told. As text it is what a client gives back to go on from there."""

    seqs: Mapping[int, int]

    def __str__(self) -> str:
        return ",".join(f"{chain}:{seq}" for chain, seq in sorted(self.seqs.items()))

    @classmethod
    def read(cls, text: str) -> FeedPosition:
        """Raises `ValueError` for anything that was not given out."""
        try:
            pairs = [part.split(":") for part in text.split(",")] if text else []
            seqs = {int(chain): int(seq) for chain, seq in pairs}
        except ValueError:
            seqs = None
        if seqs is None or str(cls(seqs)) != text or any(not 0 <= n < 1 << 62 for pair in seqs.items() for n in pair):
            raise ValueError("this is not an event id that this gateway issued")
        return cls(seqs)


class FeedEvent(NamedTuple):
    """One event: what a client gives back to go on after it, its kind, and the record, or request for a capability,
    as it is now."""

    position: FeedPosition
    kind: str
    record: dict[str, Any] | None


class FeedBatch:
    """Some events in a row. Listeners that are equally far are given the same one."""

    __slots__ = ("encoded", "events")

    def __init__(self, events: Sequence[FeedEvent]) -> None:
        self.events = events
        self.encoded: bytes | None = None
        """As it is sent, once somebody has written it down: that costs more than reading it does."""


APPROVAL: Final = "approval"
CONFIRMATION: Final = "confirmation"


class ActivityFeed:
    def __init__(self, database: Database, seals: Seals) -> None:
        self._database = database
        self._seals = seals
        self._in_thread = ReaderThreads(READERS, database.label).run
        self._readings: dict[tuple[str, bool], asyncio.Task[FeedBatch | None]] = {}

    async def follow(
        self, after: FeedPosition | None, event_bus: EventBus, *, brief: bool = False
    ) -> AsyncGenerator[FeedBatch | None]:
        """Endless. `None` only says that the line is alive. Nothing is kept for a slow listener: it is read from the
        database when it comes for more; those who keep up read together. `brief`: without arguments and answers."""
        notifications, loop = asyncio.Event(), asyncio.get_running_loop()

        def heard(kind: str, payload: Any) -> None:
            if kind in (RECORDED, RESYNC) and not loop.is_closed():
                loop.call_soon_threadsafe(notifications.set)

        end = event_bus.on_event(heard)
        try:
            position = await self.now() if after is None else after
            yield FeedBatch([FeedEvent(position, "hello", None)])
            while True:
                notifications.clear()
                while batch := await self._read_together(position, brief):
                    yield batch
                    position = batch.events[-1].position
                    if len(batch.events) < AT_ONCE:
                        await asyncio.sleep(PACE - loop.time() % PACE)  # all at the same time
                try:
                    async with asyncio.timeout(QUIET):
                        await notifications.wait()
                except TimeoutError:
                    yield None
        finally:
            end()

    async def _read_together(self, position: FeedPosition, brief: bool) -> FeedBatch | None:
        key = (str(position), brief)
        reading = self._readings.get(key)
        if reading is None:
            reading = self._readings[key] = asyncio.create_task(self._read(position, brief))
            reading.add_done_callback(partial(self._was_read, key))
        return await asyncio.shield(reading)

    def _was_read(self, key: tuple[str, bool], reading: asyncio.Task[FeedBatch | None]) -> None:
        del self._readings[key]
        if not reading.cancelled():
            reading.exception()  # where everybody who waited has left, nobody else asks for it

    async def _read(self, position: FeedPosition, brief: bool) -> FeedBatch | None:
        found = await self._in_thread(partial(self._after, position, brief))
        return FeedBatch(found) if found else None

    async def now(self) -> FeedPosition:
        """Where somebody begins who wants nothing from before."""
        return await self._in_thread(self._now)

    def _now(self) -> FeedPosition:
        with self._database.reading() as connection:
            chains = connection.execute(select(gateways.c.number)).scalars().all()
            last = (select(func.max(events.c.seq)).where(events.c.chain == chain) for chain in chains)
            return FeedPosition({chain: connection.execute(query).scalar() or 0
                             for chain, query in zip(chains, last, strict=True)})  # fmt: skip

    def _after(self, position: FeedPosition, brief: bool) -> list[FeedEvent]:
        found: list[FeedEvent] = []
        with self._database.reading() as connection:
            for chain in connection.execute(select(gateways.c.number).order_by(gateways.c.number)).scalars().all():
                later = events.c.chain == chain, events.c.seq > position.seqs.get(chain, 0)
                query = select(events.c.seq, events.c.head).where(*later).order_by(events.c.seq).limit(AT_ONCE)
                told = [entry_of(seq, head, b"", "", _event(head)) for seq, head in connection.execute(query)]
                subjects = _Subjects(connection, told, self._seals, brief)
                for entry in told:
                    position = FeedPosition({**position.seqs, chain: entry.seq})
                    found.append(FeedEvent(position, *subjects.of(entry)))
        return found


class _Subjects:
    """What some events are about, as it is now."""

    def __init__(self, connection: Connection, told: Sequence[JournalEntry], seals: Seals, brief: bool) -> None:
        ids = {entry.key for entry in told if entry.key is not None}
        offers_requests = {name(entry.event.get("id")) for entry in told if entry.kind == APPROVAL}
        self._records = {row.id: as_json(row) for row in connection.execute(shown(activity.c.id.in_(ids), brief=brief))}
        known = requests(connection, seals, approvals.c.id.in_(offers_requests)) if offers_requests else []
        self._wishes = {request.id: request.in_full() for request in known}

    def of(self, entry: JournalEntry) -> tuple[str, dict[str, Any] | None]:
        if entry.key is not None and entry.kind not in ROUND_KINDS:
            return entry.kind, self._records.get(entry.key)
        if entry.kind == CONFIRMATION:
            return CONFIRMATION, {"id": name(entry.event.get("id")), "status": name(entry.event.get("status"))}
        wish = self._wishes.get(name(entry.event.get("id")) or "") if entry.kind == APPROVAL else None
        return ("other", None) if wish is None else (APPROVAL, wish)


def _event(head: str) -> Mapping[str, Any]:
    try:
        event = decode(head)
    except (ValueError, RecursionError):
        event = None
    return event if isinstance(event, dict) else {}
