"""Clients of both eras at every door, for a while, in front of servers that are killed at random.

    python -m tests.bench.soak [--seconds 120] [--sessions 200] [--seed 1] [--json FILE]

Every call carries a payload of its own, and some are asked back in mid-call. At the end: each call had exactly one
answer, which was its own or an error that says why; each is on record exactly once, with the same outcome; and the
gateway's memory did not grow after the first third. The exit status says whether all of that holds.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import psutil

from tests.support.everything import over_stdio
from tests.support.gateway import SERVERS, Running, gateway, python_server
from tests.support.links import HttpLink
from tests.support.peer import Peer, connected
from tests.support.wire import HANDSHAKE, MODERN, RpcError, text

PATIENCE = 60.0
"""Longer than any call may take: an answer that is not there by then is lost."""
THINKS = (0.3, 1.5)
KILLS_EVERY = (0.5, 4.0)
ECHOES = ("pipe0", "pipe1", "web")
ASKS = ("modern", "old", "both")
DOORS = ("/mcp", "/mcp/direct", *(f"/mcp/s/{server}" for server in (*ECHOES, *ASKS)))
MARKS = {"pipe0": "501", "pipe1": "502", "modern": "modern", "old": "handshake", "both": "both"}
"""What the command line of each server has that no other one has."""
GROWTH = 1.10
"""What the last third may need of memory, compared with the second."""


@dataclass
class Tally:
    """What became of every call, by its payload."""

    outcomes: dict[str, str] = field(default_factory=dict[str, str])
    crossed: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    strays: int = 0
    kills: Counter[str] = field(default_factory=Counter[str])
    memory: list[float] = field(default_factory=list[float])
    """Megabytes, once a second."""

    def note(self, payload: str, result: Mapping[str, Any], expected: str) -> None:
        if result.get("isError"):
            self.outcomes[payload] = _reason(result)
        else:
            self.outcomes[payload] = "success"
            if text(dict(result)) != expected:
                self.crossed.append(f"{payload}: {text(dict(result))[:200]}")


def _reason(result: Mapping[str, Any]) -> str:
    """Every error of the gateway's has a code; without one it is the server's own."""
    said = result.get("structuredContent") or (result.get("_meta") or {}).get("mcpproxy/refusal") or {}
    return said.get("code", "the server's own")


class Web:
    """A server over HTTP that can be killed, and is there again at the same address."""

    def __init__(self) -> None:
        self._kept = socket.socket()  # bound and never heard of, so that between two lives nobody else gets the port
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.port = self._kept.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(SERVERS / "plain_http.py"), "--http", str(self.port), "--session"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        assert self.process.stdout.readline() == f"PORT {self.port}\n"

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()


def configuration(web: Web) -> dict[str, Any]:
    servers = {
        "pipe0": python_server("plain.py", "--page", MARKS["pipe0"]),
        "pipe1": python_server("plain.py", "--page", MARKS["pipe1"]),
        "web": {"url": f"http://127.0.0.1:{web.port}/mcp"},
        "modern": over_stdio("--era", "modern"),
        "old": over_stdio("--era", "handshake"),
        "both": over_stdio("--era", "both"),
    }
    return {
        "surfaces": ["gate", "direct", "passthrough"],
        "mcpServers": {name: {**entry, "timeout": 20} for name, entry in servers.items()},
    }


@dataclass
class Soak:
    running: Running
    web: Web
    seconds: float
    chance: random.Random
    tally: Tally = field(default_factory=Tally)
    ends: float = 0.0
    ready: anyio.Event = field(default_factory=anyio.Event)
    opened: int = 0

    async def run(self, sessions: int) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(sessions):
                tasks.start_soon(self._session, number)
            with anyio.fail_after(PATIENCE + sessions):
                while self.opened < sessions:  # noqa: ASYNC110 (many tasks count, and nobody is in a hurry)
                    await anyio.sleep(0.05)
            self.ends = time.monotonic() + self.seconds
            self.ready.set()
            tasks.start_soon(self._kill)
            tasks.start_soon(self._sample)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.ends

    async def _session(self, number: int) -> None:
        era, door = (MODERN, HANDSHAKE)[number % 2], DOORS[number // 2 % len(DOORS)]

        async def person(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
            """Says back whom it was asked about, so that an answer to another call would show."""
            return {"action": "accept", "content": {"answer": params["message"]}}

        async with connected(HttpLink(f"{self.running.url}{door}"), era, person, name=f"soak-{number}") as peer:
            self.opened += 1
            await self.ready.wait()
            for turn in count():
                if self.over:
                    break
                await anyio.sleep(self.chance.uniform(*THINKS))
                await self._call(peer, door, f"{number}-{turn}")
            self.tally.strays += len(peer.strays)

    async def _call(self, peer: Peer, door: str, payload: str) -> None:
        server = door.rpartition("/")[2]
        if server not in (*ECHOES, *ASKS):
            server = self.chance.choice((*ECHOES, *ASKS))
        params, expected = asked(door, server, payload)
        try:
            with anyio.fail_after(PATIENCE):
                self.tally.note(payload, await peer.request("tools/call", params), expected)
        except TimeoutError:
            self.tally.lost.append(payload)
        except RpcError as error:
            self.tally.outcomes[payload] = f"error {error.code}: {error}".replace(payload, "...")[:120]

    async def _kill(self) -> None:
        victims = (*MARKS, "web")
        while not self.over:
            await anyio.sleep(self.chance.uniform(*KILLS_EVERY))
            victim = self.chance.choice(victims)
            if victim == "web":
                await anyio.to_thread.run_sync(self.web.restart)
            elif not self._killed(victim):
                continue
            self.tally.kills[victim] += 1

    def _killed(self, server: str) -> bool:
        """Of the processes that the gateway started, those of this server."""
        found = [process for process in _family(self.running.process.pid) if MARKS[server] in _command(process)]
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return bool(found)

    async def _sample(self) -> None:
        gateway_process = psutil.Process(self.running.process.pid)
        while not self.over:
            self.tally.memory.append(gateway_process.memory_info().rss / 2**20)
            await anyio.sleep(min(1.0, self.seconds / 10))


def _family(pid: int) -> Iterator[psutil.Process]:
    yield from psutil.Process(pid).children(recursive=True)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def asked(door: str, server: str, payload: str) -> tuple[dict[str, Any], str]:
    """The params of a call with this payload, and the text that must come back."""
    if server in ECHOES:
        tool, arguments, variant, expected = "echo", {"text": payload}, "read", json.dumps({"text": payload})
    else:
        tool, arguments, variant, expected = "ask", {"who": payload}, "write", f"{payload} says What says {payload}?"
    if door == "/mcp":
        gated = {"name": f"{server}:{tool}", "args": arguments, "intent": {"operation_type": variant}}
        return {"name": f"call_tool_{variant}", "arguments": gated}, expected
    return {"name": f"{server}__{tool}" if door == "/mcp/direct" else tool, "arguments": arguments}, expected


def on_record(running: Running) -> dict[str, list[str]]:
    """The statuses of every call on record, by its payload."""
    found: dict[str, list[str]] = {}
    export = running.client.get("/api/v1/activity/export", params={"type": "tool_call"}, timeout=PATIENCE)
    for line in export.text.splitlines():
        row = json.loads(line)
        arguments = row["arguments"] or {}
        found.setdefault(arguments.get("text") or arguments.get("who"), []).append(row["status"])
    return found


@dataclass
class Report:
    sessions: int
    seconds: float
    calls: int
    outcomes: dict[str, int]
    kills: dict[str, int]
    lost: list[str]
    crossed: list[str]
    strays: int
    unrecorded: list[str]
    recorded_otherwise: list[str]
    recorded_unasked: int
    megabytes: dict[str, float]

    @property
    def sound(self) -> bool:
        """Everything but the memory, which a short run cannot judge."""
        wrong = (self.lost, self.crossed, self.strays, self.unrecorded, self.recorded_otherwise, self.recorded_unasked)
        return not any(wrong) and self.outcomes.get("success", 0) > 0

    @property
    def flat(self) -> bool:
        return self.megabytes["last third"] <= self.megabytes["second third"] * GROWTH


def report(soak: Soak, sessions: int) -> Report:
    tally = soak.tally
    sent = {*tally.outcomes, *tally.lost}
    rows = on_record(soak.running)
    wrong = [f"{payload}: {said}, on record {rows[payload]}" for payload, said in tally.outcomes.items()
             if payload in rows and not _agrees(said, rows[payload])]  # fmt: skip
    return Report(
        sessions, soak.seconds, len(sent), dict(Counter(tally.outcomes.values()).most_common()), dict(tally.kills),
        tally.lost, tally.crossed, tally.strays, sorted(sent - rows.keys()), wrong, len(rows.keys() - sent),
        thirds(tally.memory),
    )  # fmt: skip


def _agrees(said: str, statuses: list[str]) -> bool:
    """Once, ended, and as its client heard."""
    return len(statuses) == 1 and statuses[0] != "pending" and (said == "success") == (statuses[0] == "success")


def thirds(samples: list[float]) -> dict[str, float]:
    size = max(1, len(samples) // 3)
    parts = {"first third": samples[:size], "second third": samples[size:-size], "last third": samples[-size:]}
    return {name: round(statistics.mean(part or samples), 1) for name, part in parts.items()}


def soaked(folder: Path, seconds: float, sessions: int, seed: int = 1) -> Report:
    with ExitStack() as stack:
        web = Web()
        stack.callback(web.stop)
        running = stack.enter_context(gateway(folder / "data", configuration(web)))
        soak = Soak(running, web, seconds, random.Random(seed))
        anyio.run(soak.run, sessions)
        running.catch_up()
        return report(soak, sessions)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = soaked(Path(folder), given.seconds, given.sessions, given.seed)
    shown = json.dumps(dataclasses.asdict(found), indent=2)
    print(shown)
    if given.json:
        given.json.write_text(shown + "\n")
    print("sound" if found.sound else "NOT SOUND", "and flat" if found.flat else "and NOT FLAT")
    return 0 if found.sound and found.flat else 1


if __name__ == "__main__":
    sys.exit(main())
