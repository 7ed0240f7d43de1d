"""The store as the gateway sees it. `open_store` gives one, and after that only this class is needed."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.store import segments
from mcpproxy_py.store.activity import Filters, Page, Reader
from mcpproxy_py.store.apart import DATABASE, JOURNAL
from mcpproxy_py.store.approvals import Approvals
from mcpproxy_py.store.database import READERS, Database, plain
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.store.files import FolderLock, private_folder
from mcpproxy_py.store.follower import Follower
from mcpproxy_py.store.gaps import Gaps
from mcpproxy_py.store.journal import Journal
from mcpproxy_py.store.ledger import read_place
from mcpproxy_py.store.migrate import migrate
from mcpproxy_py.store.remote import Remote
from mcpproxy_py.store.shelf import Shelf
from mcpproxy_py.store.tables import activity
from mcpproxy_py.store.writer import Writer

log = logging.getLogger(__name__)
T = TypeVar("T")

LOCK = "store.lock"
GATEWAY_DIED = {
    "code": "INTERRUPTED",
    "message": "the gateway ended before this call did; the upstream may have acted",
}
CLOSE_TIMEOUT = 5.0


def open_store(data_dir: Path, *, apart: bool = False) -> Store:
    """Blocks while what an earlier life left in the journal goes into the database. Calls that life had not
    finished are `interrupted` afterwards. With `apart`, a process of its own goes on with that from then on, which
    is what a gateway wants; a thread is enough for everybody else.

    Raises `StoreUnavailable` when another gateway uses this directory, when it cannot be written, or when its
    database is from a newer version.
    """
    private_folder(data_dir)
    with ExitStack() as undo:
        lock = FolderLock(data_dir / LOCK)
        undo.callback(lock.release)
        database = Database(data_dir / DATABASE)
        undo.callback(database.close)
        migrate(database)
        place = read_place(database) or segments.Place(0, 0)
        journal = Journal(data_dir / JOURNAL, after=place.segment)
        undo.callback(journal.close)
        writer = Writer(journal, database, place)
        _catch_up(writer, database)
        _interrupt_pending(journal, database)
        _catch_up(writer, database)
        undo.pop_all()
    follower = Remote(journal, data_dir, writer.place, lock.descriptor, writer.unreadable) if apart else writer
    follower.start()
    return Store(lock, database, journal, follower)


def _catch_up(writer: Writer, database: Database) -> None:
    try:
        writer.drain()
    except SQLAlchemyError as error:
        raise StoreUnavailable(f"cannot write {database.path}: {plain(error)}. Free some disk space.") from error
    except OSError as error:
        raise StoreUnavailable(f"cannot read the journal beside {database.path}: {error}.") from error


def _interrupt_pending(journal: Journal, database: Database) -> None:
    with database.reading() as connection:
        pending = connection.execute(select(activity.c.id).where(activity.c.status == "pending")).scalars().all()
    if pending:
        log.warning("%d calls were under way when the gateway ended; they are recorded as interrupted", len(pending))
        journal.append(*[_interrupted(row_id) for row_id in pending])
        journal.sync_now()


def _interrupted(row_id: str) -> dict[str, Any]:
    return {
        "kind": "finished", "id": row_id, "at": time.time(), "status": "interrupted", "error": GATEWAY_DIED,
        "response": None, "response_size": 0, "duration_ms": None, "metadata": {},
    }  # fmt: skip


class Store:
    """Made by `open_store`, in use until `close`. `append` belongs to one thread, that of the event loop."""

    def __init__(self, lock: FolderLock, database: Database, journal: Journal, writer: Follower) -> None:
        self._lock = lock
        self._database = database
        self._journal = journal
        self._writer = writer
        self._reader = Reader(database)
        self._shelf = Shelf(database)
        self._threads = anyio.CapacityLimiter(READERS)
        self.approvals = Approvals(database, self._in_thread)
        self.gaps = Gaps(database, self._in_thread)
        self._closed = False
        self.append: Callable[..., None] = journal.append
        """All of these events or none; they have left the process when it returns. Raises `StoreUnavailable`."""
        self.synced = journal.synced
        """Awaited, returns when all that was appended is on the disk. Raises `StoreUnavailable`."""

    async def caught_up(self, timeout: float = 2.0) -> bool:
        """Whether, within this time, everything appended so far can be read."""
        end = self._journal.end
        if self._writer.place >= end:
            return True
        return await self._in_thread(partial(self._writer.wait_for, end, timeout))

    async def activities(self, filters: Filters) -> Page:
        return await self._in_thread(partial(self._reader.list, filters))

    async def activity(self, activity_id: str) -> dict[str, Any] | None:
        return await self._in_thread(partial(self._reader.get, activity_id))

    async def summary(self, filters: Filters) -> dict[str, Any]:
        return await self._in_thread(partial(self._reader.summary, filters))

    async def export(self, filters: Filters) -> AsyncIterator[list[dict[str, Any]]]:
        """Everything that matches, newest first, some at a time."""
        pages = self._reader.pages(filters)
        while (page := await self._in_thread(partial(next, pages, None))) is not None:
            if page.activities:
                yield page.activities

    async def listing(self, server: str) -> list[dict[str, Any]] | None:
        """The tools this server had when it was last seen."""
        return await self._in_thread(partial(self._shelf.listing, server))

    async def save_listing(self, server: str, tools: list[dict[str, Any]]) -> None:
        await self._in_thread(partial(self._shelf.save_listing, server, tools))

    async def switch(self, name: str) -> Any:
        """`None` for one that was never set."""
        return await self._in_thread(partial(self._shelf.switch, name))

    async def set_switch(self, name: str, value: Any) -> None:
        """Survives a power cut once it has returned."""
        await self._in_thread(partial(self._shelf.set_switch, name, value))

    def health(self) -> Mapping[str, Any]:
        """How the store is doing. `writable` says whether the last thing written, or tried out since, went well."""
        size = segments.size_of(self._journal.folder)
        return {
            "writable": not self._closed and self._journal.trouble is None,
            "journal_bytes": size,
            "lag_bytes": self._lag(size),
            "append_failures": self._journal.append_failures,
            "sync_failures": self._journal.sync_failures,
            "projection_failures": self._writer.failures,
            "unreadable_events": self._writer.unreadable,
            "torn_bytes": self._journal.torn_bytes,
            "last_error": self._journal.trouble or self._writer.last_error,
        }

    def _lag(self, journal_bytes: int) -> int:
        place, end = self._writer.place, self._journal.end
        return end.offset - place.offset if place.segment == end.segment else max(0, journal_bytes - place.offset)

    def close(self) -> None:
        """Blocks until everything is in the database, or for some seconds; the next start does what is left."""
        if self._closed:
            return
        self._closed = True
        if not self._writer.stop(CLOSE_TIMEOUT):
            log.warning("the database has not caught up with the journal; it will at the next start")
        self._journal.close()
        self._database.close()
        self._lock.release()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._threads)
