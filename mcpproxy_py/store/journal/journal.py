"""The journal: what is appended here has left the process, and what is synced here survives a power cut (ACT-5).

One event is one line, chained to the one before (`chain`). Lines go into numbered segments, written by one thread
(the event loop's) with a single `write` each, because that costs microseconds and outlives `kill -9`, where a queue
in memory would lose what was answered already. Every life of the gateway begins a segment of its own.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final, NoReturn

from mcpproxy_py.core.record.events import Event
from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.files import FILE_MODE, explained, private_folder
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.journal.chain import START, Chain, ChainHead, Sealer
from mcpproxy_py.store.journal.entries import last_head
from mcpproxy_py.store.journal.segment_files import JournalPosition

log = logging.getLogger(__name__)
SEGMENT_BYTES = 16 << 20
MOST_BYTES = 1 << 30
"""What may wait for the database by default: a day or two of it being gone, and not the whole disk."""
SYNC_SECONDS = 5.0
RESERVED_BYTES: Final = 1 << 20
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Journal:
    """`append` from any thread; `synced` from any number of tasks of one loop.

    `after` is a segment number that was used before, wherever that is known from: fresh ones get higher
    numbers, so that a place remembered elsewhere never means two different lines. `head` is how long the chain
    is, likewise; where the journal itself knows of more, that counts.
    """

    def __init__(
        self,
        folder: Path,
        segment_bytes: int = SEGMENT_BYTES,
        after: int = 0,
        *,
        sealer: Sealer | None = None,
        head: ChainHead = START,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.folder = folder
        self.append_failures = 0
        self.syncs = 0
        self.sync_failures = 0
        self.torn_bytes = 0
        self.trouble: str | None = None
        """Why the last write failed; `None` once one has gone well again."""
        self.changed = threading.Event()
        """Set after every append and every failure, for the thread that follows."""
        self._segment_bytes = segment_bytes
        self._most_bytes = most_bytes
        private_folder(folder)
        with explained(folder, "read"):
            self._mend()
            self._chain = Chain(sealer or Sealer(b"", ""), max(head, last_head(folder)))
        self.durable_head = self._chain.head
        """The chain as far as a power cut leaves it, and so as far as it may be published."""
        self._published = START
        self.on_durable: Callable[[ChainHead], None] = lambda head: None
        """Told of it now and then, by another thread."""
        self._closed = False
        self._wants_fresh = False
        self._appended = 0  # bytes, over all segments of this life
        self._durable = 0  # so many of them are known to be on the disk
        self._lost = 0  # and nobody can promise anything about so many, because a sync failed
        self._bad_segment = 0
        self._full: list[JournalSegment] = []  # and not yet synced
        self._turns = GroupCommit(self._flush, "mcpproxy-sync")
        self._one_flush = Lock()
        self._turn_to_write = Lock()
        """Nearly always the event loop's, which is why nobody holds it for longer than a write."""
        self._flushed_at = time.monotonic()
        self._begin_segment(max([after, *segment_files.numbers(folder)]) + 1)

    @property
    def end(self) -> JournalPosition:
        """Everything before this place is whole lines, so far may a reader go."""
        segment = self._segment  # another thread may ask while the next one begins
        return JournalPosition(segment.number, segment.size)

    @property
    def size(self) -> int:
        """The bytes of all lines that are still here."""
        return segment_files.size_of(self.folder) - self._segment.spare

    @property
    def head(self) -> ChainHead:
        return self._chain.head

    # -- writing

    def append(self, *events: Event) -> None:
        """All of these events or none. When it returns they are in the kernel's hands.

        Raises `StoreUnavailable`, and then the journal holds nothing of them.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed.")
        with self._turn_to_write:
            block, head = self._chain.link(events)
            if self._wants_fresh or self._segment.size >= self._segment_bytes:
                self._rotate()
            try:
                self._segment.write(block)
            except OSError as error:
                self._undo(error)
            self._chain.head = head
            self._appended += len(block)
        if self._bad_segment == 0:
            self.trouble = None
        if not self.changed.is_set():
            self.changed.set()

    def _undo(self, cause: OSError) -> NoReturn:
        """Leaves no half of a line behind; where even that fails, the segment is not written to again."""
        self.append_failures += 1
        self._wants_fresh = self._wants_fresh or self._segment.size > 0
        try:
            self._segment.trim()
        except OSError:
            self._wants_fresh = True
        self._fail(f"cannot write to {self._segment.path}: {cause.strerror or cause}. Free some disk space.", cause)

    def _fail(self, message: str, cause: Exception | None) -> NoReturn:
        if self.trouble is None:
            log.error("%s", message)
        self.trouble = message
        if not self.changed.is_set():
            self.changed.set()
        raise StoreUnavailable(message) from cause

    def _rotate(self) -> None:
        self._must_have_room()
        old = self._segment
        try:
            self._begin_segment(old.number + 1)
        except StoreUnavailable as error:
            self.append_failures += 1
            self._fail(error.message, error)
        with suppress(OSError):  # zeros at its end harm nobody
            old.trim()
        if old.number == self._bad_segment:
            old.close()
            self._lost = self._appended
        else:
            self._full.append(old)

    def _must_have_room(self) -> None:
        """The journal is bounded. Only a database that takes nothing for long lets it grow so far."""
        size = self.size
        if size + self._segment_bytes > self._most_bytes:
            self.append_failures += 1
            self._fail(f"the journal {self.folder} is full ({size} bytes): the database does not take what it holds. "
                       "Bring the database back, or raise activity.max_journal_mb.", None)  # fmt: skip

    def _begin_segment(self, number: int) -> None:
        self._segment = JournalSegment(self.folder, number)
        self._wants_fresh = False
        self._folder_changed = True

    # -- syncing

    async def synced(self) -> None:
        """Returns when everything appended before this call is on the disk. One sync serves all who wait.

        Raises `StoreUnavailable` when the disk cannot promise it, to everyone whose events that concerns.
        """
        target = self._appended
        if self._settled(target):
            return
        await self._turns.next()
        if not self._settled(target):
            raise StoreUnavailable("what was written could not be synced, for an unknown reason.")

    def sync_now_and_then(self) -> None:
        """For a thread that comes by: what nobody waits for gets to the disk too, some seconds later."""
        if self._appended > self._durable and time.monotonic() - self._flushed_at > SYNC_SECONDS:
            self._flush()
        if self.durable_head != self._published:
            self._published = self.durable_head
            self.on_durable(self._published)

    def sync_now(self) -> None:
        """The same for a caller that has no loop and may block."""
        if not self._settled(self._appended):
            self._flush()
            self._settled(self._appended)

    def _settled(self, target: int) -> bool:
        if 0 < target <= self._lost or (target > self._durable and self._segment.number == self._bad_segment):
            raise StoreUnavailable(f"{self.trouble or 'a sync failed'}; what was written may not survive a power cut.")
        return target <= self._durable

    def _flush(self) -> None:
        with self._one_flush:
            with self._turn_to_write:  # what is appended from here on may be synced too, and does not count as synced
                self._flushed_at = time.monotonic()
                upto, head, segment = self._appended, self._chain.head, self._segment
                full, self._full = self._full, []
                fresh, self._folder_changed = self._folder_changed, False
            try:
                self._sync([*full, segment], fresh)
            except OSError as error:
                self._flush_failed(segment, upto, error)
            else:
                self.syncs += 1
                self._durable = max(self._durable, upto)
                self.durable_head = max(self.durable_head, head)
                if segment.number > self._bad_segment:
                    self._bad_segment, self.trouble = 0, None
            finally:
                for done in full:
                    done.close()

    def _sync(self, some: list[JournalSegment], fresh: bool) -> None:
        for segment in some:
            segment.sync()
        if fresh:
            segment_files.sync_folder(self.folder)

    def _flush_failed(self, segment: JournalSegment, upto: int, error: OSError) -> None:
        """The kernel reports a lost page once and then calls the file clean, so this segment is never trusted again."""
        self.sync_failures += 1
        self.trouble = f"cannot sync {segment.path}: {error.strerror or error}"
        self._bad_segment, self._wants_fresh, self._folder_changed = segment.number, True, True
        self._lost = max(self._lost, upto)
        log.error("the journal cannot be synced: %s", self.trouble)
        if not self.changed.is_set():
            self.changed.set()

    # -- the rest of its life

    def begin_afresh(self) -> None:
        """The next event goes into another segment, so that this one can soon be deleted."""
        self._wants_fresh = True

    def probe(self) -> None:
        """Tries a small write of its own, so that a gateway whose disk has recovered finds out before the next call."""
        path = self.folder / "probe"
        try:
            path.unlink(missing_ok=True)
            descriptor = os.open(path, _NEW, FILE_MODE)
            try:
                enough = os.write(descriptor, b" " * 4096) == 4096
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
                path.unlink()
        except OSError:
            return
        if enough:
            self.trouble = None

    def close(self) -> None:
        """Syncs what can be synced. Nothing is appended afterwards."""
        if self._closed:
            return
        self._closed = True
        self._turns.close()
        with suppress(OSError):
            self._segment.trim()
        try:
            self.sync_now()
        except StoreUnavailable as error:
            log.error("%s", error.message)
        self._segment.close()
        self.on_durable(self.durable_head)

    def _mend(self) -> None:
        for number in segment_files.numbers(self.folder):
            path = segment_files.path_of(self.folder, number)
            torn = segment_files.cut_torn_line(path)
            if torn:
                self.torn_bytes += torn
                log.warning("cut %d bytes of an unfinished record from the end of %s", torn, path)
            if path.stat().st_size == 0:
                path.unlink()


class JournalSegment:
    """The segment that is being written, new and empty. Written by one thread at a time; `sync` may be any other's.

    Room is reserved beyond its last line, because a sync that has to make the file longer as well takes half as long
    again. So zeros may follow the last line; no line contains one.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.path = segment_files.path_of(folder, number)
        with explained(self.path, "create"):
            self._descriptor = os.open(self.path, _NEW, FILE_MODE)
        self.size = 0
        """Everything before this is whole lines."""
        self._file_size = 0

    @property
    def spare(self) -> int:
        """What the file takes beyond its lines."""
        return self._file_size - self.size

    def write(self, block: bytes) -> None:
        """Raises `OSError`, and then half of it may be behind the last line, until `trim`."""
        size = self.size + len(block)
        if size > self._file_size:
            self._reserve(size + RESERVED_BYTES)
        if os.pwrite(self._descriptor, block, self.size) != len(block):
            raise OSError(errno.ENOSPC, "no space left for the whole record")
        self.size = size
        self._file_size = max(size, self._file_size)

    def _reserve(self, size: int) -> None:
        with suppress(OSError, AttributeError):  # a full disk may yet have room for the line; macOS cannot reserve any
            os.posix_fallocate(self._descriptor, self.size, size - self.size)
            self._file_size = size

    def trim(self) -> None:
        """Nothing follows the last line any more. Raises `OSError`."""
        os.ftruncate(self._descriptor, self.size)
        self._file_size = self.size

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class GroupCommit:
    """One thread that does the same piece of work for whoever waits for it, once for all who came meanwhile.

    A pool of threads would do, but handing work to one takes as long as the work: a sync is short.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        """What went wrong in `work`, whoever waited for it finds out by looking."""
        self._work = work
        self._waiting: list[asyncio.Future[None]] = []
        self._lock = Lock()
        self._wanted: SimpleQueue[asyncio.AbstractEventLoop | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    async def next(self) -> None:
        """Returns after a turn that began after this call."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._waiting.append(waiter)
            first = len(self._waiting) == 1
        if first:
            self._wanted.put(loop)
            if self._thread.ident is None:
                self._thread.start()
        await waiter

    def _run(self) -> None:
        while (loop := self._wanted.get()) is not None:
            with self._lock:
                served, self._waiting = self._waiting, []
            try:
                self._work()
            except Exception:
                log.exception("a group commit failed")
            with suppress(RuntimeError):  # the loop was closed meanwhile, and nobody waits any more
                loop.call_soon_threadsafe(_release, served)

    def close(self) -> None:
        """Ends the thread after the turn it is at."""
        if self._thread.ident is not None:
            self._wanted.put(None)
            self._thread.join()


def _release(served: list[asyncio.Future[None]]) -> None:
    for waiter in served:
        if not waiter.done():  # it may have been cancelled
            waiter.set_result(None)
