"""Reading the record badly: questions that mean nothing, readers that leave, hands that change it. On both engines."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.postgres import Server, own_server
from tests.support.wire import Wire

BIG = "word " * 5_000
RECORDS = 150
ENGINES = ("sqlite", "postgres")


@dataclass
class House:
    running: Running
    sql: Callable[[str], list[Any]]
    still: Callable[[], bool]
    """Whether nobody is in a transaction."""


def on_sqlite(data_dir: Path) -> tuple[Callable[[str], list[Any]], Callable[[], bool]]:
    def sql(statement: str) -> list[Any]:
        connection = sqlite3.connect(data_dir / "activity.db", isolation_level=None, timeout=30)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    return sql, lambda: sql("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 0  # which any open reading would hold up


def on_postgres(url: str) -> tuple[Callable[[str], list[Any]], Callable[[], bool]]:
    import psycopg

    def sql(statement: str) -> list[Any]:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    open_ones = """SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL
                   AND pid <> pg_backend_pid() AND application_name = 'mcpproxy'"""
    return sql, lambda: not sql(open_ones)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.fixture(scope="module", params=ENGINES)
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    data_dir = tmp_path_factory.mktemp(request.param) / "data"
    config: dict[str, Any] = {"mcpServers": {"s": python_server("plain.py")}}
    if request.param == "postgres":
        url = request.getfixturevalue("server").database()
        config["activity"] = {"database_url": url}
        tools = on_postgres(url)
    else:
        tools = on_sqlite(data_dir)
    with gateway(data_dir, config) as running:
        wire = Wire(running.mcp)
        for number in range(RECORDS):
            wire.read("s:echo", {"text": f"{number} {BIG}"})
        running.catch_up()
        yield House(running, *tools)


def turned_down(house: House, path: str, **params: str) -> str:
    answer = house.running.client.get(f"/api/v1{path}", params=params)
    assert answer.status_code == 400, f"{path} {str(params)[:200]}: {answer.status_code} {answer.text[:200]}"
    error = answer.json()["error"]
    assert error["code"] == "BAD_REQUEST"
    return error["message"]


@pytest.mark.proves("ACT-3")
@pytest.mark.parametrize("path", ["/activity", "/activity/summary", "/activity/export"])
def test_a_question_that_means_nothing_is_turned_down_with_what_is_wrong(house: House, path: str) -> None:
    now = "2026-01-02T00:00:00Z"
    assert "did you mean 'server'" in turned_down(house, path, servr="s")
    assert "zone" in turned_down(house, path, start_time="2026-01-01T00:00:00")
    assert "zone" in turned_down(house, path, end_time="2026-01-01")
    assert "before start_time" in turned_down(house, path, start_time=now, end_time="2026-01-01T00:00:00Z")
    for key in ("q", "server", "tool", "client", "principal", "session_id", "request_id"):
        message = turned_down(house, path, **{key: "x" * 10_000})
        assert "1000 characters" in message
        assert len(message) < 1000, "what was sent is not sent back whole"
    assert turned_down(house, path, **{"x" * 10_000: "1"})[:300].startswith("Unknown parameter")
    assert "at most 50" in turned_down(house, path, q=" ".join(map(str, range(60))))


@pytest.mark.proves("ACT-3")
@pytest.mark.parametrize("path", ["/activity", "/activity/summary", "/activity/export"])
def test_a_question_at_the_edge_of_what_there_is_is_answered(house: House, path: str) -> None:
    first, last = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999-23:59"
    for question in (
        {"start_time": first}, {"end_time": last}, {"start_time": last}, {"end_time": first},
        {"start_time": first, "end_time": last}, {"q": "x" * 1000}, {"q": " ".join(map(str, range(50)))},
        {"q": "a\0b"}, {"server": "\0"}, {"tool": "\U0001f600" * 1000}, {"q": "NEAR(word OR"}, {"q": "word:* & !('"},
        {"q": '"word'}, {"client": "%_\\"}, {"session_id": "' OR 1=1 --"},
    ):  # fmt: skip
        answer = house.running.client.get(f"/api/v1{path}", params=question)
        assert answer.status_code == 200, f"{question}: {answer.text[:300]}"
    for nonsense in ("²", "١", "ª", "_-_"):
        assert house.running.client.get(f"/api/v1{path}", params={"q": nonsense}).status_code in (200, 400)


@pytest.mark.proves("ACT-3")
def test_a_cursor_that_was_tampered_with_is_turned_down_wherever_it_was(house: House) -> None:
    good = house.running.get("/activity", limit=1)["next_cursor"]
    for at in range(len(good)):
        other = "A" if good[at] != "A" else "B"
        assert "cursor" in turned_down(house, "/activity", cursor=good[:at] + other + good[at + 1 :])
    for wrong in (good[:-1], good + good, good.swapcase(), "0", "' OR 1=1 --", "\0", "é", "x" * 10_000):
        assert "cursor" in turned_down(house, "/activity", cursor=wrong)
    assert len(house.running.get("/activity", limit=1, cursor=good)["activities"]) == 1


@pytest.mark.proves("ACT-3", "SEC-5")
def test_an_export_that_its_client_cuts_off_leaves_no_transaction_open(house: House) -> None:
    headers = {"X-API-Key": house.running.key}
    for form in ("jsonl", "csv") * 5:
        with (
            httpx.Client(base_url=house.running.url, headers=headers, timeout=60, trust_env=False) as leaving,
            leaving.stream("GET", "/api/v1/activity/export", params={"format": form}) as answer,
        ):
            assert next(answer.iter_raw(1024))
    until(house.still, what="every transaction to end")
    whole = house.running.client.get("/api/v1/activity/export").text.splitlines()
    assert len(whole) == RECORDS
    assert len({json.loads(line)["id"] for line in whole}) == RECORDS
    until(house.still, what="that of the whole export to end")


@pytest.mark.proves("ACT-8", "ACT-4")
def test_a_changed_row_a_missing_one_and_a_swapped_pair_are_each_found_and_named(house: House) -> None:
    """The last test of this file: it damages the record."""
    report = house.running.get("/activity/verify")
    assert report["intact"], report
    (changed,), (missing,) = house.sql("SELECT id FROM activity ORDER BY n LIMIT 2")
    # Events of calls, and none beside another: what the gateway itself writes before them is no business of this test.
    of_calls = [seq for (seq,) in house.sql("SELECT seq FROM events WHERE head LIKE '%echo%' ORDER BY seq")]
    altered, gone, one, other = of_calls[0:40:10]
    house.sql(f"UPDATE activity SET tool = 'delete_note' WHERE id = '{changed}'")
    house.sql(f"DELETE FROM activity WHERE id = '{missing}'")
    house.sql(f"UPDATE events SET head = replace(head, 'echo', 'ohce') WHERE seq = {altered}")
    house.sql(f"DELETE FROM events WHERE seq = {gone}")
    for there, here in ((one, -1), (other, one), (-1, other)):
        house.sql(f"UPDATE events SET seq = {here} WHERE seq = {there}")
    report = house.running.get("/activity/verify")
    assert not report["intact"]
    found = " | ".join(finding["message"] for finding in report["findings"])
    for named in (
        f"record {changed} does not say what was written: tool",
        f"record {missing} is missing",
        f"event {altered} is not what was written",
        f"event {gone} is missing",
        f"event {one} is not in its place: it is event {other}",
        f"event {other} is not in its place: it is event {one}",
    ):
        assert named in found
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "activity", "verify", "--data-dir", str(house.running.data_dir)],
        env=clean_environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 1
    assert f"event {gone} is missing" in ran.stdout


@pytest.mark.proves("OPS-2", "ACT-6")
def test_a_shared_database_from_a_newer_version_stops_the_start_and_is_left_alone(
    tmp_path: Path, server: Server
) -> None:
    url = server.database()
    sql, _ = on_postgres(url)
    sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "mcp_config.json").write_text(json.dumps({"activity": {"database_url": url}}))
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"],
        env=clean_environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "from-the-future" in ran.stderr
    assert "newer" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert sql("SELECT count(*) FROM gateways") == [(0,)]
