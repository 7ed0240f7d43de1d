"""What the tests of this room share: real servers, a real supervisor, and waiting with an end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio

from mcpproxy_py.core.protocol.client_channel import NOBODY, ClientChannel
from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.upstream.permit import Permitted, PermittedAnswer
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.supervisor import Supervisor

Answer = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
SERVERS = Path(__file__).parents[1] / "servers"
LONG = 60.0
"""Whatever should happen has happened by then, also where many others want the processor."""


class Chat:
    """A client under test: remembers what it was told and asked, and answers with `answer`."""

    def __init__(
        self, answer: Answer | None = None, *, key: str = "", capabilities: Mapping[str, Any] | None = None,
        live: bool = True,
    ):  # fmt: skip
        self.capabilities = capabilities or {}
        self.wants_progress = True
        self.local = False
        self.caller = Caller(key or "ann", "mcp", ClientInfo())
        self.live = live
        self.key = key
        self.notes: list[tuple[str, Mapping[str, Any]]] = []
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.withdrawn: list[str] = []
        self._answer = answer

    def pause(self, seconds: float) -> None:
        return None

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.notes.append((method, params))

    @property
    def progress(self) -> list[Mapping[str, Any]]:
        return [params for method, params in self.notes if method == "notifications/progress"]

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((method, params))
        try:
            if self._answer is None:
                await anyio.sleep_forever()
            else:
                return await self._answer(method, params)
        except anyio.get_cancelled_exc_class():
            self.withdrawn.append(method)
            raise
        raise AssertionError("unreachable")


class Allowed:
    """A permit that allows everything: who decides and records is not this room."""

    principal = "somebody"

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any],
        channel: ClientChannel | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.channel = channel
        self.tool = params["name"] if method == "tools/call" else None
        self.message = Permitted(method, params, meta)

    def __call__(self) -> Permitted:
        return self.message

    def within(self, trace: Mapping[str, str | None]) -> None: ...

    def note_resend(self) -> None: ...

    async def record_answer(self, method: str, body: Mapping[str, Any]) -> None: ...

    def answer(self, body: Mapping[str, Any]) -> PermittedAnswer:
        return PermittedAnswer(body)


class Upstreams(Supervisor):
    """The supervisor, for tests that ask in no gateway's name."""

    async def request(  # type: ignore[override]
        self, server: str, method: str, params: Mapping[str, Any], *, channel: Any = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        return await super().request(server, Allowed(method, params, channel or NOBODY, meta))

    async def call_tool(self, server: str, tool: str, args: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return await self.request(server, "tools/call", {"name": tool, "arguments": dict(args)}, **more)


def stdio(name: str, program: str, *args: str, **more: Any) -> UpstreamSpec:
    given = {"connect_timeout": LONG, **more}
    return UpstreamSpec(name, command=sys.executable, args=(str(SERVERS / program), *args), **given)


@contextmanager
def web_server(program: str, *args: str) -> Iterator[str]:
    """A server on a free port; gives its origin. It ends with its stdin, so with this test, whatever happens."""
    command = [sys.executable, str(SERVERS / program), *args]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("PORT "), line
        yield f"http://127.0.0.1:{int(line.split()[1])}"
    finally:
        process.kill()
        process.wait(LONG)
        process.stdin.close()
        process.stdout.close()


@asynccontextmanager
async def running(log_dir: Path, *specs: UpstreamSpec, **options: Any) -> AsyncIterator[Upstreams]:
    supervisor = Upstreams(log_dir=log_dir, **options)
    async with anyio.create_task_group() as tasks:
        await tasks.start(supervisor.run, {spec.name: spec for spec in specs})
        try:
            yield supervisor
        finally:
            tasks.cancel_scope.cancel()


async def connected(supervisor: Supervisor, *names: str) -> None:
    for name in names:
        await until(lambda name=name: supervisor.snapshot.servers[name].state == "connected", supervisor.describe)


async def until(true: Callable[[], Any], shown: Callable[[], Any] = lambda: "", within: float = LONG) -> None:
    """Poll, with a deadline; what is asked may touch files and processes."""
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, f"it did not become true: {shown()}"
        await anyio.sleep(0.02)


def until_now(true: Callable[[], Any], within: float = LONG) -> None:
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, "it did not become true"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether it runs; what is dead and only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def command_of(pid: int) -> str:
    """What it was started as; nothing, if it ended while one looked."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def numbers(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def text_of(result: Mapping[str, Any]) -> str:
    return result["content"][0]["text"]
