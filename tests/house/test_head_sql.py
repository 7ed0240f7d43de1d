"""What an empty SQLite file is filled with, against what the migrations make of one (OPS-2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.migrate import HEAD_SQL, migrate, upgrade
from mcpproxy_py.store.options import DATABASE, Options
from tests.house import head_sql

pytestmark = [pytest.mark.proves("OPS-2"), pytest.mark.proves("PERF-6")]


def dumped(folder: Path, make: Callable[[Database], None]) -> tuple[list[str], list[object]]:
    """The statements that describe a database, and all it says of its tables."""
    folder.mkdir()
    database = Options().database(folder)
    make(database)
    database.close()
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        master = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
        return list(head_sql.statements(connection)), master


def test_the_script_is_what_the_migrations_make() -> None:
    assert HEAD_SQL.read_text("utf-8") == head_sql.script(), "run `python -m tests.house.head_sql`"


def test_a_file_filled_by_the_script_is_one_that_alembic_made(tmp_path: Path) -> None:
    quick = dumped(tmp_path / "quick", migrate)
    assert quick == dumped(tmp_path / "alembic", lambda database: upgrade(database, None))
