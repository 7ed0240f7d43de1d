"""The record under the worst of days: the gateway killed again and again, the database stopped, the disk full (ACT-5).

By default small enough for every run. The whole of it:
`CRASH_ASKS=2000 CRASH_KILLS=20 python -m pytest -n 0 -s tests/journeys/test_crash.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Running, gateway, python_server, start, until
from tests.support.postgres import Server, own_server
from tests.support.wire import HANDSHAKE, RpcError, Wire

ASKS = int(os.environ.get("CRASH_ASKS", "160"))
KILLS = int(os.environ.get("CRASH_KILLS", "2"))
CLIENTS = 16
MARKER = re.compile(r"m\d+x\d+")
Config = dict[str, Any]


@dataclass(frozen=True)
class Doors:
    """One client at every door."""

    gate: Wire
    direct: Wire
    rest: httpx.Client

    @classmethod
    def of(cls, running: Running, name: str) -> Doors:
        gate, direct = Wire(running.mcp, name=name), Wire(f"{running.mcp}/direct", HANDSHAKE, name=name)
        return cls(gate, direct, running.client)

    def over_rest(self, mark: str) -> dict[str, Any]:
        body = {
            "variant": "write",
            "name": "s:hint_f_f",
            "args": {"marker": mark},
            "intent": {"operation_type": "write"},
        }
        return self.rest.post("/api/v1/call", json=body).json()["result"]

    def in_rounds(self, mark: str) -> dict[str, Any]:
        args = {"method": "elicitation/create", "params": {"message": mark, "requestedSchema": {}}}
        asked = {"name": "call_tool_read", "arguments": {"name": "asks:ask", "args": args, "intent": READ}}
        round_ = self.gate.request("tools/call", asked)
        state = {"inputResponses": {"one": {"action": "decline"}}, "requestState": round_["requestState"]}
        return self.gate.request("tools/call", {**asked, **state})


READ = {"operation_type": "read"}
PADDING = "x" * 30_000
"""The journal has a megabyte of the disk to itself, which small records take long to fill."""
KINDS: dict[str, Callable[[Doors, str], dict[str, Any]]] = {
    "read": lambda doors, mark: doors.gate.via("read", "s:hint_t_f", {"marker": mark}),
    "write": lambda doors, mark: doors.gate.via("write", "s:hint_f_f", {"marker": mark}),
    "destructive": lambda doors, mark: doors.gate.via("destructive", "s:hint_f_t", {"marker": mark}),
    "direct": lambda doors, mark: doors.direct.call("s__hint_f_t", {"marker": mark}),
    "over REST": Doors.over_rest,
    "in two rounds": Doors.in_rounds,
    "refused by the server's hints": lambda doors, mark: doors.gate.via("read", "s:hint_f_t", {"marker": mark}),
    "refused for its intent": lambda doors, mark: doors.gate.call(
        "call_tool_read", {"name": "s:hint_t_f", "args": {"marker": mark}, "intent": {"operation_type": "write"}}
    ),
    "refused, of a tool that does not exist": lambda doors, mark: doors.gate.via("write", "s:none", {"marker": mark}),
    "a search": lambda doors, mark: doors.gate.call("retrieve_tools", {"query": mark}),
    "a wish": lambda doors, mark: doors.gate.call("request_capability", {"capability": mark}),
}


def outcome(kind: str, answer: Mapping[str, Any]) -> str:
    """What the record of this answer has to say. A gateway that has just started may wait in vain for its servers."""
    code = (answer.get("structuredContent") or answer.get("_meta", {}).get("mcpproxy/refusal") or {}).get("code")
    refused = code in ("STORE_UNAVAILABLE", "SERVER_UNAVAILABLE")
    return "blocked" if kind.startswith("refused") or refused else "success"


class Crowd:
    """Clients that ask all kinds of things, and go on with the next gateway when one is gone."""

    def __init__(self, asks: int) -> None:
        self.gateway: Running | None = None
        self.answered: dict[str, tuple[str, str]] = {}
        """Every marker that got an answer: the kind of its ask, and what its record has to say."""
        self.doomed: Running | None = None
        """A gateway that can write nothing, and will not live to make up for it."""
        self.unpromised: set[str] = set()
        """Those that were answered by it."""
        self.insatiable = True
        """Until the worst has befallen the gateway it is asked on, however many answers there are."""
        self._asks = asks
        self._lock = threading.Lock()
        self._done = threading.Event()

    @property
    def satisfied(self) -> bool:
        return self._done.is_set() or (len(self.answered) >= self._asks and not self.insatiable)

    def ask(self, worker: int) -> None:
        number, gateway, doors = 0, None, None
        while not self.satisfied:
            number += 1
            kind = list(KINDS)[(worker + number) % len(KINDS)]
            mark = f"m{worker}x{number}"
            try:
                if doors is None or gateway is not self.gateway:
                    gateway = self.gateway
                    assert gateway is not None
                    doors = Doors.of(gateway, f"client{worker}")
                self.note(mark, kind, KINDS[kind](doors, mark), gateway)
            except (httpx.HTTPError, ValueError, LookupError, RpcError, AssertionError, RuntimeError):
                threading.Event().wait(0.05)  # it was killed; another one will be there soon
                doors = None

    def note(self, mark: str, kind: str, answer: Mapping[str, Any], by: Running) -> None:
        with self._lock:
            self.answered[mark] = kind, outcome(kind, answer)
            if by is self.doomed:
                self.unpromised.add(mark)

    def answers(self, more: int) -> None:
        """Wait for so many more, or until there are enough."""
        enough = len(self.answered) + more
        until(lambda: len(self.answered) >= enough or self.satisfied, 120, "some answers")

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


def check(running: Running, crowd: Crowd, upstream_log: Path) -> Counter[str]:
    """Nothing is missing, twice or untrue; gives how many records there are of each outcome."""
    running.catch_up()
    rows = rows_of(running)
    assert [mark for mark, found in rows.items() if len(found) != 1] == [], "each is on record once"
    for mark, (kind, expected) in crowd.answered.items():
        if mark not in crowd.unpromised:
            assert mark in rows, f"{kind}: an answer that a client received is on record"
            assert rows[mark][0]["status"] == expected, (kind, rows[mark][0])
    for line in upstream_log.read_text().splitlines():
        called = json.loads(line)
        if called["name"] != "hint_t_f":
            assert called["arguments"]["marker"] in rows, "a call above read that an upstream saw is on record"
    statuses = Counter(row["status"] for found in rows.values() for row in found)
    assert statuses.keys() <= {"success", "blocked", "interrupted"}
    verdict = running.get("/activity/verify")
    assert verdict["findings"] == []
    assert verdict["rows"] >= len(rows)
    return statuses


class Trouble:
    """What befalls a life in the middle, beside being killed: nothing, by default."""

    database_url: str | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def strike(self, crowd: Crowd, running: Running) -> None:
        """While asks go on. The gateway is killed in it."""

    def heal(self) -> None:
        """Before the next gateway starts."""


class NoDatabase(Trouble):
    def __init__(self, folder: Path, server: Server) -> None:
        super().__init__(folder)
        self._server = server
        self.database_url = server.database()

    def strike(self, crowd: Crowd, running: Running) -> None:
        self._server.kill()
        crowd.answers(30)

    def heal(self) -> None:
        self._server.start()


class FullDisk(Trouble):
    """First until there is room again, and then once more, now to be killed in it."""

    def strike(self, crowd: Crowd, running: Running) -> None:
        self._fill(running)
        crowd.answers(30)
        self.heal()
        until(lambda: running.client.get("/readyz").status_code == 200, 60, "room to be noticed")
        crowd.answers(30)
        crowd.doomed = running
        self._fill(running)
        crowd.answers(30)
        running.kill()

    def _fill(self, running: Running) -> None:
        def full() -> bool:
            fill(self.folder / "ballast")
            running.post(
                "/call", {"variant": "read", "name": "s:hint_t_f", "args": {"padding": PADDING}, "intent": READ}
            )
            return running.client.get("/readyz").status_code == 503

        until(full, 60, "a disk that is full")

    def heal(self) -> None:
        (self.folder / "ballast").unlink()


@pytest.fixture(params=["sqlite", "postgres", "full disk"])
def trouble(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trouble]:
    if request.param == "postgres":
        with own_server() as server:
            yield NoDatabase(tmp_path, server)
    elif request.param == "full disk":
        yield FullDisk(request.getfixturevalue("small_disk"))
    else:
        yield Trouble(tmp_path)


def config_for(database_url: str | None, upstream_log: Path) -> Config:
    activity = {"database_url": database_url} if database_url else {}
    servers = {"s": python_server("plain.py", "--log", str(upstream_log)), "asks": python_server("asks.py", "--modern")}
    return {"mcpServers": servers, "activity": activity, "surfaces": ["gate", "direct"], "log": {"level": "error"}}


@pytest.mark.proves("ACT-5", "ACT-8", "ACT-6", "ACT-1")
def test_however_often_it_is_killed_every_answer_is_on_record_and_the_chain_holds(
    tmp_path: Path, trouble: Trouble
) -> None:
    seen, data = tmp_path / "calls.jsonl", trouble.folder / "data"
    choose, crowd, began = random.Random(1), Crowd(ASKS), time.monotonic()
    running = crowd.gateway = start(data, config_for(trouble.database_url, seen))
    with ThreadPoolExecutor(CLIENTS) as pool:
        try:
            working = [pool.submit(crowd.ask, worker) for worker in range(CLIENTS)]
            for life in range(KILLS):
                crowd.answers(choose.randint(1, max(2, 2 * ASKS // (KILLS + 1) - 1)))
                if struck := life == KILLS // 2:
                    trouble.strike(crowd, running)
                    crowd.insatiable = False
                running.kill()
                running.client.close()
                if struck:
                    trouble.heal()
                running = crowd.gateway = start(data)
            until(lambda: crowd.satisfied, 300, "all answers")
            for future in working:
                future.result(120)
        finally:
            crowd.give_up()
            running.kill()
            running.client.close()
    with gateway(data) as again:
        statuses = check(again, crowd, seen)
    kinds = Counter(kind for kind, _ in crowd.answered.values())
    print(f"{type(trouble).__name__}: {len(crowd.answered)} answers, {KILLS} kills, {time.monotonic() - began:.0f} s")
    print(f"records {dict(statuses)}; answers by kind {dict(kinds)}; unpromised {len(crowd.unpromised)}")


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
    """Until not a byte more fits. What fills it already stays: room made for a moment would be taken for good."""
    with path.open("ab", buffering=0) as file:
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
        doors = Doors.of(running, "client")

        def ask(number: int, kind: str) -> dict[str, Any]:
            answer = KINDS[kind](doors, f"m0x{number}")
            crowd.note(f"m0x{number}", kind, answer, running)
            return answer

        for number, kind in enumerate(KINDS):
            ask(number, kind)
        calls = seen.read_text()
        fill(small_disk / "ballast")
        tries = itertools.count(1000)

        def refused() -> bool:
            """Also what is small: it may have room where a large one has none."""
            mark = f"m0x{next(tries)}"
            answer = doors.gate.via("write", "s:hint_f_f", {"marker": mark, "padding": PADDING})
            crowd.note(mark, "write", answer, running)
            return answer.get("isError") is True and ask(next(tries), "write").get("isError") is True

        until(refused, what="a disk that is full")
        for number in range(101, 120):
            assert ask(number, "destructive")["structuredContent"]["code"] == "STORE_UNAVAILABLE"
            assert not ask(number + 100, "read").get("isError")
        assert running.client.get("/readyz").status_code == 503
        assert not [line for line in seen.read_text()[len(calls) :].splitlines() if "hint_f_t" in line]
        (small_disk / "ballast").unlink()
        until(lambda: running.client.get("/readyz").status_code == 200, what="the disk to be noticed as well again")
        assert not ask(300, "destructive").get("isError")
        check(running, crowd, seen)
