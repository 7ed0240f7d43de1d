"""The journal: what is appended here has left the process, and what is synced here survives a power cut (ACT-5).

One event is one line, chained to the one before (`chain`). Lines go into numbered segments, written by one thread
(the event loop's) with a single `write` each, because that costs microseconds and outlives `kill -9`, where a queue
in memory would lose what was answered already. Every life of the gateway begins a segment of its own.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

from mcpproxy_py.store import segments
from mcpproxy_py.store.chain import START, Chain, Head, Sealer
from mcpproxy_py.store.entry import last_head
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.store.files import FILE_MODE, explained, private_folder
from mcpproxy_py.store.flush import Flush
from mcpproxy_py.store.segment import Segment
from mcpproxy_py.store.segments import Place, path_of
from mcpproxy_py.store.turns import Turns

log = logging.getLogger(__name__)
SEGMENT_BYTES = 16 << 20
MOST_BYTES = 1 << 30
"""What may wait for the database by default: a day or two of it being gone, and not the whole disk."""
SYNC_SECONDS = 5.0
_PROBE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


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
        head: Head = START,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.folder = folder
        self.append_failures = 0
        self.syncs = 0
        self.sync_failures = 0
        self.torn_bytes = 0
        self.trouble: str | None = None
        """Why the last write failed; `None` once one has gone well again."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after every append and every failure, so it has to be quick."""
        self._segment_bytes = segment_bytes
        self._most_bytes = most_bytes
        private_folder(folder)
        with explained(folder, "read"):
            self._mend()
            self._chain = Chain(sealer or Sealer(b"", ""), max(head, last_head(folder)))
        self.durable_head = self._chain.head
        """The chain as far as a power cut leaves it, and so as far as it may be published."""
        self._published = START
        self.on_durable: Callable[[Head], None] = lambda head: None
        """Told of it now and then, by another thread."""
        self._closed = False
        self._wants_fresh = False
        self._appended = 0  # bytes, over all segments of this life
        self._durable = 0  # so many of them are known to be on the disk
        self._lost = 0  # and nobody can promise anything about so many, because a sync failed
        self._bad_segment = 0
        self._full: list[Segment] = []  # and not yet synced
        self._turns = Turns(self._flush, "mcpproxy-sync")
        self._one_flush = Lock()
        self._turn_to_write = Lock()
        """Nearly always the event loop's, which is why nobody holds it for longer than a write."""
        self._flushed_at = time.monotonic()
        self._begin_segment(max([after, *segments.numbers(folder)]) + 1)

    @property
    def end(self) -> Place:
        """Everything before this place is whole lines, so far may a reader go."""
        segment = self._segment  # another thread may ask while the next one begins
        return Place(segment.number, segment.size)

    @property
    def size(self) -> int:
        """The bytes of all lines that are still here."""
        return segments.size_of(self.folder) - self._segment.spare

    @property
    def head(self) -> Head:
        return self._chain.head

    # -- writing

    def append(self, *events: Mapping[str, Any]) -> None:
        """All of these events or none. When it returns they are in the kernel's hands.

        Raises `StoreUnavailable`, and then the journal holds nothing of them.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed.")
        with self._turn_to_write:
            block, head = self._chain.lines(events)
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
        self.on_change()

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
        self.on_change()
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
        self._segment = Segment(self.folder, number)
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
            raise StoreUnavailable("what was written could not be synced, and nobody can say why.")

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

    def _take(self) -> Flush:
        """What is to be synced. What is appended meanwhile may or may not be in it, and does not count as synced."""
        with self._turn_to_write:
            self._flushed_at = time.monotonic()
            upto, head = self._appended, self._chain.head
            full, self._full = self._full, []
            fresh, self._folder_changed = self._folder_changed, False
            return Flush(upto, head, self._segment, full, self.folder if fresh else None)

    def _flush(self) -> None:
        with self._one_flush:
            flush = self._take()
            try:
                flush.run()
            except OSError as error:
                self._flush_failed(flush, error)
            else:
                self.syncs += 1
                self._durable = max(self._durable, flush.upto)
                self.durable_head = max(self.durable_head, flush.head)
                if flush.segment.number > self._bad_segment:
                    self._bad_segment, self.trouble = 0, None

    def _flush_failed(self, flush: Flush, error: OSError) -> None:
        """The kernel reports a lost page once and then calls the file clean, so this segment is never trusted again."""
        self.sync_failures += 1
        self.trouble = f"cannot sync {flush.segment.path}: {error.strerror or error}"
        self._bad_segment, self._wants_fresh, self._folder_changed = flush.segment.number, True, True
        self._lost = max(self._lost, flush.upto)
        log.error("the journal cannot be synced: %s", self.trouble)
        self.on_change()

    # -- the rest of its life

    def begin_afresh(self) -> None:
        """The next event goes into another segment, so that this one can soon be deleted."""
        self._wants_fresh = True

    def probe(self) -> None:
        """Tries a small write of its own, so that a gateway whose disk has recovered finds out before the next call."""
        path = self.folder / "probe"
        try:
            path.unlink(missing_ok=True)
            descriptor = os.open(path, _PROBE, FILE_MODE)
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
        for number in segments.numbers(self.folder):
            path = path_of(self.folder, number)
            torn = segments.cut_torn_line(path)
            if torn:
                self.torn_bytes += torn
                log.warning("cut %d bytes of an unfinished record from the end of %s", torn, path)
            if path.stat().st_size == 0:
                path.unlink()
