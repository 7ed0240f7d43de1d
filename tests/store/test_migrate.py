"""Databases of other versions, and of no version at all (OPS-2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from mcpproxy_py.store.database import Database
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.store.migrate import SCRIPTS, migrate
from mcpproxy_py.store.store import Store
from mcpproxy_py.store.tables import HEAD, metadata

pytestmark = pytest.mark.proves("OPS-2")


def test_the_newest_migration_is_the_one_the_code_expects() -> None:
    assert ScriptDirectory(str(SCRIPTS)).get_current_head() == HEAD


def test_the_migrations_make_exactly_the_tables_that_the_code_uses(tmp_path: Path) -> None:
    database = Database(tmp_path / "activity.db")
    migrate(database)
    with database.writing() as connection:
        found = compare_metadata(MigrationContext.configure(connection), metadata)
        indexes = connection.exec_driver_sql(
            "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%'"
        )
        assert len(indexes.all()) == 4
    assert found == []
    database.close()


def test_a_database_from_a_newer_version_is_refused_and_left_alone(
    tmp_path: Path, opened: Callable[[Path], Store]
) -> None:
    opened(tmp_path).close()
    path = tmp_path / "activity.db"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999_from_the_future'")
    connection.close()
    before = sha256(path.read_bytes()).hexdigest()
    with pytest.raises(StoreUnavailable) as caught:
        opened(tmp_path)
    message = caught.value.message
    assert "0999_from_the_future" in message
    assert HEAD in message
    assert "Nothing was changed" in message
    assert "backup" in message
    assert sha256(path.read_bytes()).hexdigest() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, opened: Callable[[Path], Store]) -> None:
    (tmp_path / "activity.db").write_bytes(b"this is my diary " * 100)
    with pytest.raises(StoreUnavailable, match=r"activity\.db: file is not a database\. Restore it from a backup"):
        opened(tmp_path)
    assert (tmp_path / "activity.db").read_bytes() == b"this is my diary " * 100


def test_a_migration_that_is_interrupted_leaves_nothing_half_done(tmp_path: Path) -> None:
    database = Database(tmp_path / "activity.db")
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE switches (in_the_way INTEGER)")
    with pytest.raises(StoreUnavailable, match="already exists"):
        migrate(database)
    with database.writing() as connection:
        tables = (
            connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%'").scalars().all()
        )
        assert tables == ["switches"]
        connection.exec_driver_sql("DROP TABLE switches")
    migrate(database)
    database.close()


@pytest.mark.proves("PERF-6")
def test_a_start_with_a_current_database_does_not_load_alembic(
    tmp_path: Path, opened: Callable[[Path], Store], child: Callable[..., Any]
) -> None:
    opened(tmp_path).close()
    script = """
        import sys
        from pathlib import Path
        from mcpproxy_py.store.store import open_store
        open_store(Path(sys.argv[1])).close()
        print("alembic" in sys.modules)
    """
    out, err = child(script, tmp_path).communicate(timeout=60)
    assert out.strip() == "False", err
