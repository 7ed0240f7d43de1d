"""The one thread that moves the journal into the database.

It reads the journal's files, not a queue, and commits how far it read together with what it read. So an
event is applied exactly once, whatever dies when, and what happens at start is the same as what happens
always. A database that fails holds up nothing but this thread: it tries again until it works.
"""

from __future__ import annotations

import logging
from threading import Condition, Event, Thread

from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.store import segments
from mcpproxy_py.store.database import Database, plain
from mcpproxy_py.store.journal import Journal
from mcpproxy_py.store.ledger import project, remember_place
from mcpproxy_py.store.projection import UNREADABLE, parse
from mcpproxy_py.store.segments import Place, path_of

log = logging.getLogger(__name__)

LINGER = 0.5
"""Seconds that pass between an append and its batch, so that a busy gateway writes few and large ones."""
BATCH_BYTES = 1 << 20
SLOWEST_RETRY = 5.0


class Writer:
    """`start` it once; `wait_for` a place in the journal; `stop` it before the database closes."""

    def __init__(self, journal: Journal, database: Database, place: Place) -> None:
        self.place = place
        """Everything before it is in the database."""
        self.failures = 0
        self.unreadable = 0
        self.last_error: str | None = None
        self._journal = journal
        self._database = database
        self._oldest = min([place.segment, *segments.numbers(journal.folder)])
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

    def wait_for(self, place: Place, timeout: float) -> bool:
        """Blocks until the database has everything before `place`; `False` when that took too long."""
        self._hurry.set()
        self.notice()
        with self._moved:
            return self._moved.wait_for(lambda: self.place >= place, timeout)

    def stop(self, timeout: float) -> bool:
        """Writes what is left, if that can be done in time, and ends the thread. Nothing is lost if not."""
        done = self.wait_for(self._journal.end, timeout)
        self._stopping.set()
        self._hurry.set()
        self._news.set()
        self._thread.join(timeout)
        return done

    def drain(self) -> None:
        """Everything there is, at once, in this thread: for the start, before `start`. Raises what goes wrong."""
        while self._step():
            pass

    # -- the thread

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            try:
                if not self._step():
                    self._await_news()
                if not self._behind():
                    self._linger()
                pause = 0.0
            except Exception as error:
                pause = min(SLOWEST_RETRY, pause * 2 or 0.05)
                self._failed(error)
                self._news.clear()
                self._stopping.wait(pause)
                self._look_after_journal()

    def _await_news(self) -> None:
        """Until something was appended. Meanwhile a journal in trouble is looked after."""
        while not self._news.wait(1.0 if self._journal.trouble else None):
            self._look_after_journal()

    def _behind(self) -> bool:
        """Whether a whole batch is waiting already; then there is nothing to gain by letting it grow."""
        end = self._journal.end
        return end.segment > self.place.segment or end.offset - self.place.offset >= BATCH_BYTES

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
            log.error("the database falls behind the journal: %s. Nothing is lost; it is tried again.", reason)
        self.last_error = reason

    # -- one batch

    def _step(self) -> bool:
        """Applies the next lines, and says whether there were any."""
        lines, after = self._next_lines()
        if after == self.place:
            return False
        if lines:
            self._apply(lines, after)
        self._arrive(after)
        return True

    def _next_lines(self) -> tuple[list[bytes], Place]:
        end = self._journal.end
        segment, offset = self.place
        if segment >= end.segment:
            return self._read(segment, offset, end.offset) if segment == end.segment else ([], self.place)
        path = path_of(self._journal.folder, segment)
        size = path.stat().st_size if path.exists() else 0
        lines, after = self._read(segment, offset, size)
        return (lines, after) if lines else ([], self._next_segment(segment, end.segment))

    def _read(self, segment: int, offset: int, stop: int) -> tuple[list[bytes], Place]:
        if offset >= stop:
            return [], Place(segment, offset)
        lines, after = segments.read_lines(path_of(self._journal.folder, segment), offset, stop, BATCH_BYTES)
        return lines, Place(segment, after)

    def _next_segment(self, segment: int, last: int) -> Place:
        later = [number for number in segments.numbers(self._journal.folder) if segment < number <= last]
        return Place(min(later, default=last), 0)

    def _apply(self, lines: list[bytes], after: Place) -> None:
        parsed = [parse(line) for line in lines]
        with self._database.writing() as connection:
            project(connection, lines, parsed)
            remember_place(connection, after)
        self.unreadable += sum(event.get("kind") == UNREADABLE for event in parsed)

    def _arrive(self, place: Place) -> None:
        # First of all, so that nothing that fails below can make what was committed be read again.
        with self._moved:
            self.place = place
            self._moved.notify_all()
        if place.segment > self._oldest:
            self._forget_before(place)
        self.last_error = None

    def _forget_before(self, place: Place) -> None:
        """Deletes segments that are in the database, once the database itself would survive a power cut."""
        with self._database.writing_for_good() as connection:
            remember_place(connection, place)
        for number in segments.numbers(self._journal.folder):
            if number < place.segment:
                path_of(self._journal.folder, number).unlink(missing_ok=True)
        self._oldest = place.segment
