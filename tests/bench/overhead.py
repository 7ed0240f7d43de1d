"""Direct and gated calls side by side, by one raw client: `python -m tests.bench.overhead` (PERF-1).

Direct is newline JSON on the upstream's own pipe. Gated is the same call through a gateway process over
HTTP, validated, decided, masked and recorded. Both are driven by this process, round by round in turn, so
that what the machine does meanwhile hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop

from tests.bench.measure import figures, percentile, report, spread
from tests.support.gateway import SERVERS, start

UPSTREAMS = {"a: trivial stdio": ("plain.py", "echo"), "b: SDK stdio": ("sdk.py", "echo")}
ARGS = {"text": "hello", "note": "x" * 200}
COUNTS = {1: 400, 16: 2400, 64: 3200}
Call = Callable[[int], Awaitable[None]]


class Pipe:
    """A raw client on an upstream's stdin and stdout."""

    def __init__(self, process: asyncio.subprocess.Process, tool: str) -> None:
        assert process.stdin and process.stdout
        self.process, self.stdin, self.stdout, self.tool = process, process.stdin, process.stdout, tool
        self.ids = itertools.count(1)
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.reader = asyncio.create_task(self.read())

    async def read(self) -> None:
        while line := await self.stdout.readline():
            message = json.loads(line)
            if future := self.waiting.pop(message.get("id"), None):
                future.set_result(message)

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        number = next(self.ids)
        future = self.waiting[number] = asyncio.get_running_loop().create_future()
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.stdin.write(json.dumps(body).encode() + b"\n")
        return await future

    async def hello(self) -> None:
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        await self.request("initialize", client)
        self.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    async def call(self, worker: int) -> None:
        answer = await self.request("tools/call", {"name": self.tool, "arguments": ARGS})
        assert "result" in answer and not answer["result"].get("isError"), answer


class Gate:
    """A raw HTTP client: one kept connection per worker, no library in between."""

    def __init__(self, url: str, tool: str) -> None:
        found = urlsplit(url)
        self.host, self.port, self.path = found.hostname, found.port, found.path
        self.connections: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        params = {
            "name": "call_tool_write",
            "arguments": {"name": f"s:{tool}", "args": ARGS, "intent": {"operation_type": "write"}},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }
        self.variants = {}
        for variant in ("read", "write"):
            params["name"] = f"call_tool_{variant}"
            params["arguments"]["intent"]["operation_type"] = variant  # type: ignore[index]
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
            head = (
                f"POST {self.path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\n"
                "accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
                f"mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: call_tool_{variant}\r\n"
                f"content-length: {len(body)}\r\n\r\n"
            )
            self.variants[variant] = head.encode() + body

    def calling(self, variant: str) -> Call:
        payload = self.variants[variant]

        async def call(worker: int) -> None:
            reader, writer = self.connections.get(worker) or await self.connect(worker)
            writer.write(payload)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            assert head.startswith(b"HTTP/1.1 200") and b'"isError":true' not in body, body[:500]

        return call

    async def connect(self, worker: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.connections[worker] = await asyncio.open_connection(self.host, self.port, limit=1 << 22)
        return self.connections[worker]


async def one_round(call: Call, concurrency: int, count: int) -> tuple[float, float, float]:
    """p50 and p99 in ms, and calls per second."""
    took: list[float] = []
    left = iter(range(count))

    async def work(worker: int) -> None:
        for _ in left:
            started = time.perf_counter()
            await call(worker)
            took.append((time.perf_counter() - started) * 1000)

    began = time.perf_counter()
    await asyncio.gather(*(work(worker) for worker in range(concurrency)))
    return percentile(took, 0.5), percentile(took, 0.99), count / (time.perf_counter() - began)


@asynccontextmanager
async def lanes(script: str, tool: str) -> Any:
    """The same upstream program twice: on our own pipe, and behind a gateway."""
    async with AsyncExitStack() as stack:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(SERVERS / script), stdin=-1, stdout=-1, stderr=-3, limit=1 << 22
        )
        stack.push_async_callback(_end, process)
        pipe = Pipe(process, tool)
        await pipe.hello()
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        override = {tool: "read"}
        config = {"log": {"level": "error"}, "mcpServers": {
            "s": {"command": sys.executable, "args": [str(SERVERS / script)], "tools": override}}}  # fmt: skip
        running = await asyncio.to_thread(start, data, config)
        stack.callback(running.stop)
        gate = Gate(running.mcp, tool)
        yield {"direct": pipe.call, "gated read": gate.calling("read"), "gated write": gate.calling("write")}


async def _end(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.wait()


async def measure(rounds: int, upstreams: dict[str, tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for upstream, (script, tool) in upstreams.items():
        async with lanes(script, tool) as calls:
            for call in calls.values():
                await one_round(call, 16, 400)
            for concurrency, count in COUNTS.items():
                rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in calls}
                for _ in range(rounds):
                    for name, call in calls.items():
                        rows[name].append(await one_round(call, concurrency, count))
                found.setdefault(upstream, {})[concurrency] = show(upstream, concurrency, rows)
    return found


def show(upstream: str, concurrency: int, rows: dict[str, list[tuple[float, float, float]]]) -> dict[str, Any]:
    direct, shown = rows["direct"], {}
    for name, found in rows.items():
        p50, p99, rate = (list(column) for column in zip(*found, strict=True))
        slower = [mine[0] / base[0] for mine, base in zip(found, direct, strict=True)]
        through = [mine[2] / base[2] for mine, base in zip(found, direct, strict=True)]
        tail = [mine[1] / mine[0] for mine in found]
        print(f"{upstream:<17} c={concurrency:<3} {name:<12} p50 ms {spread(p50, 3):<26} p99 ms {spread(p99, 2):<24} "
              f"calls/s {spread(rate, 0):<24} p50/direct {spread(slower):<20} rate/direct {spread(through):<20} "
              f"p99/p50 {spread(tail)}", flush=True)  # fmt: skip
        shown[name] = {"p50_ms": figures(p50), "p99_ms": figures(p99), "calls_per_second": figures(rate),
                       "p50_over_direct": figures(slower), "rate_over_direct": figures(through),
                       "p99_over_p50": figures(tail)}  # fmt: skip
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("a", "b"))
    options = parser.parse_args()
    wanted = {name: found for name, found in UPSTREAMS.items() if not options.only or name.startswith(options.only)}
    found = uvloop.run(measure(options.rounds, wanted))  # a light client: what it costs is in every figure
    report("overhead", {"rounds": options.rounds, "upstreams": found})


if __name__ == "__main__":
    main()
