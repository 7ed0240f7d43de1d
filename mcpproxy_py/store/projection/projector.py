"""What moves the journal into the database, in the gateway's process or in one apart.

It reads the journal's files, not a queue, and commits how far it read together with what it read. So an
event is applied exactly once, whatever dies when, and what happens at start is the same as what happens
always. A database that fails holds up nothing but this: it tries again until it works.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import NamedTuple

from sqlalchemy.exc import IntegrityError

from mcpproxy_py.store.chain_key import Identity
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.journal.entries import UNREADABLE, JournalEntry, entries, read
from mcpproxy_py.store.journal.segment_files import JournalPosition, path_of
from mcpproxy_py.store.projection.apply import last_head, project, read_place, remember_place
from mcpproxy_py.store.projection.follower import JournalFollower, JournalSource
from mcpproxy_py.store.projection.retention import Retention

BATCH_BYTES = 4 << 20


class Batch(NamedTuple):
    lines: list[bytes]
    read: list[JournalEntry | None]
    """Each of them, as `entry.read` gives it."""
    after: JournalPosition


class BatchPrefetch:
    """The batch at a place, read by a thread of its own while the one before it is committed. A commit leaves the
    interpreter to others; single inserts do not for long enough."""

    def __init__(self, place: JournalPosition, batch_at: Callable[[JournalPosition], Batch]) -> None:
        self.place = place
        self._found: Future[Batch] = Future()
        Thread(target=self._read, args=(batch_at,), name="mcpproxy-ahead", daemon=True).start()

    def _read(self, batch_at: Callable[[JournalPosition], Batch]) -> None:
        try:
            self._found.set_result(batch_at(self.place))
        except BaseException as error:
            self._found.set_exception(error)

    def taken(self) -> Batch:
        return self._found.result()


class Projector(JournalFollower):
    """The one writer of this gateway's events and their rows, wherever it runs. `number` is that of its chain."""

    def __init__(
        self, journal: JournalSource, database: Database, who: Identity, number: int, retention: Retention | None = None
    ) -> None:
        super().__init__(journal, read_place(database, who.name) or JournalPosition(0, 0))
        self._database = database
        self._name, self._sealer = who.name, who.sealer()
        self._number = number
        self._retention = retention
        self._in_doubt = False
        self._ahead: BatchPrefetch | None = None
        self._oldest = min([self.place.segment, *segment_files.numbers(journal.folder)])

    def drain(self) -> None:
        """Everything there is, at once, in this thread: for the start, before `start`. Raises what goes wrong."""
        while self._step():
            pass

    def _behind(self) -> bool:
        """Whether a whole batch is waiting already; then there is nothing to gain by letting it grow."""
        return self._behind_of(self.place)

    def _behind_of(self, place: JournalPosition) -> bool:
        end = self._journal.end
        return end.segment > place.segment or end.offset - place.offset >= BATCH_BYTES

    def _tidy(self) -> bool:
        if self._retention is None:
            return False
        self._retention.step()
        self.deleted = self._retention.deleted
        return self._retention.busy

    # -- one batch

    def _step(self) -> bool:
        """Applies the next lines, and says whether there were any."""
        if self._in_doubt:  # whether the last commit took place, only the database knows
            self._at(read_place(self._database, self._name) or JournalPosition(0, 0))
            self._in_doubt = False
        ahead, self._ahead = self._ahead, None
        batch = ahead.taken() if ahead is not None and ahead.place == self.place else self._batch_at(self.place)
        if batch.after == self.place:
            return False
        if batch.lines:
            self._apply(batch)
        self._arrive(batch.after)
        return True

    def _batch_at(self, place: JournalPosition) -> Batch:
        lines, after = self._lines_at(place)
        return Batch(lines, [read(line) for line in lines], after)

    def _lines_at(self, place: JournalPosition) -> tuple[list[bytes], JournalPosition]:
        end = self._journal.end
        segment, offset = place
        if segment >= end.segment:
            return self._read(segment, offset, end.offset) if segment == end.segment else ([], place)
        path = path_of(self._journal.folder, segment)
        size = path.stat().st_size if path.exists() else 0
        lines, after = self._read(segment, offset, size)
        return (lines, after) if lines else ([], self._next_segment(segment, end.segment))

    def _read(self, segment: int, offset: int, stop: int) -> tuple[list[bytes], JournalPosition]:
        if offset >= stop:
            return [], JournalPosition(segment, offset)
        lines, after = segment_files.read_lines(path_of(self._journal.folder, segment), offset, stop, BATCH_BYTES)
        return lines, JournalPosition(segment, after)

    def _next_segment(self, segment: int, last: int) -> JournalPosition:
        later = [number for number in segment_files.numbers(self._journal.folder) if segment < number <= last]
        return JournalPosition(min(later, default=last), 0)

    def _apply(self, batch: Batch) -> None:
        self._in_doubt = True
        try:
            written = self._write(batch, careful=False)
        except IntegrityError:
            written = self._write(batch, careful=True)
        self._in_doubt = False
        self.unreadable += len(batch.lines) - sum(entry.kind != UNREADABLE for entry in written)

    def _write(self, batch: Batch, *, careful: bool) -> list[JournalEntry]:
        with self._database.writing() as connection:
            before = last_head(connection, self._number).seq
            numbered = entries(batch.lines, batch.read, before)
            project(self._database, connection, self._number, numbered, before, self._sealer, careful=careful)
            remember_place(connection, self._name, batch.after)
            self._database.publish_recorded(connection, self._number)
            if self._ahead is None and self._behind_of(batch.after):
                self._ahead = BatchPrefetch(batch.after, self._batch_at)
        return numbered

    def _arrive(self, place: JournalPosition) -> None:
        # First of all, so that nothing that fails below can make what was committed be read again.
        self.last_error = None
        self._at(place)
        if place.segment > self._oldest:
            self._forget_before(place)

    def _forget_before(self, place: JournalPosition) -> None:
        """Deletes segments that are in the database, once the database itself would survive a power cut."""
        with self._database.writing_for_good() as connection:
            remember_place(connection, self._name, place)
        for number in segment_files.numbers(self._journal.folder):
            if number < place.segment:
                path_of(self._journal.folder, number).unlink(missing_ok=True)
        self._oldest = place.segment
