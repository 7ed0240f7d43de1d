"""What is attacked: servers that write down what they hear, a gateway in front of them, and clients at its doors."""

from __future__ import annotations

import itertools
import json
import os
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.gateway import SERVERS, Running, python_server, until
from tests.support.links import HttpLink
from tests.support.listening import listening
from tests.support.peer import WAIT, Answer, Message, Peer, connected
from tests.support.wire import HANDSHAKE, MODERN, RpcError, text

ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
DOORS = pytest.mark.parametrize("door", ["gate", "direct", "passthrough"])
ALL_SURFACES = ["gate", "direct", "passthrough"]
OPERATIONS = {"look": "read", "put": "write", "wipe": "destructive"}
READS = ("report", "begin", "deafen")
_numbers = itertools.count(1)


def fresh(word: str = "mark") -> str:
    """A word that nobody else uses, to know one call by."""
    return f"{word}-{os.getpid()}-{next(_numbers)}"


@dataclass(frozen=True)
class Log:
    """Everything that a server heard, in order."""

    path: Path

    def messages(self) -> list[Message]:
        lines = self.path.read_text().split("\n")[:-1] if self.path.exists() else []
        return [json.loads(line) for line in lines]

    def has(self, word: str) -> bool:
        return self.path.exists() and word in self.path.read_text()

    def calls(self, mark: str) -> list[Message]:
        """The params of the tool calls with this mark."""
        asked = [each["params"] for each in self.messages() if each.get("method") == "tools/call"]
        return [params for params in asked if (params.get("arguments") or {}).get("mark") == mark]

    def later_rounds(self, mark: str) -> list[Message]:
        return [params for params in self.calls(mark) if "requestState" in params or "inputResponses" in params]

    def of(self, method: str) -> list[Message]:
        return [each for each in self.messages() if each.get("method") == method]

    def given_up(self, mark: str) -> bool:
        """Whether the request with this mark was cancelled, in either transport's way."""
        asked = [
            each for each in self.messages() if ((each.get("params") or {}).get("arguments") or {}).get("mark") == mark
        ]
        ids = [each.get("id") for each in asked]
        cancelled = [each["params"].get("requestId") for each in self.of("notifications/cancelled")]
        hung_up = [each["hung up"] for each in self.messages() if "hung up" in each]
        return any(each in ids for each in (*cancelled, *hung_up))

    async def wait_for(self, mark: str, times: int = 1) -> None:
        await eventually(lambda: len(self.calls(mark)) >= times, f"{mark} at the server")


async def eventually(condition: Callable[[], Any], what: str) -> Any:
    """`until`, for tests in which clients go on meanwhile."""
    return await anyio.to_thread.run_sync(lambda: until(condition, what=what))


def heard(folder: Path, name: str, *flags: str, **extra: Any) -> dict[str, Any]:
    """The configuration of such a server over stdio. Its log has its name."""
    return python_server("heard.py", "--log", str(folder / f"{name}.heard"), *flags, **extra)


@contextmanager
def heard_over_http(folder: Path, name: str, *flags: str, **extra: Any) -> Iterator[dict[str, Any]]:
    """The configuration of one that runs as long as the block."""
    command = [sys.executable, str(SERVERS / "heard.py"), "--log", str(folder / f"{name}.heard"), "--http", "0", *flags]
    with listening(command) as origin:
        yield {"url": f"{origin}/mcp", **extra}


@dataclass
class Target:
    """A gateway and the folder in which its servers' logs are."""

    running: Running
    folder: Path
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    changed: set[str] = field(default_factory=set[str])
    """Servers that are not configured as they were at first."""

    def log(self, server: str) -> Log:
        return Log(self.folder / f"{server}.heard")

    @asynccontextmanager
    async def client(
        self, door: str, server: str, era: str, answer: Answer | None = None, **options: Any
    ) -> AsyncIterator[Peer]:
        link = HttpLink(f"{self.running.url}{path_of(door, server)}")
        async with connected(link, era, answer or declines, **options) as peer:
            yield peer

    async def marker(self, door: str, server: str, era: str) -> None:
        """A read that goes the same way, later, and does arrive: what did not come before it, does not come."""
        mark = fresh("marker")
        async with self.client(door, server, era) as peer:
            answer = await peer.request("tools/call", params(door, server, "look", mark))
        assert not answer.get("isError"), answer
        assert self.log(server).calls(mark)

    def rows(self, mark: str, **filters: Any) -> list[dict[str, Any]]:
        """The records of asks with this mark, the oldest first."""
        found = self.running.activities(**filters)
        return [row for row in reversed(found) if mark in json.dumps(row["arguments"])]

    def ended(self, mark: str) -> list[dict[str, Any]]:
        """As `rows`, once none of them is open."""

        def closed() -> list[dict[str, Any]] | None:
            rows = self.rows(mark)
            return rows if rows and all(row["status"] != "pending" for row in rows) else None

        return until(closed, what=f"the end of {mark} on record")

    def journal(self) -> str:
        files = sorted((self.running.data_dir / "journal").iterdir())
        return "".join(each.read_text(errors="replace") for each in files)

    async def recorded(self, word: str) -> None:
        """Until the journal has this, which is before anything is sent where it matters."""
        await eventually(lambda: word in self.journal(), f"{word} on record")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def freeze(self) -> None:
        assert self.running.post("/freeze").status_code == 200

    def thaw(self) -> None:
        assert self.running.post("/unfreeze").status_code == 200

    def configure(self, server: str, **changes: Any) -> None:
        """This server's configuration with these changes, in force."""
        self.changed.add(server)
        config = {**self.servers[server], **changes}
        answer = self.running.post("/servers", {"name": server, "config": config, "replace": True})
        assert answer.status_code in (200, 201), answer.text

    def disable(self, server: str) -> None:
        self.changed.add(server)
        assert self.running.post(f"/servers/{server}/disable").status_code == 200

    def remove(self, server: str) -> None:
        self.changed.add(server)
        assert self.running.client.delete(f"/api/v1/servers/{server}").status_code == 200

    async def has_calls(self, server: str, many: int) -> None:
        """Until so many calls are under way there, those that wait for a place included."""

        def enough() -> bool:
            lines = self.running.client.get("/metrics").text.splitlines()
            kinds = [f'mcpproxy_upstream_calls_{kind}{{server="{server}"}} ' for kind in ("in_flight", "waiting")]
            return sum(float(line.split(" ")[-1]) for line in lines if line.startswith(tuple(kinds))) >= many

        await eventually(enough, f"{many} calls at {server}")

    @contextmanager
    def unwritable(self) -> Iterator[None]:
        """Nothing can be put on record: the gateway's process may write to no file."""
        pid = self.running.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def path_of(door: str, server: str) -> str:
    return {"gate": "/mcp", "direct": "/mcp/direct", "passthrough": f"/mcp/s/{server}"}[door]


