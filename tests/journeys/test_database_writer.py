"""Somebody who can write the database, and has no key, against gateways that run (ACT-10): what they change is found,
live and with the gateway stopped, and opens nothing. On SQLite and on a PostgreSQL that two gateways share."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.store.options import Options
from tests.journeys.test_bad_reading import on_postgres, on_sqlite
from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.postgres import Server, own_server
from tests.support.replicas import SEALING_KEYS, TOKEN, documented, replicas
from tests.support.wire import Wire

pytestmark = pytest.mark.proves("ACT-10")
Sql = Callable[[str], list[Any]]
HINT = """SELECT pg_notify('mcpproxy', '["an attacker", "switch", "frozen"]')"""
FORGED = """UPDATE approvals SET status = 'approved', review =
            '{"by":"admin","source":"cli","terminal":true,"at_ms":1800000000001,"notes":null}'"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


def verified(running: Running, **query: Any) -> tuple[str, set[str]]:
    running.catch_up()
    report = running.get("/activity/verify", **query)
    return report["result"], {found["kind"] for found in report["findings"]}


def command(running: Running, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "mcpproxy_py", "activity", *words, "--data-dir", str(running.data_dir)]
    return subprocess.run(program, env=clean_environment(), capture_output=True, text=True, timeout=120)


def offline(data_dir: Path, *words: str, options: Options = Options()) -> int:  # noqa: B008
    program = [sys.executable, "-m", "mcpproxy_py.store.verify", str(data_dir), *words]
    told = f"{options.as_line()}\n"
    return subprocess.run(program, input=told, capture_output=True, text=True, timeout=120).returncode


def asked_for(wire: Wire, name: str) -> str:
    wish = {"agent_id": "a", "mcp_name": name, "rationale": "for the report"}
    return wire.via("write", "catalog:mcp_request_capability", wish)["structuredContent"]["approval"]["approval_id"]


@contextmanager
def undone(sql: Sql, *tables: str) -> Iterator[None]:
    """What was done in the block is taken back."""
    for table in tables:
        sql(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
    try:
        yield
    finally:
        for table in tables:
            sql(f"DELETE FROM {table}")
            sql(f"INSERT INTO {table} SELECT * FROM kept_{table}")
            sql(f"DROP TABLE kept_{table}")


ATTACKS = {
    "a rewritten row, excused by a key id": [
        "UPDATE gateways SET key_id = '00'", "UPDATE activity SET tool = 'harmless', status = 'success'",
    ],
    "a key id alone": ["UPDATE gateways SET key_id = '00'"],
    "events in each other's place": [
        "UPDATE events SET seq = -1 WHERE seq = 1", "UPDATE events SET seq = 1 WHERE seq = 2",
        "UPDATE events SET seq = 2 WHERE seq = -1", "UPDATE gateways SET key_id = '00'",
    ],
    "a tail that is gone": ["DELETE FROM events WHERE seq > 3", "UPDATE gateways SET key_id = '00'"],
    "all that is gone": ["DELETE FROM events", "DELETE FROM activity", "DELETE FROM gateways"],
    "another chain under our name": [
        "INSERT INTO gateways (number, name, key_id, place, seen_at) VALUES (7, 'evil', '00', 'x', 0)",
        "INSERT INTO events SELECT 7, seq, at, head, mac FROM events WHERE chain = 1 AND seq < 3",
        "UPDATE gateways SET name = 'was ' || name WHERE number = 1",
        "UPDATE gateways SET name = substr((SELECT name FROM gateways WHERE number = 1), 5) WHERE number = 7",
    ],
    "our chain under another name": ["UPDATE gateways SET name = 'another', key_id = '00'"],
}  # fmt: skip


def test_whatever_is_written_into_the_file_of_a_gateway_is_found_and_nothing_is_excused(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {"s": python_server("plain.py")}}) as running:
        sql, _ = on_sqlite(running.data_dir)
        wire = Wire(running.mcp)
        for number in range(5):
            assert not wire.via("write", "s:hint_f_f", {"marker": f"m{number}"}).get("isError")
        assert verified(running) == ("intact", set())
        for name, statements in ATTACKS.items():
            with undone(sql, "events", "activity", "gateways"):
                for statement in statements:
                    sql(statement)
                assert verified(running)[0] == "broken", name
                assert offline(running.data_dir) == 1, name
        assert verified(running) == ("intact", set())
        assert command(running, "verify").returncode == 0
        sql("UPDATE gateways SET key_id = '00'")
        ran = command(running, "verify")
        assert (ran.returncode, "NOT what was written" in ran.stdout) == (1, True)


