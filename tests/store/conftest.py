"""Events as `core.record.events` makes them, and stores that are closed again."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from mcpproxy_py.store.activity.reader import Filters, Reader
from mcpproxy_py.store.chain_key import Identity
from mcpproxy_py.store.cluster.membership import join
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.migrate import migrate
from mcpproxy_py.store.database.tables import events
from mcpproxy_py.store.journal.chain import Chain, ChainHead, Sealer
from mcpproxy_py.store.journal.entries import entries, read
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.projection.apply import last_head, project
from mcpproxy_py.store.store import Store, open_store
from tests.support.postgres import Server, shared_server

ROOT = Path(__file__).parents[2]
Event = dict[str, Any]


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What gives up after some seconds is no part of a test that does not say so: the machine may be busy."""
    for name in (
        "files.PATIENCE",
        "store.store.CLOSE_TIMEOUT",
        "store.store.COMMIT_TIMEOUT",
        "store.store.SIZE_PATIENCE",
    ):
        monkeypatch.setattr(f"mcpproxy_py.{name}", 60.0)


@pytest.fixture
def asked() -> Callable[..., Event]:
    def make(row_id: str = "a1", **changes: Any) -> Event:
        return {
            "kind": "asked", "id": row_id, "at": 1_700_000_000.25, "type": "tool_call", "source": "mcp",
            "surface": "gate", "server": "github", "tool": "create_issue", "arguments": {"title": "Broken"},
            "arguments_size": 18, "session_id": "s1", "request_id": "r1",
            "client": {"name": "cursor", "version": "1.2"}, "principal": "local",
            "metadata": {"intent": {"operation_type": "write", "reason": "The user asked"},
                         "tool_variant": "call_tool_write", "decision": {"rule": "matrix"}},
            **changes,
        }  # fmt: skip

    return make


@pytest.fixture
def finished() -> Callable[..., Event]:
    def make(row_id: str = "a1", **changes: Any) -> Event:
        return {
            "kind": "finished", "id": row_id, "at": 1_700_000_001.5, "status": "success", "error": None,
            "response": {"content": []}, "response_size": 14, "duration_ms": 1250.5, "metadata": {"attempts": 1},
            **changes,
        }  # fmt: skip

    return make


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Ended here, because a worker of xdist does not come to what is registered with `atexit`."""
    server = shared_server()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgres"])
def options(request: pytest.FixtureRequest) -> Options:
    """Both engines, one after the other, each with a database of the test's own."""
    if request.param == "sqlite":
        return Options()
    return Options(database_url=request.getfixturevalue("postgres").database())


on_sqlite = pytest.mark.parametrize("options", ["sqlite"], indirect=True)
"""For what only a file can do, or have done to it."""
on_postgres = pytest.mark.parametrize("options", ["postgres"], indirect=True)


@pytest.fixture
def database(options: Options, tmp_path: Path) -> Iterator[Database]:
    """One that is up to date and empty, with a gateway of the number 1."""
    made = options.database(tmp_path)
    migrate(made)
    join(made, Identity("test", b"k" * 32))
    yield made
    made.close()


@pytest.fixture
def apply(database: Database) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Writes batches of events, or of lines as they are, like the writer does, and gives all rows."""
    chain = Chain(Sealer(b"k" * 32, "test"))

    def write(*batches: Iterable[Any]) -> list[dict[str, Any]]:
        for batch in batches:
            lines: list[bytes] = []
            for event in batch:
                if isinstance(event, bytes):
                    lines.append(event)
                    chain.head = ChainHead(chain.head.seq + 1, chain.head.mac)
                else:
                    line, chain.head = chain.link([event])
                    lines.append(line[:-1])
            if lines:
                with database.writing() as connection:
                    before = last_head(connection, 1).seq
                    project(database, connection, 1, entries(lines, map(read, lines), before), before, Sealer(b"", ""))
        return Reader(database).list(Filters(limit=500)).activities

    yield write


@pytest.fixture
def opened(options: Options) -> Iterator[Callable[..., Store]]:
    """Opens stores, and closes at the end those that the test has not closed itself."""
    stores: list[Store] = []

    def open_one(data_dir: Path, **changes: Any) -> Store:
        stores.append(open_store(data_dir, options=replace(options, **changes)))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def sql(options: Options, tmp_path: Path) -> Iterator[Callable[..., list[Any]]]:
    """Does what an operator with access to the database could do, behind the store's back."""
    found: list[Database] = []

    def execute(statement: str, data_dir: Path = tmp_path, **parameters: Any) -> list[Any]:
        if not found:
            found.append(options.database(data_dir))
        with found[0].writing() as connection:
            done = connection.execute(text(statement), parameters)
            return [tuple(row) for row in done] if done.returns_rows else []

    yield execute
    for database in found:
        database.close()


@pytest.fixture
def recorded(options: Options) -> Callable[[Path], list[tuple[str, str]]]:
    """Every event in the database of a data directory, by id and kind, in order."""

    def read(data_dir: Path) -> list[tuple[str, str]]:
        database = options.database(data_dir)
        try:
            with database.reading() as connection:
                heads = connection.execute(select(events.c.head).order_by(events.c.chain, events.c.seq)).scalars()
                return [(event["id"], event["kind"]) for event in map(json.loads, heads)]
        finally:
            database.close()

    return read


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Runs a script in a process of its own, killed at the end if it still runs then."""
    running: list[subprocess.Popen[str]] = []

    def run(script: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
        pipe = subprocess.PIPE
        running.append(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate(timeout=30)