def operation_of(tool: str) -> str:
    return "read" if tool in READS else OPERATIONS[tool.partition("_")[0]]


def params(door: str, server: str, tool: str, mark: str, **arguments: Any) -> Message:
    """Of a `tools/call` that reaches this tool through this door."""
    given = {"mark": mark, **arguments}
    if door == "gate":
        operation = operation_of(tool)
        inner = {"name": f"{server}:{tool}", "args": given, "intent": {"operation_type": operation}}
        return {"name": f"call_tool_{operation}", "arguments": inner}
    return {"name": f"{server}__{tool}" if door == "direct" else tool, "arguments": given}


def over_rest(running: Running, server: str, tool: str, mark: str, **arguments: Any) -> Any:
    operation = operation_of(tool)
    body = {"variant": operation, "name": f"{server}:{tool}", "args": {"mark": mark, **arguments}}
    return running.post("/call", {**body, "intent": {"operation_type": operation}})


# People.


async def declines(method: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"action": "decline"}


def accepts(word: str, first: Callable[[], object] = lambda: None, **content: Any) -> Answer:
    """Somebody who does `first`, then says yes to whatever is asked."""

    async def person(method: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        await anyio.to_thread.run_sync(first)
        return {"action": "accept", "content": {"answer": word, **content}}

    return person


# What comes back.


@dataclass(frozen=True)
class Outcome:
    ok: bool
    code: str
    words: str
    result: Message = field(default_factory=dict[str, Any])


async def outcome(answer: Awaitable[Message]) -> Outcome:
    """Whichever way it was answered: with a result, a refusal in a result, or an error."""
    try:
        result = await answer
    except RpcError as error:
        said = error.data if isinstance(error.data, dict) else {}
        return Outcome(False, str(said.get("code", error.code)), str(error))
    if result.get("isError") is not True:
        return Outcome(True, "", "", result)
    refusal = result.get("structuredContent") or (result.get("_meta") or {}).get("mcpproxy/refusal") or {}
    return Outcome(False, str(refusal.get("code", "")), text(result), result)


async def ask(peer: Peer, asked: Message, method: str = "tools/call", **meta: Any) -> Outcome:
    """A request and all its rounds."""
    return await outcome(peer.request(method, asked, **meta))


async def turn(peer: Peer, asked: Message, method: str = "tools/call", **meta: Any) -> Outcome:
    """One round."""
    return await outcome((await peer.begin(method, asked, **meta)).result())


def retry(asked: Message, round_: Outcome, word: str, **content: Any) -> Message:
    """The request again, with an answer to each question of this round."""
    assert round_.result.get("resultType") == "input_required", round_
    said = {"action": "accept", "content": {"answer": word, **content}}
    answers = dict.fromkeys(round_.result["inputRequests"], said)
    return {**asked, "inputResponses": answers, "requestState": round_.result["requestState"]}


class Later:
    """A request that is under way in a task of its own."""

    def __init__(self) -> None:
        self._done = anyio.Event()
        self._outcome: Outcome | None = None

    async def run(self, peer: Peer, asked: Message, method: str = "tools/call") -> None:
        self._outcome = await ask(peer, asked, method)
        self._done.set()

    @property
    def over(self) -> bool:
        return self._done.is_set()

    async def outcome(self) -> Outcome:
        with anyio.fail_after(WAIT):
            await self._done.wait()
        assert self._outcome is not None
        return self._outcome


@contextmanager
def latch(folder: Path) -> Iterator[Path]:
    """A file that lets go whoever waits for it, at the latest at the end."""
    file = folder / fresh("latch")
    try:
        yield file
    finally:
        file.touch()


def release(file: Path) -> None:
    file.touch()