def verified_while(running: Running, change: Callable[[int], Any], times: int = 3) -> list[tuple[str, Any]]:
    """What is said of the record while somebody goes on changing what is sealed."""
    over, changed = threading.Event(), list[int]()

    def changes() -> None:
        while not over.is_set():
            change(len(changed))
            changed.append(1)

    somebody = threading.Thread(target=changes)
    somebody.start()
    try:
        reports = [running.get("/activity/verify") for _ in range(times)]
    finally:
        over.set()
        somebody.join(60)
    assert len(changed) > times
    return [(report["result"], report["findings"] + report["unverified"]) for report in reports]


def test_a_record_is_intact_also_while_switches_are_set_and_requests_decided(tmp_path: Path, server: Server) -> None:
    """Their rows are in the database before the writer has brought their events."""
    names = map("server{}".format, count())

    def change(number: int) -> None:
        running.post("/unfreeze" if number % 2 else "/freeze")
        if number % 2 and number < 20:
            assert running.post(f"/approvals/{asked_for(wire, next(names))}/deny", {}).status_code == 200

    with gateway(tmp_path / "data", {"mcpServers": {}}) as running:
        wire = Wire(running.mcp)
        assert verified_while(running, change) == [("intact", [])] * 3
    with replicas(tmp_path, server.database(), documented(mcpServers={})) as (running, other):
        wire = Wire(running.mcp, token=TOKEN)
        assert verified_while(running, change) == [("intact", [])] * 3
        for result, said in verified_while(other, change):  # the events of the first may not be there yet
            assert result == "intact" or all("may not have brought it yet" in each for each in said), said


