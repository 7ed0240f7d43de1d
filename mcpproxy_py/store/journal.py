"""The journal: what is appended here has left the process, and what is synced here survives a power cut (ACT-5).

One event is one line of JSON. Lines go into numbered segments, written by one thread (the event loop's)
with a single `write` each, because that costs microseconds and outlives `kill -9`, where a queue in memory
would lose what was answered already. Every life of the gateway begins a segment of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import anyio

from mcpproxy_py.store import segments
from mcpproxy_py.store.codec import line
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.store.files import FILE_MODE, explained, private_folder
from mcpproxy_py.store.flush import Flush
from mcpproxy_py.store.segments import Place, path_of

log = logging.getLogger(__name__)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


class Journal:
    """`append` from one thread only; `synced` from any number of tasks of its loop.

    `after` is a segment number that was used before, wherever that is known from: fresh ones get higher
    numbers, so that a place remembered elsewhere never means two different lines.
    """

    def __init__(self, folder: Path, segment_bytes: int = 16 << 20, after: int = 0) -> None:
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
        private_folder(folder)
        with explained(folder, "read"):
            self._mend()
        self._descriptor = -1
        self._wants_fresh = False
        self._appended = 0  # bytes, over all segments of this life
        self._durable = 0  # so many of them are known to be on the disk
        self._lost = 0  # and nobody can promise anything about so many, because a sync failed
        self._bad_segment = 0
        self._unsynced: list[Path] = []
        self._turn = anyio.Lock()
        self._threads = anyio.CapacityLimiter(2)  # its own, so that no crowd of readers delays a sync
        self._one_flush = Lock()
        self._begin_segment(max([after, *segments.numbers(folder)]) + 1)

    # -- writing

    def append(self, *events: Mapping[str, Any]) -> None:
        """All of these events or none. When it returns they are in the kernel's hands.

        Raises `StoreUnavailable`, and then the journal holds nothing of them.
        """
        if self._descriptor < 0:
            raise StoreUnavailable("the store is closed.")
        block = b"".join([line(event) for event in events])
        if self._wants_fresh or self.end.offset >= self._segment_bytes:
            self._rotate()
        try:
            written = os.write(self._descriptor, block)
        except OSError as error:
            self._undo(error.strerror or str(error), error)
        if written != len(block):
            self._undo("no space left for the whole record", None)
        self._appended += written
        self.end = Place(self.end.segment, self.end.offset + written)
        if self._bad_segment == 0:
            self.trouble = None
        self.on_change()

    def _undo(self, reason: str, cause: OSError | None) -> NoReturn:
        """Leaves no half of a line behind; where even that fails, the segment is not written to again."""
        self.append_failures += 1
        self._wants_fresh = self._wants_fresh or self.end.offset > 0
        try:
            os.ftruncate(self._descriptor, self.end.offset)
        except OSError:
            self._wants_fresh = True
        self._fail(f"cannot write to {path_of(self.folder, self.end.segment)}: {reason}. Free some disk space.", cause)

    def _fail(self, message: str, cause: Exception | None) -> NoReturn:
        if self.trouble is None:
            log.error("%s", message)
        self.trouble = message
        self.on_change()
        raise StoreUnavailable(message) from cause

    def _rotate(self) -> None:
        old, descriptor = self.end.segment, self._descriptor
        try:
            self._begin_segment(old + 1)
        except StoreUnavailable as error:
            self.append_failures += 1
            self._fail(error.message, error)
        os.close(descriptor)
        if old == self._bad_segment:
            self._lost = self._appended
        else:
            self._unsynced.append(path_of(self.folder, old))

    def _begin_segment(self, number: int) -> None:
        path = path_of(self.folder, number)
        with explained(path, "create"):
            self._descriptor = os.open(path, _NEW, FILE_MODE)
        self._wants_fresh = False
        self._folder_changed = True
        self.end = Place(number, 0)
        """Everything before this place is whole lines, so far may a reader go."""

    # -- syncing

    async def synced(self) -> None:
        """Returns when everything appended before this call is on the disk. One sync serves all who wait.

        Raises `StoreUnavailable` when the disk cannot promise it, to everyone whose events that concerns.
        """
        target = self._appended
        if self._settled(target):
            return
        async with self._turn:
            if not self._settled(target):
                await anyio.to_thread.run_sync(self._flush, self._take(), limiter=self._threads)
                self._settled(target)

    def sync_now(self) -> None:
        """The same for a caller that has no loop and may block."""
        if not self._settled(self._appended):
            self._flush(self._take())
            self._settled(self._appended)

    def _settled(self, target: int) -> bool:
        if 0 < target <= self._lost or (target > self._durable and self.end.segment == self._bad_segment):
            raise StoreUnavailable(f"{self.trouble or 'a sync failed'}; what was written may not survive a power cut.")
        return target <= self._durable

    def _take(self) -> Flush:
        """What is to be synced, taken by the thread that appends, so that no rotation comes between its parts."""
        older, self._unsynced = self._unsynced, []
        fresh, self._folder_changed = self._folder_changed, False
        return Flush(self._appended, self.end.segment, os.dup(self._descriptor), older, self.folder if fresh else None)

    def _flush(self, flush: Flush) -> None:
        # A caller that was cancelled may have left an earlier flush running in its thread.
        with self._one_flush:
            try:
                flush.run()
            except OSError as error:
                self._flush_failed(flush, error)
            else:
                self.syncs += 1
                self._durable = max(self._durable, flush.upto)
                if flush.segment > self._bad_segment:
                    self._bad_segment, self.trouble = 0, None

    def _flush_failed(self, flush: Flush, error: OSError) -> None:
        """The kernel reports a lost page once and then calls the file clean, so this segment is never trusted again."""
        self.sync_failures += 1
        self.trouble = f"cannot sync {path_of(self.folder, flush.segment)}: {error.strerror or error}"
        self._bad_segment, self._wants_fresh, self._folder_changed = flush.segment, True, True
        self._lost = max(self._lost, flush.upto)
        log.error("the journal cannot be synced: %s", self.trouble)
        self.on_change()

    # -- the rest of its life

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
        if self._descriptor < 0:
            return
        try:
            self.sync_now()
        except StoreUnavailable as error:
            log.error("%s", error.message)
        os.close(self._descriptor)
        self._descriptor = -1

    def _mend(self) -> None:
        for number in segments.numbers(self.folder):
            path = path_of(self.folder, number)
            torn = segments.cut_torn_line(path)
            if torn:
                self.torn_bytes += torn
                log.warning("cut %d bytes of an unfinished record from the end of %s", torn, path)
            if path.stat().st_size == 0:
                path.unlink()
