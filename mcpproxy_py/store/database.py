"""Connections to the database, and the one seam where databases differ."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.store.files import private_file

READERS = 8


class Database:
    """One connection that writes and a few that read. Who writes waits for the one connection, so that
    writers queue here instead of failing on each other's locks."""

    def __init__(self, path: Path) -> None:
        os.close(private_file(path))  # made private before SQLite can make it with the process's umask
        self.path = path
        self.writer = _sqlite(path, size=1, read_only=False)
        self.readers = _sqlite(path, size=READERS, read_only=True)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self.writer.begin() as connection:
            yield connection

    @contextmanager
    def writing_for_good(self) -> Iterator[Connection]:
        """A transaction that has survived a power cut once it is committed, and all before it with it."""
        with self.writer.connect() as connection:
            _synchronous(connection, "FULL")
            try:
                with connection.begin():
                    yield connection
            finally:
                _synchronous(connection, "NORMAL")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view, whatever is written meanwhile."""
        try:
            with self.readers.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"cannot read {self.path}: {plain(error)}.") from error

    def close(self) -> None:
        self.readers.dispose()
        self.writer.dispose()


def plain(error: SQLAlchemyError) -> str:
    """What the driver said, without the statement and its parameters: those hold what people wrote."""
    return str(getattr(error, "orig", None) or type(error).__name__)


# -- SQLite, and nothing below this line is meant for any other database


def _sqlite(path: Path, *, size: int, read_only: bool) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        pool_size=size,
        max_overflow=0,
        pool_timeout=30,
        hide_parameters=True,
        connect_args={"timeout": 10, "isolation_level": None, "check_same_thread": False},
    )
    pragmas = ["PRAGMA journal_mode=WAL", "PRAGMA temp_store=MEMORY"]
    if read_only:
        pragmas += ["PRAGMA query_only=ON"]
    else:
        # The pages that every batch touches, those of the indexes, stay in memory and are moved less often.
        pragmas += ["PRAGMA synchronous=NORMAL", "PRAGMA cache_size=-32768", "PRAGMA wal_autocheckpoint=4000"]
    # Immediate, because a transaction that reads first and then writes can be refused without a wait.
    begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"
    event.listen(engine, "connect", lambda connection, _: _run(connection, pragmas))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _run(connection: Any, statements: list[str]) -> None:
    for statement in statements:
        connection.execute(statement).close()


def _synchronous(connection: Connection, level: str) -> None:
    driver: Any = connection.connection.driver_connection
    _run(driver, [f"PRAGMA synchronous={level}"])
