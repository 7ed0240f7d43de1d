"""The store as the gateway sees it. `open_store` gives one, and after that only this class is needed."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.files import FolderLock, private_folder
from mcpproxy_py.store.activity.feed import ActivityFeed, FeedBatch, FeedPosition
from mcpproxy_py.store.activity.gap_signals import GapSignals
from mcpproxy_py.store.activity.reader import Filters, Page, Reader
from mcpproxy_py.store.approvals import ApprovalStore
from mcpproxy_py.store.chain_key import Anchor, Identity, has_identity, identity, publish_head, published_head
from mcpproxy_py.store.cluster import membership
from mcpproxy_py.store.cluster.event_bus import RECORDED
from mcpproxy_py.store.cluster.membership import Heartbeat
from mcpproxy_py.store.cluster.oauth_logins import Keys, OAuthLogins
from mcpproxy_py.store.database.engine import READERS, Database, plain
from mcpproxy_py.store.database.import_v1 import adopt
from mcpproxy_py.store.database.last_uses import LastUses
from mcpproxy_py.store.database.migrate import migrate
from mcpproxy_py.store.database.pinned_texts import PinnedTexts
from mcpproxy_py.store.database.reader_threads import ReaderThreads
from mcpproxy_py.store.database.tool_vectors import StoredToolVectors
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.journal.chain import ChainHead
from mcpproxy_py.store.journal.journal import Journal
from mcpproxy_py.store.options import DATABASE, JOURNAL, Options
from mcpproxy_py.store.projection.apply import last_head, read_place
from mcpproxy_py.store.projection.follower import CommitWaiters, JournalFollower
from mcpproxy_py.store.projection.projector import Projector
from mcpproxy_py.store.projection.projector_client import ProjectorProcess, run_apart
from mcpproxy_py.store.projection.retention import Retention
from mcpproxy_py.store.saved_state import SavedState
from mcpproxy_py.store.sealed_records import (
    RecordMemory,
    SealedRecord,
    SealedRecords,
    SealedRecordTable,
    UnbelievedRecord,
    note_last_not_kept,
)
from mcpproxy_py.store.seals import Seals, SwitchMemory, UnbelievedRows

__all__ = ["DATABASE", "JOURNAL", "LOCK", "Options", "Store", "open_store"]

log = logging.getLogger(__name__)

LOCK = "store.lock"
CLOSE_TIMEOUT = 5.0
VERIFY_PATIENCE, READ_PATIENCE, FAILING_PATIENCE, SIZE_PATIENCE = 30.0, 10.0, 2.0, 1.0
NO_DETAILS: Mapping[str, Any] = {}
COMMIT_TIMEOUT = 5.0
"""Seconds that an answer waits for the database, with `ack: commit`."""


def open_store(data_dir: Path, *, options: Options = Options(), apart: bool = False) -> Store:  # noqa: B008
    """Blocks while what an earlier life left in the journal goes into the database. Calls that life had not
    finished are `interrupted` afterwards. With `apart`, a process of its own goes on with that from then on, which
    is what a gateway wants; a thread is enough for everybody else.

    Raises `StoreUnavailable` when another gateway uses this directory, when it cannot be written, or when its
    database is from a newer version or cannot be reached.
    """
    private_folder(data_dir)
    with ExitStack() as undo:
        lock = FolderLock(data_dir / LOCK)
        undo.callback(lock.release)
        used = has_identity(data_dir)
        who, memory, records = identity(data_dir), SwitchMemory(data_dir), RecordMemory(data_dir)
        database = options.database(data_dir)
        undo.callback(database.close)
        migrate(database)
        with _explained(database):
            me = membership.join(database, who)
            undo.callback(_leave, database, me)
            journal = _journal(data_dir, options, who, me, database)
            undo.callback(journal.close)
            saved = SealedState(database, journal, Seals.of(who, options), memory, records)
            saved.begin(adopt=used)
            retention = None if apart else Retention(database, who.sealer(), me.number, options)
            writer = Projector(journal, database, who, me.number, retention)
            adopt(database, journal, writer.drain)
            writer.drain()
            _interrupt_pending(journal, database, me)
            note_last_not_kept(database, me, saved.saved_state, saved.records)
            writer.drain()
        undo.pop_all()
    follower = writer
    if apart:
        told = replace(options, sealing_keys=())  # it has no use for them
        follower = ProjectorProcess(journal, data_dir, writer.place, lock.descriptor, told, writer.unreadable)
    follower.start()
    if journal.head.seq:
        log.info("the chain %s is at %s", who.name, journal.head)
    return Store(lock, database, journal, follower, me, who, options, saved)


def _journal(data_dir: Path, options: Options, who: Identity, me: membership.Membership, database: Database) -> Journal:
    place = read_place(database, who.name) or segment_files.JournalPosition(0, 0)
    with database.reading() as connection:
        head = last_head(connection, me.number)
    journal = Journal(
        data_dir / JOURNAL,
        after=place.segment,
        sealer=who.sealer(),
        head=max(head, published_head(data_dir, who.name)),
        most_bytes=round(options.max_journal_mb * 1e6),
    )
    journal.on_durable = partial(publish_head, data_dir, who.name)
    return journal


class _explained:
    """Failures of a start, in words."""

    def __init__(self, database: Database) -> None:
        self._label = database.label

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, SQLAlchemyError):
            raise StoreUnavailable(
                f"cannot write {self._label}: {plain(error)}. Free some disk space, or check that the database runs."
            ) from error
        if isinstance(error, OSError):
            raise StoreUnavailable(f"cannot read the journal beside {self._label}: {error}.") from error


def _leave(database: Database, me: membership.Membership) -> None:
    with suppress(SQLAlchemyError):  # then the others take us for dead, some seconds later
        membership.leave(database, me)


def _interrupt_pending(journal: Journal, database: Database, me: membership.Membership) -> None:
    with database.reading() as connection:
        pending = membership.pending_of(connection, me.number)
    if pending:
        log.warning("%d calls were in flight when the gateway ended; they are recorded as interrupted", len(pending))
        journal.append(*[membership.interrupted(row_id, time.time()) for row_id in pending])
        journal.sync_now()


class SealedState:
    """What is kept beside the record and only believed with a seal, see `seals`."""

    def __init__(
        self, database: Database, journal: Journal, seals: Seals, memory: SwitchMemory, records: RecordMemory
    ) -> None:
        self._journal = journal
        self._memory = memory
        self.seals = seals
        self.doubts = UnbelievedRows()
        self.saved_state = SavedState(database, seals, memory, self._on_record, self.doubts)
        self.records = SealedRecordTable(database, seals, records, self._on_record, self.doubts)
        self.in_thread = ReaderThreads(READERS, database.label).run
        self.pinned_texts = PinnedTexts(database, self.in_thread)
        self.approvals = ApprovalStore(database, self.in_thread, seals, self._on_record, self.doubts)

    def begin(self, *, adopt: bool) -> None:
        """At every start. What a version before seals has left is taken over once, and never again: from then on a row
        without a seal is one that somebody else wrote. A directory that was never used has nothing to take over."""
        if self._memory.is_new and adopt:
            switches, requests = self.saved_state.adopt(), self.approvals.adopt()
            if switches or requests:
                log.warning("%d switches and %d requests of before they were sealed are taken over as they are; "
                            "see that they are right", switches, requests)  # fmt: skip
        elif not self._memory.is_new and self._memory.key_ids != self.seals.key_ids:
            self.saved_state.seal_again()
            self.approvals.seal_again()
            self.records.seal_again()
        self._memory.begin(self.seals.key_ids)

    def _on_record(self, event: Mapping[str, Any]) -> None:
        self._journal.append(event)
        self._journal.sync_now()


class Store:
    """Made by `open_store`, in use until `close`. `append` belongs to one thread, that of the event loop."""

    def __init__(self, lock: FolderLock, database: Database, journal: Journal, writer: JournalFollower,
                 me: membership.Membership, who: Identity, options: Options, saved: SealedState) -> None:  # fmt: skip
        self._lock, self._database = lock, database
        self._journal, self._writer = journal, writer
        self._me, self._who = me, who
        self._options = options
        self._reader = Reader(database)
        self._saved, self._saved_state = saved, saved.saved_state
        self._stream = ActivityFeed(database, saved.seals)
        self._patience = CommitWaiters(writer)
        writer.on_move = self._moved
        self._in_thread = saved.in_thread
        self.approvals, self.pinned_texts = saved.approvals, saved.pinned_texts
        self.gaps, self.last_uses = GapSignals(database, self._in_thread), LastUses(database, self._in_thread)
        self.tool_vectors = StoredToolVectors(database, self._in_thread)
        self._closed, self.shared = False, database.shared
        self._event_bus = database.event_bus()
        self._heartbeat = Heartbeat(database, me, self._close_calls) if database.shared else None
        self.unacknowledged = 0
        """Answers that left before the database had their record, although they should have waited for it."""
        self.living_gateways = partial(self._in_thread, partial(membership.living, database))

        self.append: Callable[..., None] = journal.append
        """All of these events or none; they have left the process when it returns. Raises `StoreUnavailable`."""
        self.publish: Callable[..., None] = self._event_bus.publish
        self.publish_elsewhere: Callable[..., None] = self._event_bus.publish_elsewhere
        self.on_event = self._event_bus.on_event
        self.acknowledges = options.ack == "commit"
        """Whether `acknowledged` waits for anything."""
        self.synced = journal.synced if options.ack == "local" else self.committed
        """Returns when all that was appended is on the disk; with `ack: commit`, in the database too. Raises
        `StoreUnavailable`."""

    async def committed(self) -> None:
        """Returns when all that was appended is on the disk and in the database. Raises `StoreUnavailable`."""
        await self._journal.synced()
        if not await self._patience.until(self._journal.end, COMMIT_TIMEOUT):
            raise StoreUnavailable(f"{self._database.label} does not take records: {self._writer.last_error}.")

    async def acknowledged(self) -> None:
        """To be awaited before an answer leaves. With `ack: commit` the database has its record then. Where it has
        not after some seconds, the answer leaves all the same, counted: what was done is done, and on record here."""
        if self._options.ack == "commit" and not await self._patience.until(self._journal.end, COMMIT_TIMEOUT):
            self.unacknowledged += 1
            log.error("an answer is sent before %s has its record; the record is in the journal", self._database.label)

    async def caught_up(self, timeout: float | None = None) -> bool:
        """Whether, within this time, everything appended so far can be read. A database that fails is not waited for
        as long as one that is only slow."""
        if timeout is None:
            timeout = READ_PATIENCE if self._writer.last_error is None else FAILING_PATIENCE
        return await self._patience.until(self._journal.end, timeout)

    async def activities(self, filters: Filters) -> Page:
        return await self._in_thread(partial(self._reader.list, filters))

    async def activity(self, activity_id: str) -> dict[str, Any] | None:
        return await self._in_thread(partial(self._reader.get, activity_id))

    async def candidates(self, typed: str) -> list[dict[str, Any]]:
        return await self._in_thread(partial(self._reader.candidates, typed))

    async def summary(self, filters: Filters) -> dict[str, Any]:
        return await self._in_thread(partial(self._reader.summary, filters))

    async def export(self, filters: Filters) -> AsyncIterator[list[dict[str, Any]]]:
        """Everything that matches, newest first, some at a time."""
        pages = self._reader.pages(filters)
        while (page := await self._in_thread(partial(next, pages, None))) is not None:
            if page.activities:
                yield page.activities

    async def anchor(self) -> Anchor:
        """How long the chain is now, for good. Raises `StoreUnavailable`."""
        await self._journal.synced()
        return Anchor.now(self._who.name, self._journal.durable_head)

    async def verify(self, anchor: Anchor | None = None) -> dict[str, Any]:
        """Whether the record is still what was written, also since an anchor; see `verify`. Takes some seconds per
        hundred thousand."""
        published = self._journal.head
        if not await self.caught_up(VERIFY_PATIENCE):
            raise StoreUnavailable("the database is behind the journal; verify when it has caught up.")
        told = f"{self._options.as_line()}\n{published}\n{anchor.line if anchor else ''}\n"
        return json.loads(await run_apart("mcpproxy_py.store.verify", self._journal.folder.parent, told))

    async def position(self) -> FeedPosition:
        """How far the events are now."""
        return await self._stream.now()

    def events(self, after: FeedPosition | None = None, *, brief: bool = False) -> AsyncGenerator[FeedBatch | None]:
        """What happens from now on, or after a position that was given before. To be closed when no longer wanted."""
        return self._stream.follow(after, self._event_bus, brief=brief)

    async def erase(self, activity_id: str, by: Mapping[str, Any]) -> None:
        """Takes the payloads of a record away for good, and all words of others in its events; that it was there, and
        who erased it, stays. The journal's copy goes with its segment, once the database has that."""
        self._journal.begin_afresh()
        self._journal.append({"kind": "erased", "id": activity_id, "at": time.time(), "metadata": {"erased": by}})
        await self.committed()
        await self._in_thread(self._database.scrub)

    async def listing(self, server: str) -> list[dict[str, Any]] | None:
        """The tools this server had when it was last seen."""
        return await self._in_thread(partial(self._saved_state.listing, server))

    async def save_listing(self, server: str, tools: list[dict[str, Any]]) -> None:
        await self._in_thread(partial(self._saved_state.save_listing, server, tools))

    async def switch(self, name: str) -> Any:
        """`None` for one that was never set."""
        return await self._in_thread(partial(self._saved_state.switch, name))

    async def set_switch(self, name: str, value: Any) -> None:
        """Survives a power cut once it has returned. Everybody is told `switch` with its name."""
        await self._in_thread(partial(self._saved_state.set_switch, name, value))
        self.publish("switch", name)

    async def sealed_records(self, kind: str) -> SealedRecords:
        return await self._in_thread(partial(self._saved.records.all, kind))

    async def sealed_record(self, kind: str, name: str) -> SealedRecord | UnbelievedRecord | None:
        return await self._in_thread(partial(self._saved.records.one, kind, name))

    async def put_sealed_record(
        self, kind: str, name: str, value: Any, *, expected: int | None = None, details: Mapping[str, Any] = NO_DETAILS
    ) -> SealedRecord:
        """See `SealedRecordTable.put`. Everybody is told `record` with its kind and name."""
        kept = await self._in_thread(partial(self._saved.records.put, kind, name, value, expected, details))
        self.publish("record", [kind, name])
        return kept

    def oauth_logins(self, keys: Keys) -> OAuthLogins:
        return OAuthLogins(self._database, self._in_thread, self.publish, keys)

    async def spend(self, key: str, expires: float) -> bool:
        """Whether this is the first time, at any gateway of this database, that somebody comes with this key, which
        means nothing any more once it `expires`."""
        return await self._in_thread(partial(self._saved_state.spend, key, expires), COMMIT_TIMEOUT)

    @property
    def head(self) -> ChainHead:
        """How long the chain is; what was published elsewhere shows when its end is cut off."""
        return self._journal.durable_head

    def health(self) -> Mapping[str, Any]:
        """How the store is doing. `writable` says whether the last thing written, or tried out since, went well."""
        size, head = self._journal.size, self._journal.durable_head
        return {
            "writable": not self._closed and self._journal.trouble is None,
            "database": self._database.label,
            "journal_bytes": size,
            "lag_bytes": self._lag(size),
            "lag_seconds": round(self._writer.lag.seconds(self._writer.place), 1),
            "append_failures": self._journal.append_failures,
            "sync_failures": self._journal.sync_failures,
            "projection_failures": self._writer.failures,
            "unreadable_events": self._writer.unreadable,
            "unacknowledged": self.unacknowledged,
            "retention_deleted": self._writer.deleted,
            "torn_bytes": self._journal.torn_bytes,
            "unbelieved": list(self._saved.doubts),
            "chain_events": head.seq,
            "chain_head": str(head),
            "last_error": self._journal.trouble or self._writer.last_error,
        }

    async def size(self) -> int | None:
        """Bytes of the record in the database; None where it does not say so at once."""
        with suppress(SQLAlchemyError, StoreUnavailable):
            return await self._in_thread(self._database.size, SIZE_PATIENCE)
        return None

    def _lag(self, journal_bytes: int) -> int:
        place, end = self._writer.place, self._journal.end
        return end.offset - place.offset if place.segment == end.segment else max(0, journal_bytes - place.offset)

    def _moved(self) -> None:
        self._patience.moved()
        self._event_bus.publish_here(RECORDED, self._me.number)

    def _close_calls(self, ids: list[str]) -> None:
        """What a dead gateway left pending."""
        self._journal.append(*[membership.interrupted(row_id, time.time()) for row_id in ids])

    def close(self) -> None:
        """Blocks until everything is in the database, or for some seconds; the next start does what is left."""
        if self._closed:
            return
        self._closed = True
        if self._heartbeat is not None:
            self._heartbeat.close()
        self._event_bus.close()
        if not self._writer.stop(CLOSE_TIMEOUT):
            log.warning("the database has not caught up with the journal; it will at the next start")
        self._journal.close()
        if self._journal.durable_head.seq:
            log.info("the chain %s ends at %s", self._who.name, self._journal.durable_head)
        (parting := Thread(target=self._part, name="mcpproxy-parting", daemon=True)).start()
        # Beside us, because a database that says nothing would keep us here for ever.
        parting.join(CLOSE_TIMEOUT)
        self._lock.release()

    def _part(self) -> None:
        _leave(self._database, self._me)
        self._database.close()
