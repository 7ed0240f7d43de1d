"""The database locked, slow, or silent, while calls go on: they wait for the journal only (ACT-5)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, gateway, python_server, until
from tests.support.postgres import Server, own_server
from tests.support.wire import Wire

pytestmark = pytest.mark.proves("ACT-5")
SLOW_INSERTS = """
    CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$;
    CREATE TRIGGER slow BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION slowly();
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@contextlib.contextmanager
def running(folder: Path, database_url: str | None = None) -> Iterator[Running]:
    config = {"mcpServers": {"s": python_server("plain.py")}, "log": {"level": "error"},
              "activity": {"database_url": database_url} if database_url else {}}  # fmt: skip
    with gateway(folder / "data", config) as found:
        yield found


def calls(running: Running, marks: str, many: int = 10) -> list[str]:
    """Reads and destructive calls, all of which are answered."""
    wire, done = Wire(running.mcp), []
    for number in range(many):
        done += [f"{marks}r{number}", f"{marks}d{number}"]
        assert not wire.read("s:hint_t_f", {"marker": done[-2]}).get("isError")
        assert not wire.via("destructive", "s:hint_f_t", {"marker": done[-1]}).get("isError")
    return done


def metrics(running: Running) -> dict[str, float]:
    lines = (line.split(" ") for line in running.client.get("/metrics").text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def recorded(running: Running) -> list[str]:
    """What the database has by now."""
    rows = running.get("/activity", type="tool_call", limit=500)["activities"]
    return sorted(row["arguments"]["marker"] for row in rows)


def is_behind(running: Running) -> None:
    """And whoever looks is told, while the gateway is ready all the same."""
    until(lambda: metrics(running)["mcpproxy_store_lag_seconds"] > 1, what="lag that shows")
    store = running.get("/status")["store"]
    assert (store["writable"], store["lag_bytes"] > 0) == (True, True)
    assert running.client.get("/readyz").status_code == 200


def catches_up(running: Running, marks: list[str]) -> None:
    until(lambda: running.get("/status")["store"]["lag_bytes"] == 0, 60, "the database to catch up")
    assert recorded(running) == sorted(marks), "each once, and none is missing"
    assert metrics(running)["mcpproxy_store_lag_seconds"] == 0
    assert running.get("/activity/verify")["findings"] == []


def test_while_another_process_locks_the_file_calls_go_on_and_what_was_there_can_be_read(tmp_path: Path) -> None:
    with running(tmp_path) as found:
        before = calls(found, "before", 1)
        until(lambda: recorded(found) == sorted(before), what="the first records")
        holder = sqlite3.connect(found.data_dir / "activity.db", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        try:
            during = calls(found, "during")
            is_behind(found)
            assert recorded(found) == sorted(before)
            refused = found.post("/freeze")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "STORE_UNAVAILABLE")
            assert found.get("/status")["frozen"], "it holds all the same, for as long as this gateway lives"
        finally:
            holder.execute("ROLLBACK")
            holder.close()
        assert found.post("/unfreeze").status_code == 200
        catches_up(found, before + during)


@pytest.fixture
def url(server: Server) -> str:
    return server.database()


@contextlib.contextmanager
def session(url: str) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.mark.proves("ACT-6")
def test_while_somebody_locks_the_tables_calls_go_on_and_readers_are_told_soon(tmp_path: Path, url: str) -> None:
    with running(tmp_path, url) as found:
        before = calls(found, "before", 1)
        until(lambda: recorded(found) == sorted(before), what="the first records")
        with session(url) as holder, holder.transaction():
            holder.execute("LOCK TABLE activity, events IN ACCESS EXCLUSIVE MODE")
            during = calls(found, "during")
            is_behind(found)
            paths = ["/activity", "/activity/summary", "/events", "/gaps"] * 4
            with ThreadPoolExecutor(len(paths)) as pool:
                answers = list(pool.map(lambda path: found.client.get(f"/api/v1{path}"), paths))
            # The summary too: its counts are its own, its percentiles and clients are those of rows.
            told = {(path, answer.status_code) for path, answer in zip(paths, answers, strict=True)}
            assert told == {(path, 503) for path in paths}
            assert "lock timeout" in answers[0].json()["error"]["message"]
        catches_up(found, before + during)


@pytest.mark.proves("ACT-6")
def test_a_database_that_takes_seconds_for_every_batch_delays_no_call(tmp_path: Path, url: str) -> None:
    with session(url) as operator:
        operator.execute(SLOW_INSERTS)
    with running(tmp_path, url) as found:
        during = calls(found, "during", 20)
        is_behind(found)
        assert found.client.get("/api/v1/activity").status_code == 200
        with session(url) as operator:
            operator.execute("DROP TRIGGER slow ON events")
        catches_up(found, during)
