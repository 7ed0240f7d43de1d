"""What libraries would cost in place of modules of ours: `python -m tests.bench.libraries` (HOUSE.md, section 5).

- imports: a processor's milliseconds to import one into a process that has loaded the gateway, each time a fresh one;
- servers: a processor's microseconds for each request of the same ASGI application (`bare_asgi.py`) under the gateway's
  own HTTP protocol, under uvicorn's and under granian, which is installed beside the first time (`peers.py`);
- sessions: a processor's microseconds of this process for each call to a server on a pipe, by the gateway's upstream
  side (with its queue, bounds and reconnecting) and by the SDK's client session.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import uvloop

from tests.bench.bare_asgi import app
from tests.bench.clients import Call, Http
from tests.bench.measure import figures, report, spread
from tests.bench.overhead import Begun, one_round
from tests.bench.peers import program
from tests.support.gateway import SERVERS, clean_environment, until
from tests.upstream.helpers import connected, running, stdio

MODULES = ("prometheus_client", "mcp_types.version", "mcp.shared.auth", "mcp.client.auth", "mcp")
TIMED = (
    "import mcpproxy_py.app.compose, time; began = time.process_time(); import {}; print(time.process_time() - began)"
)
PYTHON = [sys.executable, "-m", "tests.bench.libraries", "--serve"]
ARGUMENTS = {"text": "hello"}
KINDS = ("ours", "uvicorn", "granian")


def importing(rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for module in MODULES:
            command = [sys.executable, "-c", TIMED.format(module)]
            said = subprocess.run(command, check=True, capture_output=True, text=True, env=clean_environment()).stdout
            if number:  # the first only warms the caches
                found.setdefault(f"import {module}, ms", []).append(float(said) * 1000)
    return found


def serve(kind: str, port: int) -> None:
    if kind == "ours":
        from mcpproxy_py.serve.http.asgi import answered_by
        from mcpproxy_py.serve.http.server import HttpServer

        server: Any = HttpServer(answered_by(app))
    else:
        import uvicorn

        server = uvicorn.Server(
            uvicorn.Config(
                app, http="httptools", lifespan="off", log_config=None, access_log=False, server_header=False
            )
        )
    uvloop.run(server.serve([socket.create_server(("127.0.0.1", port))]))


def command_of(kind: str, port: int) -> list[str]:
    if kind != "granian":
        return [*PYTHON, kind, "--port", str(port)]
    options = ["--interface", "asginl", "--loop", "uvloop", "--http", "1", "--no-ws", "--no-log", "--port", str(port)]
    return [program("granian", "granian"), *options, "tests.bench.bare_asgi:app"]


def used(pid: int) -> float:
    """A processor's microseconds, of a process and of those that it started."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times) * 1e6


def started(kind: str, stack: ExitStack) -> tuple[int, Call]:
    """Its process, and a call to it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(command_of(kind, port), stderr=subprocess.DEVNULL)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    until(lambda: listens(port), what=f"{kind} listens")
    return process.pid, Http(f"http://127.0.0.1:{port}/").modern("echo", {"text": "hello"})


async def serving(
    servers: dict[str, tuple[int, Call]], at_once: int, calls: int, rounds: int
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for kind, (pid, call) in servers.items():
            before = used(pid)
            await one_round(Begun(call, None), at_once, calls)
            if number:
                found.setdefault(f"{kind}, {at_once} at once, µs", []).append((used(pid) - before) / calls)
    return found


@asynccontextmanager
async def our_session(folder: Path) -> AsyncIterator[Call]:
    async with running(folder, stdio("plain", "plain.py")) as supervisor:
        await connected(supervisor, "plain")

        async def call(worker: int) -> None:
            answer = await supervisor.request("plain", "tools/call", {"name": "echo", "arguments": ARGUMENTS})
            assert answer["content"]

        yield call


@asynccontextmanager
async def sdk_session(folder: Path) -> AsyncIterator[Call]:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    plain = StdioServerParameters(command=sys.executable, args=[str(SERVERS / "plain.py")])
    async with stdio_client(plain) as streams, ClientSession(*streams) as session:
        await session.initialize()

        async def call(worker: int) -> None:
            answer = await session.call_tool("echo", ARGUMENTS)
            assert answer.content

        yield call


async def calling(calls: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with our_session(Path(folder)) as ours, sdk_session(Path(folder)) as sdk:
            for number in range(rounds + 1):
                for name, call in (("our session", ours), ("the SDK's session", sdk)):
                    for at_once in (1, 16):
                        before = time.process_time()
                        await one_round(Begun(call, None), at_once, calls)
                        if number:
                            each = (time.process_time() - before) / calls * 1e6
                            found.setdefault(f"{name}, {at_once} at once, µs", []).append(each)
    return found


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=12_000)
    parser.add_argument("--only", choices=("imports", "servers", "sessions"))
    parser.add_argument("--serve", choices=("ours", "uvicorn"), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.serve:
        serve(wanted.serve, wanted.port)
        return
    print(f"processors: {os.cpu_count()}, load: {os.getloadavg()[0]:.1f}")
    found: dict[str, list[float]] = {}
    if wanted.only in (None, "imports"):
        found |= importing(wanted.rounds)
    for at_once in (1, 16) if wanted.only in (None, "servers") else ():
        with ExitStack() as stack:
            servers = {kind: started(kind, stack) for kind in KINDS}
            found |= uvloop.run(serving(servers, at_once, wanted.calls, wanted.rounds))
    if wanted.only in (None, "sessions"):
        found |= uvloop.run(calling(wanted.calls // 8, wanted.rounds))
    for name, values in found.items():
        print(f"{name:<36} {spread(values, 1)}")
    report("libraries", {name: figures(values) for name, values in found.items()})


if __name__ == "__main__":
    main()
