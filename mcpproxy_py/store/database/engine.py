"""Connections to the database: what all engines have in common. What only one does is in `sqlite` and `postgres`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, Table
from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.cluster.event_bus import EventBus

READERS = 8
T = TypeVar("T")


class UsesThread(Protocol):
    """Has work that blocks done beside the event loop."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class Database:
    """One connection that writes and a few that read. Who writes waits for the one connection, so that
    writers queue here instead of failing on each other's locks."""

    shared = False
    """Whether several gateways can use it at once."""

    def __init__(self, label: str, writer: Engine, readers: Engine) -> None:
        self.label = label
        """What messages call it. Holds no password."""
        self.writer = writer
        self.readers = readers

    @contextmanager
    def explained(self) -> Iterator[None]:
        """What fails in here raises `StoreUnavailable`, and says what could not be written."""
        try:
            yield
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot write {self.label}: {plain(error)}.") from error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self.writer.begin() as connection:
            yield connection

    @contextmanager
    def writing_for_good(self) -> Iterator[Connection]:
        """A transaction that has survived a power cut once it is committed, and all before it with it."""
        with self.writing() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view, whatever is written meanwhile."""
        try:
            with self.readers.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot read {self.label}: {plain(error)}.") from error

    @contextmanager
    def reading_between_changes(self, also: Callable[[Connection], T]) -> Iterator[tuple[Connection, T]]:
        """One consistent view, and what `also` found when it began. No change was half done then, its event in the
        journal and its row not yet here."""
        with self.reading() as view:
            with self.explained(), self.writing() as turn:
                self.lock_for_changes(turn)
                view.exec_driver_sql("SELECT count(*) FROM alembic_version").close()  # a view begins with what is read
                found = also(view)
            yield view, found

    def close(self) -> None:
        self.readers.dispose()
        self.writer.dispose()

    # -- where engines differ

    def insert_many(self, connection: Connection, table: Any, columns: Sequence[str], rows: Sequence[Any]) -> None:
        """Rows as tuples, by the fastest way there is. It is what a gateway's second core is busy with."""
        raise NotImplementedError

    def add_many(self, connection: Connection, table: Table, rows: Sequence[Any]) -> None:
        """Whole rows as tuples. Where the key is there already, everything else is added to what stands there."""
        raise NotImplementedError

    def now(self, connection: Connection) -> int:
        """Microseconds since 1970 by a clock that all who use this database share."""
        raise NotImplementedError

    def lock_for_changes(self, connection: Connection) -> None:
        """Until the end of the transaction, nobody else is in a place that is guarded by this."""

    def publish_recorded(self, connection: Connection, gateway: int) -> None:
        """Tell other gateways, once the transaction is committed, that there is something new to read."""

    def event_bus(self) -> EventBus:
        """For hints to whoever uses this database."""
        return EventBus()

    def make_shrinkable(self) -> None:
        """Once, for a database that an early version made."""

    def size(self) -> int:
        """Bytes in use. What was deleted and is not given back yet does not count."""
        raise NotImplementedError

    def scrub(self) -> None:
        """What was overwritten or deleted cannot be read in the files either, where they are ours."""

    def give_back(self) -> bool:
        """Returns some of the space of what was deleted, and says whether there may be more."""
        return False


def adding(insert: Any, table: Table) -> Any:
    """The insert of a dialect, as `add_many` wants it."""
    sums = {column.name: column + insert.excluded[column.name] for column in table.c if not column.primary_key}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=sums)


def plain(error: SQLAlchemyError) -> str:
    """What the driver said, without the statement and its parameters: those hold what people wrote."""
    found = str(getattr(error, "orig", None) or type(error).__name__)
    return " ".join(found.split()).rstrip(".?")
