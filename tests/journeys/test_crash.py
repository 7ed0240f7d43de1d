"""The record under the worst of days: the gateway killed again and again, the database stopped, the disk full (ACT-5).

By default small enough for every run. The whole of it:
`CRASH_ASKS=2000 CRASH_KILLS=20 python -m pytest tests/journeys/test_crash.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Running, gateway, python_server, start, until
from tests.support.postgres import Server, own_server
from tests.support.wire import RpcError, Wire

ASKS = int(os.environ.get("CRASH_ASKS", "400"))
KILLS = int(os.environ.get("CRASH_KILLS", "4"))
CLIENTS = 16
MARKER = re.compile(r"m\d+x\d+")
Config = dict[str, Any]

KINDS: dict[str, Callable[[Wire, str], dict[str, Any]]] = {
    "read": lambda wire, mark: wire.via("read", "s:hint_t_f", {"marker": mark}),
    "write": lambda wire, mark: wire.via("write", "s:hint_f_f", {"marker": mark}),
    "destructive": lambda wire, mark: wire.via("destructive", "s:hint_f_t", {"marker": mark}),
    "refused by the server's hints": lambda wire, mark: wire.via("read", "s:hint_f_t", {"marker": mark}),
    "refused for its intent": lambda wire, mark: wire.call(
        "call_tool_read", {"name": "s:hint_t_f", "args": {"marker": mark}, "intent": {"operation_type": "write"}}
    ),
    "of a tool that does not exist": lambda wire, mark: wire.via("write", "s:nothing", {"marker": mark}),
    "a search": lambda wire, mark: wire.call("retrieve_tools", {"query": mark}),
    "a wish": lambda wire, mark: wire.call("request_capability", {"capability": mark}),
}


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[Server | None]:
    if request.param == "sqlite":
        yield None
    else:
        with own_server() as server:
            yield server


def config_for(server: Server | None, upstream_log: Path) -> Config:
    activity = {"database_url": server.database()} if server else {}
    servers = {"s": python_server("plain.py", "--log", str(upstream_log))}
    return {"mcpServers": servers, "activity": activity, "log": {"level": "error"}}


class Crowd:
    """Clients that ask all kinds of things, and go on with the next gateway when one is gone."""

    def __init__(self, asks: int) -> None:
        self.url = ""
        self.answered: dict[str, str] = {}
        """Every marker that got an answer, and the kind of its ask."""
        self._asks = asks
        self._lock = threading.Lock()
        self._done = threading.Event()

    @property
    def satisfied(self) -> bool:
        return len(self.answered) >= self._asks or self._done.is_set()

    def ask(self, worker: int) -> None:
        number, url, wire = 0, "", None
        while not self.satisfied:
            if wire is None or url != self.url:
                url = self.url
                wire = Wire(url, name=f"client{worker}")
            number += 1
            kind = list(KINDS)[(worker + number) % len(KINDS)]
            mark = f"m{worker}x{number}"
            try:
                KINDS[kind](wire, mark)
            except (httpx.HTTPError, ValueError, IndexError, RpcError):
                threading.Event().wait(0.05)  # it was killed; another one will be there soon
                wire = None
                continue
            with self._lock:
                self.answered[mark] = kind

    def give_up(self) -> None:
        self._done.set()


def rows_of(running: Running) -> dict[str, list[dict[str, Any]]]:
    """Every record, by the marker in its arguments."""
    found: dict[str, list[dict[str, Any]]] = {}
    with running.client.stream("GET", "/api/v1/activity/export") as response:
        for line in response.iter_lines():
            row = json.loads(line)
            for mark in MARKER.findall(json.dumps(row["arguments"])):
                found.setdefault(mark, []).append(row)
    return found


def check(running: Running, crowd: Crowd, upstream_log: Path) -> None:
    rows = rows_of(running)
    assert [mark for mark, found in rows.items() if len(found) != 1] == [], "each is on record once"
    for mark, kind in crowd.answered.items():
        assert mark in rows, f"{kind}: an answer that a client received is on record"
        expected = "blocked" if "refused" in kind or "not exist" in kind else "success"
        assert rows[mark][0]["status"] == expected, (kind, rows[mark][0])
    for line in upstream_log.read_text().splitlines():
        called = json.loads(line)
        if called["name"] != "hint_t_f":
            assert called["arguments"]["marker"] in rows, "a call above read that an upstream saw is on record"
    assert {row["status"] for found in rows.values() for row in found} <= {"success", "blocked", "interrupted"}
    verdict = running.get("/activity/verify")
    assert verdict["findings"] == []
    assert verdict["rows"] >= len(rows)


@pytest.mark.proves("ACT-5", "ACT-8", "ACT-6", "ACT-1")
def test_however_often_it_is_killed_every_answer_is_on_record_and_the_chain_holds(
    tmp_path: Path, server: Server | None
) -> None:
    seen, data = tmp_path / "calls.jsonl", tmp_path / "data"
    config = config_for(server, seen)
    choose, crowd = random.Random(1), Crowd(ASKS)
    running = start(data, config)
    with ThreadPoolExecutor(CLIENTS) as pool:
        try:
            crowd.url = running.mcp
            working = [pool.submit(crowd.ask, worker) for worker in range(CLIENTS)]
            for life in range(KILLS):
                enough = len(crowd.answered) + choose.randint(1, max(2, 2 * ASKS // (KILLS + 1) - 1))
                until(lambda enough=enough: len(crowd.answered) >= enough or crowd.satisfied, 120, "some answers")
                if server is not None and life == KILLS // 2:
                    server.kill()  # and while it is away, asks go on
                    enough = len(crowd.answered) + 30
                    until(lambda enough=enough: len(crowd.answered) >= enough or crowd.satisfied, 120, "more answers")
                    running.kill()
                    server.start()
                running.kill()
                running.client.close()
                running = start(data)
                crowd.url = running.mcp
            until(lambda: crowd.satisfied, 300, "all answers")
            for future in working:
                future.result(120)
        finally:
            crowd.give_up()
            running.kill()
            running.client.close()
    with gateway(data) as again:
        check(again, crowd, seen)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    folder = tempfile.mkdtemp()
    if os.system(f"mount -t tmpfs -o size=24m,mode=0700 tmpfs {folder} 2>/dev/null") != 0:
        os.rmdir(folder)
        pytest.skip("a small disk of our own needs the right to mount one")
    yield Path(folder)
    os.system(f"umount -l {folder}")
    os.rmdir(folder)


def fill(path: Path) -> None:
    """Until not a byte more fits."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


