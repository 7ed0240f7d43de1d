"""SQLite: a file in the data directory, for one gateway."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, insert
from sqlalchemy.dialects import sqlite

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.files import explained, private_file
from mcpproxy_py.store.database.engine import READERS, Database, adding

PAGES_AT_ONCE = 2000
"""Given back to the file system in one go: some milliseconds, during which nobody else can write."""


class Sqlite(Database):
    def __init__(self, path: Path) -> None:
        _make_private(path)
        if path.stat().st_size == 0:
            _begin(path)
        self.path = path
        super().__init__(str(path), _engine(path, 1, read_only=False), _engine(path, READERS, read_only=True))

    @contextmanager
    def writing_for_good(self) -> Iterator[Connection]:
        with self.writer.connect() as connection:
            _run(_driver(connection), ["PRAGMA synchronous=FULL"])
            try:
                with connection.begin():
                    yield connection
            finally:
                _run(_driver(connection), ["PRAGMA synchronous=NORMAL"])

    def insert_many(self, connection: Connection, table: Any, columns: Sequence[str], rows: Sequence[Any]) -> None:
        if rows:
            connection.exec_driver_sql(_inserting(table, tuple(columns)), list(rows))

    def add_many(self, connection: Connection, table: Table, rows: Sequence[Any]) -> None:
        if rows:
            connection.exec_driver_sql(_adding(table), list(rows))

    def now(self, connection: Connection) -> int:
        return round(time.time() * 1e6)

    def size(self) -> int:
        with self.readers.connect() as connection:
            pages, free, page = (
                connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * page

    def scrub(self) -> None:
        """Pages hold zeros where something was (`secure_delete`), but the index of words keeps what was deleted until
        its parts are merged, and the write-ahead log what was written."""
        with self.writer.connect() as connection:
            driver = _driver(connection)
            driver.execute("INSERT INTO activity_words(activity_words) VALUES('optimize')")
            if driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise StoreUnavailable("the write-ahead log is in use and still holds what was erased. Erase it again.")

    def give_back(self) -> bool:
        with self.writer.connect() as connection:
            driver = _driver(connection)
            # Read to the end: each step of this statement frees one page.
            driver.execute(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})").fetchall()
            return driver.execute("PRAGMA freelist_count").fetchone()[0] > 0

    def make_shrinkable(self) -> None:
        """A file from an early version cannot give space back until it is written anew, once."""
        with self.writer.connect() as connection:
            driver = _driver(connection)
            if driver.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
                _run(driver, ["PRAGMA auto_vacuum=INCREMENTAL", "VACUUM"])


def _make_private(path: Path) -> None:
    """Before SQLite can make it with the process's umask. Not opened without need: closing any descriptor of a file
    gives up all locks that this process has on it, those of SQLite's other connections among them."""
    with explained(path, "read"):
        if path.exists() and not path.stat().st_mode & 0o077:
            return
    os.close(private_file(path))


def _begin(path: Path) -> None:
    """What can only be said of an empty file: that it will give back space."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        _run(connection, ["PRAGMA auto_vacuum=INCREMENTAL", "PRAGMA journal_mode=WAL"])


# SQLAlchemy's own statements, with its way of preparing parameters left out: it takes as long as the insert.


@cache
def _inserting(table: Any, columns: tuple[str, ...]) -> str:
    return _as_text(insert(table), columns)


@cache
def _adding(table: Table) -> str:
    return _as_text(adding(sqlite.insert(table), table), table.columns.keys())


def _as_text(statement: Any, columns: Sequence[str]) -> str:
    return str(statement.compile(dialect=sqlite.dialect(), column_keys=list(columns)))


def _engine(path: Path, size: int, *, read_only: bool) -> Engine:
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
        pragmas += ["PRAGMA synchronous=NORMAL", "PRAGMA cache_size=-65536", "PRAGMA wal_autocheckpoint=8000"]
        pragmas += ["PRAGMA secure_delete=ON"]
    # Immediate, because a transaction that reads first and then writes can be refused without a wait.
    begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"
    event.listen(engine, "connect", lambda connection, _: _run(connection, pragmas))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _run(connection: Any, statements: list[str]) -> None:
    for statement in statements:
        connection.execute(statement).close()


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection
