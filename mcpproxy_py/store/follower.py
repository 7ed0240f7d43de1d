"""What follows the journal: a thread that takes a step when there is news, at a pace that leaves others room.

The gateway's own process has one of two: `writer.Writer`, whose step is a batch for the database, or
`remote.Remote`, whose step is to tell a process apart that there is news.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.store.database import plain
from mcpproxy_py.store.segments import Place

log = logging.getLogger(__name__)

LINGER = 0.5
"""Seconds that pass between an append and its batch, so that a busy gateway writes few and large ones."""
SLOWEST_RETRY = 5.0
FALLS_BEHIND = "the database falls behind the journal: %s. Nothing is lost; it is tried again."


class Source(Protocol):
    """The journal, or what stands in for it where there is only its folder."""

    folder: Path
    end: Place
    trouble: str | None
    on_change: Callable[[], None]

    def probe(self) -> None: ...


class Follower:
    """`start` it once; `wait_for` a place in the journal; `stop` it before the database closes."""

    def __init__(self, journal: Source, place: Place) -> None:
        self.place = place
        """Everything before it is in the database."""
        self.failures = 0
        self.unreadable = 0
        self.last_error: str | None = None
        self.on_step: Callable[[], None] = lambda: None
        """Called by the thread after every step, whether it went well or not."""
        self._journal = journal
        self._moved = Condition()
        self._news = Event()
        self._hurry = Event()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="mcpproxy-store", daemon=True)

    def start(self) -> None:
        self._journal.on_change = self.notice
        self._thread.start()

    def notice(self) -> None:
        """Called at every append, so it does next to nothing while the thread knows already."""
        if not self._news.is_set():
            self._news.set()

    def hurry(self) -> None:
        """The same, for somebody who waits."""
        self._hurry.set()
        self.notice()

    def wait_for(self, place: Place, timeout: float) -> bool:
        """Blocks until the database has everything before `place`; `False` when that took too long."""
        self.hurry()
        with self._moved:
            return self._moved.wait_for(lambda: self.place >= place, timeout)

    def stop(self, timeout: float) -> bool:
        """Writes what is left, if that can be done in time, and ends the thread. Nothing is lost if not."""
        done = self.wait_for(self._journal.end, timeout)
        self.halt(timeout)
        return done

    def halt(self, timeout: float | None = None) -> None:
        """Ends the thread after the step it is at."""
        self._stopping.set()
        self.hurry()
        self._thread.join(timeout)

    # -- for those that inherit

    def _step(self) -> bool:
        """Does what there is to do, and says whether there was anything."""
        raise NotImplementedError

    def _behind(self) -> bool:
        """Whether so much is waiting that there is nothing to gain by letting it grow."""
        return False

    def _at(self, place: Place) -> None:
        with self._moved:
            self.place = place
            self._moved.notify_all()

    # -- the thread

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            try:
                if self._step():
                    self.on_step()
                else:
                    self._await_news()
                if not self._behind():
                    self._linger()
                pause = 0.0
            except Exception as error:
                pause = min(SLOWEST_RETRY, pause * 2 or 0.05)
                self._failed(error)
                self.on_step()
                self._news.clear()
                self._stopping.wait(pause)
                self._look_after_journal()

    def _await_news(self) -> None:
        """Until something was appended. Meanwhile a journal in trouble is looked after."""
        while not self._news.wait(1.0 if self._journal.trouble else None):
            self._look_after_journal()

    def _linger(self) -> None:
        """Let the next batch grow, unless somebody waits for it: this thread takes the interpreter from the loop."""
        self._hurry.wait(LINGER)
        self._hurry.clear()
        self._news.clear()

    def _look_after_journal(self) -> None:
        if self._journal.trouble:
            self._journal.probe()

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        reason = plain(error) if isinstance(error, SQLAlchemyError) else f"{type(error).__name__}: {error}"
        if self.last_error is None:
            log.error(FALLS_BEHIND, reason)
        self.last_error = reason