@pytest.mark.proves("ACT-5", "GATE-12")
def test_on_a_full_disk_what_is_above_read_is_refused_reads_go_on_and_all_is_on_record_later(
    small_disk: Path, tmp_path: Path
) -> None:
    seen, data = tmp_path / "calls.jsonl", small_disk / "data"
    crowd = Crowd(0)
    with gateway(data, config_for(None, seen)) as running:
        wire = Wire(running.mcp)

        def ask(number: int, kind: str) -> dict[str, Any]:
            return KINDS[kind](wire, f"m0x{number}")

        for number, kind in enumerate(KINDS):
            ask(number, kind)
            crowd.answered[f"m0x{number}"] = kind
        calls = seen.read_text()
        fill(small_disk / "ballast")
        tries = itertools.count(1000)
        until(lambda: ask(next(tries), "write").get("isError"), what="a disk that is full")
        for number in range(101, 120):
            refused = ask(number, "destructive")
            assert refused["structuredContent"]["code"] == "STORE_UNAVAILABLE"
            assert not ask(number + 100, "read").get("isError")
            crowd.answered[f"m0x{number + 100}"] = "read"
        status = running.client.get("/readyz")
        assert status.status_code == 503
        assert not [line for line in seen.read_text()[len(calls) :].splitlines() if "hint_f_t" in line]
        (small_disk / "ballast").unlink()
        until(lambda: running.client.get("/readyz").status_code == 200, what="the disk to be noticed as well again")
        assert not ask(300, "destructive").get("isError")
        crowd.answered["m0x300"] = "destructive"
        check(running, crowd, seen)
