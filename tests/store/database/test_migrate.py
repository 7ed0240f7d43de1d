"""Databases of other versions, and of no version at all (OPS-2)."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.migrate import SCRIPTS, migrate
from mcpproxy_py.store.database.tables import HEAD, metadata
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.store import Store
from tests.store.conftest import on_postgres, on_sqlite
from tests.support.postgres import Server

pytestmark = [pytest.mark.proves("OPS-2"), pytest.mark.anyio]
Open = Callable[..., Store]


def test_the_newest_migration_is_the_one_the_code_expects() -> None:
    assert ScriptDirectory(str(SCRIPTS)).get_current_head() == HEAD


def test_the_migrations_make_exactly_the_tables_that_the_code_uses(database: Database) -> None:
    made_by_hand = ("activity_words", "activity_0001", "events_0001")

    def ours(item: Any, name: str | None, kind: str, reflected: bool, other: Any) -> bool:
        return not (kind == "table" and str(name).startswith(made_by_hand))

    with database.writing() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": ours})
        assert compare_metadata(context, metadata) == []


def test_a_database_from_a_newer_version_is_refused_and_left_alone(
    tmp_path: Path, opened: Open, sql: Callable[..., Any]
) -> None:
    opened(tmp_path).close()
    sql("UPDATE alembic_version SET version_num = '0999_from_the_future'")
    before = sql("SELECT count(*) FROM gateways")
    with pytest.raises(StoreUnavailable) as caught:
        opened(tmp_path)
    message = caught.value.message
    assert "0999_from_the_future" in message
    assert HEAD in message
    assert "Nothing was changed" in message
    assert "backup" in message
    assert sql("SELECT count(*) FROM gateways") == before
    assert sql("SELECT version_num FROM alembic_version") == [("0999_from_the_future",)]


@on_sqlite
def test_a_file_from_a_newer_version_is_not_even_touched(tmp_path: Path, opened: Open) -> None:
    opened(tmp_path).close()
    path = tmp_path / "activity.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    before = sha256(path.read_bytes()).hexdigest()
    with pytest.raises(StoreUnavailable):
        opened(tmp_path)
    assert sha256(path.read_bytes()).hexdigest() == before


@on_sqlite
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "activity.db").write_bytes(b"this is my diary " * 100)
    with pytest.raises(StoreUnavailable, match=r"activity\.db: file is not a database\. Restore it from a backup"):
        opened(tmp_path)
    assert (tmp_path / "activity.db").read_bytes() == b"this is my diary " * 100


@on_sqlite
def test_a_migration_that_is_interrupted_leaves_nothing_half_done(tmp_path: Path, options: Options) -> None:
    database = options.database(tmp_path)
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


@on_postgres
@pytest.mark.proves("ACT-6")
def test_gateways_that_start_at_once_make_the_tables_once(postgres: Server, tmp_path: Path, options: Options) -> None:
    url = postgres.empty_database()
    databases = [Options(database_url=url).database(tmp_path) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(migrate, databases))
    for database in databases:
        with database.reading() as connection:
            assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [HEAD]
        database.close()


def old_version(data_dir: Path, options: Options) -> None:
    """A data directory as the version before chains left it: some in the database, some in its journal."""
    database = options.database(data_dir)
    with database.writing() as connection:
        config = Config()
        config.set_main_option("script_location", str(SCRIPTS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for number in range(450):
            connection.execute(
                text("""INSERT INTO activity (id, at, finished_at, type, source, server, tool, status, error, arguments,
                        arguments_size, response, metadata, searchable, client_name, principal, intent_type)
                        VALUES (:id, :at, :ended, 'tool_call', 'mcp', 'github', 'create_issue', :status, NULL,
                        '{"title":"Broken"}', 18, '{"content":[]}', '{"intent":{"operation_type":"write"}}', '',
                        'cursor', 'local', 'write')"""),
                {"id": f"old{number:03}", "at": 1_700_000_000_000_000 + number // 7,
                 "ended": None if number == 3 else 1_700_000_001_000_000,
                 "status": "pending" if number == 3 else "success"})  # fmt: skip
        kept = text("INSERT INTO events (ask_id, kind, at, digest, body) VALUES ('x', 'new', 5, '', :body)")
        connection.execute(kept, {"body": '{"kind":"new","id":"x"}'})
        connection.execute(text("""INSERT INTO journal_position VALUES ('local', 2, 10)"""))
    database.close()
    journal = data_dir / "journal"
    journal.mkdir(mode=0o700)
    (journal / "0000000001.jsonl").write_text("long in the database\n")
    line = {"kind": "finished", "id": "old003", "at": 1_700_000_002.0, "status": "error", "metadata": {}}
    (journal / "0000000002.jsonl").write_text(f"123456789\n{json.dumps(line)}\n")


@pytest.mark.proves("ACT-8")
async def test_records_of_the_version_before_chains_are_taken_over_and_chained(
    tmp_path: Path, opened: Open, options: Options, sql: Callable[..., Any], postgres: Server
) -> None:
    if options.database_url:
        options = Options(database_url=postgres.empty_database())
    old_version(tmp_path, options)
    store = opened(tmp_path, database_url=options.database_url)
    rows = [row async for batch in store.export(Filters()) for row in batch]
    assert sorted(row["id"] for row in rows) == [f"old{number:03}" for number in range(450)]
    by_id = {row["id"]: row for row in rows}
    assert (by_id["old003"]["status"], by_id["old004"]["status"]) == ("error", "success")
    assert by_id["old004"]["arguments"] == {"title": "Broken"}
    assert by_id["old004"]["timestamp"].startswith("2023-11-14T22:13:20.0000")
    assert (await store.summary(Filters(intent_type="write")))["total"] == 450
    assert len((await store.activities(Filters(q="broken", limit=500))).activities) == 450
    report = await store.verify()
    assert (report["findings"], report["rows"]) == ([], 450)
    assert not list((tmp_path / "journal").glob("*.jsonl"))
    store.close()
    again = opened(tmp_path, database_url=options.database_url)
    assert again.head.seq == report["events"], "and only once"


@on_sqlite
@pytest.mark.proves("ACT-7")
async def test_a_file_of_the_version_before_can_shrink_from_then_on(
    tmp_path: Path, opened: Open, options: Options, sql: Callable[..., Any]
) -> None:
    with closing(sqlite3.connect(tmp_path / "activity.db")) as connection:
        connection.execute("PRAGMA auto_vacuum=NONE")
        connection.execute("VACUUM")
    old_version(tmp_path, options)
    opened(tmp_path).close()
    assert sql("PRAGMA auto_vacuum") == [(2,)]
    shutil.rmtree(tmp_path / "journal")


@on_sqlite
@pytest.mark.proves("PERF-6")
def test_a_start_with_a_current_database_does_not_load_alembic(
    tmp_path: Path, opened: Open, child: Callable[..., Any]
) -> None:
    opened(tmp_path).close()
    script = """
        import sys
        from pathlib import Path
        from mcpproxy_py.store.store import open_store
        open_store(Path(sys.argv[1])).close()
        print("alembic" in sys.modules, "psycopg" in sys.modules)
    """
    out, err = child(script, tmp_path).communicate(timeout=60)
    assert out.strip() == "False False", err