@pytest.mark.proves("GATE-13", "CAT-7")
def test_a_freeze_and_a_request_in_the_file_are_what_people_made_of_them(tmp_path: Path) -> None:
    config = {"mcpServers": {"s": python_server("plain.py")}}
    with gateway(tmp_path / "data", config) as running:
        sql, _ = on_sqlite(running.data_dir)
        request = asked_for(Wire(running.mcp), "notion")
        running.post("/freeze")
        sql("UPDATE switches SET value = 'false'")
        sql(FORGED)
        shown = running.get(f"/approvals/{request}")
        assert (shown["status"], shown["reviewed_on_terminal"], shown["sealed"]) == ("pending", None, False)
        assert running.post(f"/approvals/{request}/approve", {"terminal": True}).status_code == 409
        assert verified(running) == ("broken", {"unsealed"})
    with gateway(tmp_path / "data", config) as running:
        assert running.get("/status")["frozen"] is True
        refused = Wire(running.mcp).via("write", "s:hint_f_f", {})
        assert refused["structuredContent"]["code"] == "FROZEN"
        doctor = subprocess.run(
            [sys.executable, "-m", "mcpproxy_py", "doctor", "--data-dir", str(running.data_dir), "-o", "json"],
            env=clean_environment(), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        problems = [row["says"] for row in json.loads(doctor.stdout)["findings"] if row["state"] == "problem"]
        assert any("'frozen'" in says for says in problems), doctor.stdout
        assert running.post("/unfreeze").status_code == 200
        assert running.post(f"/approvals/{request}/deny", {}).status_code == 200
        assert not Wire(running.mcp).via("write", "s:hint_f_f", {}).get("isError")
        assert running.get("/status")["store"]["unbelieved"] == []
        assert verified(running) == ("intact", set())


@pytest.mark.proves("ACT-4")
def test_an_anchor_finds_an_older_copy_of_everything(tmp_path: Path) -> None:
    config = {"mcpServers": {"s": python_server("plain.py")}}
    data, older = tmp_path / "data", tmp_path / "older"
    with gateway(data, config) as running:
        Wire(running.mcp).read("s:hint_t_f")
    shutil.copytree(data, older)
    with gateway(data, config) as running:
        Wire(running.mcp).read("s:hint_t_f")
        running.catch_up()
        line = command(running, "anchor").stdout.strip()
        told = json.loads(command(running, "anchor", "-o", "json").stdout)
        assert (told["chain"], told["anchor"].rpartition(",at=")[0]) == (
            (data / "chain.name").read_text().strip(), line.rpartition(",at=")[0],
        )  # fmt: skip
        (tmp_path / "anchor").write_text(f"{line}\n")
        for given in (line, f"@{tmp_path / 'anchor'}"):
            assert command(running, "verify", "--anchor", given).returncode == 0
        for wrong in (line[:-1], "nothing", f"@{tmp_path / 'none'}"):
            assert command(running, "verify", "--anchor", wrong).returncode == 2
        assert running.client.get("/api/v1/activity/verify", params={"anchor": "x"}).status_code == 400
    with gateway(tmp_path / "stranger") as stranger:
        other = stranger.get("/activity/anchor")["anchor"]
    shutil.rmtree(data)
    older.rename(data)
    assert (offline(data), offline(data, "--anchor", line), offline(data, "--anchor", other)) == (0, 1, 5)
    with gateway(data, config) as running:
        for _ in range(3):
            Wire(running.mcp).read("s:hint_t_f")
        assert verified(running) == ("intact", set())
        assert verified(running, anchor=line) == ("broken", {"rolled_back"})
        ran = command(running, "verify", "--anchor", line)
        assert (ran.returncode, "rolled_back" in ran.stdout) == (1, True)
        ran = command(running, "verify", "--anchor", other)
        assert (ran.returncode, "cannot be verified here" in ran.stdout) == (5, True)


@pytest.mark.proves("ACT-6", "GATE-13", "CAT-7")
def test_who_writes_the_database_of_two_gateways_opens_nothing_at_either(tmp_path: Path, server: Server) -> None:
    url = server.database()
    sql, _ = on_postgres(url)
    with replicas(tmp_path, url, documented(mcpServers={"s": python_server("plain.py")})) as (one, two):
        wires = [Wire(each.mcp, token=TOKEN) for each in (one, two)]
        request = asked_for(wires[0], "notion")
        one.post("/freeze")
        one.post("/unfreeze")
        until(lambda: not two.get("/status")["frozen"], what="the other to thaw")
        sql("CREATE TABLE thawed AS SELECT * FROM switches")
        one.post("/freeze")
        until(lambda: two.get("/status")["frozen"], what="the other to freeze")
        one.catch_up()
        for each in (one, two):
            assert verified(each) == ("intact", set())
        attacks = (
            ["UPDATE switches SET value = 'false'"], ["DELETE FROM switches"],
            ["DELETE FROM switches", "INSERT INTO switches SELECT * FROM thawed"],
        )  # fmt: skip
        for statements in attacks:
            with undone(sql, "switches"):
                for statement in (*statements, HINT):
                    sql(statement)
                for each, wire in zip((one, two), wires, strict=True):
                    until(lambda each=each: each.get("/status")["store"]["unbelieved"], what="it to be noticed")
                    assert wire.via("write", "s:hint_f_f", {})["structuredContent"]["code"] == "FROZEN"
                    assert verified(each)[0] == "broken"
            sql(HINT)
            for each in (one, two):
                until(lambda each=each: not each.get("/status")["store"]["unbelieved"], what="all to be well")
        sql(FORGED)
        for each in (one, two):
            shown = each.get(f"/approvals/{request}")
            assert (shown["status"], shown["sealed"]) == ("pending", False)
            assert verified(each) == ("broken", {"unsealed"})
        two.post(f"/approvals/{request}/deny", {})
        two.post("/unfreeze")
        until(lambda: not one.get("/status")["frozen"], what="the first to thaw")
        for each in (one, two):
            each.catch_up()
        for each in (one, two):
            assert verified(each) == ("intact", set())

        name = (two.data_dir / "chain.name").read_text().strip()
        with undone(sql, "gateways", "events", "activity"):
            sql(f"UPDATE gateways SET key_id = '00' WHERE name = '{name}'")
            sql("UPDATE activity SET tool = 'harmless'")
            for each in (one, two):
                assert verified(each)[0] == "broken"
                assert offline(each.data_dir, options=Options(url, sealing_keys=SEALING_KEYS)) == 1
        with undone(sql, "gateways", "events", "activity"):
            number = sql(f"SELECT number FROM gateways WHERE name = '{name}'")[0][0]
            for table, column in (("events", "chain"), ("activity", "gateway"), ("gateways", "number")):
                sql(f"DELETE FROM {table} WHERE {column} = {number}")
            result, kinds = verified(one)
            assert (result, "missing" in kinds) == ("broken", True), "it was verified here before, so it must stay"
