"""Everything that `overhead.py` measures, started when it is first asked for and ended together."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tests.bench import peers
from tests.bench.clients import LARGEST, Pipe
from tests.bench.measure import python_of
from tests.support.gateway import SERVERS, Running, start, until

HERE = Path(__file__).parents[2]
PATIENCE = 60.0
MANY_TOOLS, MANY_SERVERS, TOKENS, PROFILES = 5_000, 5, 200, 20
LISTS_MANY = """
import json, sys
tools = [{"name": f"tool_{number}", "description": f"Does the thing number {number} to a file.",
          "inputSchema": {"type": "object",
                          "properties": {"path": {"type": "string"}, f"n{number}": {"type": "integer"}}},
          "annotations": {"readOnlyHint": number % 2 == 0}} for number in range(int(sys.argv[1]))]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                  "serverInfo": {"name": "many", "version": "1"}},
                   "tools/list": {"tools": tools}}
        found = results.get(asked["method"])
        said = {"result": found} if found else {"error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""
BARE_RELAY = Path(__file__).with_name("bare_relay.py")
BARE_ASGI = Path(__file__).with_name("bare_asgi.py")


@dataclass(frozen=True)
class Upstream:
    """A kind of server; its tool gives back what it is given."""

    name: str
    script: str
    transport: Literal["stdio", "http"] = "stdio"
    tool: str = "echo"

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(SERVERS / self.script)]


@dataclass
class Rig:
    """So many servers of one kind. All calls go to `s0`; the others are there to be in the way. With `against`, the
    gateway of that checkout can be had beside ours."""

    upstream: Upstream
    count: int
    surfaces: list[str]
    stack: AsyncExitStack
    against: Path | None = None
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))

    async def pipe(self, *command: str, modern: bool = True) -> Pipe:
        """`modern` where the server is."""
        found = Pipe(await self.run(*command))
        self.stack.callback(found.reader.cancel)
        await asyncio.wait_for(found.hello() if modern else found.hello_of_old(), PATIENCE)
        return found

    async def run(self, *command: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, stderr=-3, limit=LARGEST)
        self.stack.push_async_callback(_end, process)
        return process

    async def port_of(self, *command: str) -> int:
        """The port that a program says it listens on, in its first line."""
        process = await self.run(*command)
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        return int(line.split()[1])

    @cached_property
    def _entries(self) -> asyncio.Task[dict[str, dict[str, Any]]]:
        return asyncio.create_task(self._make_entries())

    async def entries(self) -> dict[str, dict[str, Any]]:
        """The servers as IDEs write them; those over HTTP are running and shared by whoever asks."""
        return await self._entries

    async def _make_entries(self) -> dict[str, dict[str, Any]]:
        names = [f"s{number}" for number in range(self.count)]
        if self.upstream.transport == "stdio":
            program, *args = self.upstream.command
            return {name: {"command": program, "args": args} for name in names}
        ports = [await self.port_of(*self.upstream.command, "--http", "0") for _ in names]
        return {name: {"url": f"http://127.0.0.1:{port}/mcp"} for name, port in zip(names, ports, strict=True)}

    @cached_property
    def _gateway(self) -> asyncio.Task[Running]:
        return asyncio.create_task(self._start_gateway(HERE))

    @cached_property
    def _other_gateway(self) -> asyncio.Task[Running]:
        if self.against is None:
            raise ValueError("there is no other checkout")
        return asyncio.create_task(self._start_gateway(self.against))

    async def gateway(self, *, other: bool = False) -> str:
        return (await self.running(other=other)).url

    async def running(self, *, other: bool = False) -> Running:
        return await (self._other_gateway if other else self._gateway)

    async def _start_gateway(self, checkout: Path) -> Running:
        override = {"tools": {self.upstream.tool: "read"}}
        servers = {name: {**entry, **override} for name, entry in (await self.entries()).items()}
        config = {"log": {"level": "error"}, "surfaces": self.surfaces, "mcpServers": servers}
        where = self.folder / ("data" if checkout == HERE else "other")
        env, python = {"PYTHONPATH": str(checkout)}, python_of(checkout)
        running = await asyncio.to_thread(start, where, config, env=env, python=python, cwd=checkout)
        self.stack.callback(running.stop)
        return running

    @cached_property
    def _crowded_gateway(self) -> asyncio.Task[tuple[Running, str]]:
        return asyncio.create_task(self._start_crowded_gateway())

    async def crowded_gateway(self) -> tuple[Running, str]:
        """One with as many tokens, profiles and pinned tools as anybody has, and one of the tokens, whose scope is all
        that it takes to call `s0`."""
        return await self._crowded_gateway

    async def _start_crowded_gateway(self) -> tuple[Running, str]:
        servers = await self.entries()
        many = {f"many{number}": _listing_many(MANY_TOOLS // MANY_SERVERS) for number in range(MANY_SERVERS)}
        override = {"tools": {self.upstream.tool: "read"}}
        profiles = {f"p{number}": {"servers": ["s0", f"many{number % MANY_SERVERS}"]} for number in range(PROFILES)}
        config = {
            "log": {"level": "error"}, "surfaces": self.surfaces, "profiles": profiles,
            "mcpServers": {name: {**entry, **override} for name, entry in servers.items()} | many,
        }  # fmt: skip
        running = await asyncio.to_thread(start, self.folder / "crowded", config, cwd=HERE)
        self.stack.callback(running.stop)
        return running, await asyncio.to_thread(_with_tokens, running, [*servers, *many])

    async def bare_relay(self) -> str:
        if self.upstream.transport != "stdio":
            raise ValueError("it stands before pipes only")
        port = await self.port_of(sys.executable, str(BARE_RELAY), *self.upstream.command)
        return f"http://127.0.0.1:{port}"

    async def bare_asgi(self) -> str:
        return f"http://127.0.0.1:{await self.port_of(sys.executable, str(BARE_ASGI))}"

    async def fastmcp(self) -> str:
        python = await asyncio.to_thread(peers.program, "fastmcp", "python")
        port = await self.port_of(python, peers.FASTMCP, json.dumps(await self.entries()))
        return f"http://127.0.0.1:{port}/mcp"

    async def mcp_proxy_over_http(self) -> str:
        config = self.folder / "mcp-proxy.json"
        config.write_text(json.dumps({"mcpServers": await self.entries()}))
        port = _free_port()
        program = await asyncio.to_thread(peers.program, "mcp-proxy", "mcp-proxy")
        options = ("--port", str(port), "--log-level", "ERROR", "--named-server-config", str(config))
        await self.run(program, *options)
        await _listening(port)
        return f"http://127.0.0.1:{port}/servers/s0/mcp"

    async def mcp_proxy_over_stdio(self) -> Pipe:
        program = await asyncio.to_thread(peers.program, "mcp-proxy", "mcp-proxy")
        url = (await self.entries())["s0"]["url"]
        command = (program, "--log-level", "ERROR", "--transport", "streamablehttp", url)
        return await self.pipe(*command, modern=False)


def _listing_many(count: int) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-c", LISTS_MANY, str(count)]}


def _with_tokens(running: Running, servers: list[str]) -> str:
    """Makes them, and waits until all that there is has been pinned."""
    running.wait_for(*servers)
    for number in range(TOKENS):
        asked = {"name": f"agent{number}", "servers": ["s0"], "operations": ["read", "write"]}
        made = running.post("/tokens", asked)
        assert made.status_code == 201, made.text
    until(lambda: len(running.get("/pins")["pins"]) >= len(servers))
    return made.json()["token"]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


async def _listening(port: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
