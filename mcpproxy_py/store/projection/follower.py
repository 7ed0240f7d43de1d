"""What follows the journal: a thread that takes a step when there is news, at a pace that leaves others room.

The gateway's own process has one of two: `writer.Writer`, whose step is a batch for the database, or
`remote.Remote`, whose step is to tell a process apart that there is news.

Waiting, on the event loop, for the database to have something. Costs no thread, however many wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Event, Lock, Thread
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.store.database.engine import plain
from mcpproxy_py.store.journal.segment_files import JournalPosition

log = logging.getLogger(__name__)

LINGER = 0.5
"""Seconds that pass between an append and its batch, so that a busy gateway writes few and large ones."""
SLOWEST_RETRY = 5.0
TIDY_EVERY = 10.0
FALLS_BEHIND = "the database falls behind the journal: %s. Nothing is lost; it is tried again."


class JournalSource(Protocol):
    """The journal, or what stands in for it where there is only its folder."""

    folder: Path
    trouble: str | None
    changed: Event
    """Set when there is something new; whoever follows clears it."""

    @property
    def end(self) -> JournalPosition: ...
    def probe(self) -> None: ...
    def sync_now_and_then(self) -> None: ...


class Lag:
    """How old the oldest event is that the database does not have. Exact to the pace at which it is noted."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, JournalPosition]] = deque(maxlen=10_000)

    def note(self, end: JournalPosition, place: JournalPosition) -> None:
        while self._marks and self._marks[0][1] <= place:
            self._marks.popleft()
        if end > place and (not self._marks or self._marks[-1][1] < end):
            if len(self._marks) == self._marks.maxlen:  # a day of outage: then it need not be exact to the second
                self._marks = deque(list(self._marks)[::2], self._marks.maxlen)
            self._marks.append((time.monotonic(), end))

    def seconds(self, place: JournalPosition) -> float:
        waiting = (at for at, end in list(self._marks) if end > place)
        first = next(waiting, None)
        return 0.0 if first is None else time.monotonic() - first


class JournalFollower:
    """`start` it once; `wait_for` a place in the journal; `stop` it before the database closes."""

    def __init__(self, journal: JournalSource, place: JournalPosition) -> None:
        self.place = place
        """Everything before it is in the database."""
        self.failures = 0
        self.unreadable = 0
        self.deleted = 0
        """Rows that retention took away."""
        self.last_error: str | None = None
        self.on_step: Callable[[], None] = lambda: None
        """Called by the thread after every step, whether it went well or not."""
        self.on_move: Callable[[], None] = lambda: None
        """Called whenever the database has got further, by whichever thread found out."""
        self.lag = Lag()
        self._journal = journal
        self._moved = Condition()
        self._urgent = Event()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="mcpproxy-store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def notice(self) -> None:
        """There may be something new."""
        self._journal.changed.set()

    def flush_soon(self) -> None:
        """The same, for somebody who waits."""
        self._urgent.set()
        self.notice()

    def wait_for(self, place: JournalPosition, timeout: float) -> bool:
        """Blocks until the database has everything before `place`; `False` when that took too long."""
        self.flush_soon()
        with self._moved:
            return self._moved.wait_for(lambda: self.place >= place, timeout)

    def stop(self, timeout: float) -> bool:
        """Writes what is left, if that can be done in time, and ends the thread. Nothing is lost if not."""
        end = self._journal.end
        done = self.place >= end if self._stopping.is_set() else self.wait_for(end, timeout)
        self.halt(timeout)
        return done

    def halt(self, timeout: float | None = None) -> None:
        """Ends the thread after the step it is at."""
        self._stopping.set()
        self.flush_soon()
        self._thread.join(timeout)

    # -- for those that inherit

    def _step(self) -> bool:
        """Does what there is to do, and says whether there was anything."""
        raise NotImplementedError

    def _behind(self) -> bool:
        """Whether so much is waiting that there is nothing to gain by letting it grow."""
        return False

    def _tidy(self) -> bool:
        """Called when nothing else is to be done; does some of what can wait, and says whether there is more."""
        return False

    def _at(self, place: JournalPosition) -> None:
        with self._moved:
            self.place = place
            self._moved.notify_all()
        self.on_move()

    # -- the thread

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            try:
                moved = self._step()
                if moved:
                    self.on_step()
                if not self._tidy() and not moved:
                    self._await_news()
                self.lag.note(self._journal.end, self.place)
                if not self._behind():
                    self._linger()
                pause = 0.0
            except Exception as error:
                pause = min(SLOWEST_RETRY, pause * 2 or 0.05)
                self._failed(error)
                self.lag.note(self._journal.end, self.place)
                self.on_step()
                self._journal.changed.clear()
                self._stopping.wait(pause)
                self._look_after_journal()

    def _await_news(self) -> None:
        """Until something was appended. Meanwhile a journal in trouble is looked after."""
        while not self._journal.changed.wait(1.0 if self._journal.trouble else TIDY_EVERY):
            self._look_after_journal()
            if self._tidy():
                return

    def _linger(self) -> None:
        """Let the next batch grow, unless somebody waits for it: this thread takes the interpreter from the loop."""
        self._journal.sync_now_and_then()
        self._urgent.wait(LINGER)
        self._urgent.clear()
        self._journal.changed.clear()

    def _look_after_journal(self) -> None:
        if self._journal.trouble:
            self._journal.probe()
        else:
            self._journal.sync_now_and_then()

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        reason = plain(error) if isinstance(error, SQLAlchemyError) else f"{type(error).__name__}: {error}"
        if self.last_error is None:
            log.error(FALLS_BEHIND, reason)
        self.last_error = reason


class CommitWaiters:
    def __init__(self, follower: JournalFollower) -> None:
        self._follower = follower
        self._waiting: list[tuple[JournalPosition, asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._lock = Lock()

    async def until(self, place: JournalPosition, timeout: float) -> bool:
        """Whether the database has everything before `place`, or gets it within this time."""
        if self._follower.place >= place:
            return True
        there = asyncio.Event()
        waiter = (place, asyncio.get_running_loop(), there)
        with self._lock:
            self._waiting.append(waiter)
        try:
            self.moved()  # it may have got there before it knew that we wait
            self._follower.flush_soon()
            async with asyncio.timeout(timeout):
                await there.wait()
        except TimeoutError:
            return self._follower.place >= place
        finally:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
        return True

    def moved(self) -> None:
        """Called by any thread when the database has got further."""
        if not self._waiting:
            return
        place = self._follower.place
        with self._lock:
            ready = [waiter for waiter in self._waiting if waiter[0] <= place]
            self._waiting = [waiter for waiter in self._waiting if waiter[0] > place]
        for _, loop, there in ready:
            if not loop.is_closed():
                loop.call_soon_threadsafe(there.set)
