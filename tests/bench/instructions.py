"""What a gated read costs the gateway from socket to socket, in instructions: `python -m tests.bench.instructions`.

Counted by valgrind, as the difference of a longer and a shorter run, so it hardly depends on what the machine does
meanwhile. With `--against CHECKOUT`, for another version too (PERF-1, PERF-3).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.bench.clients import Http
from tests.bench.measure import COUNTED, instructions_in, report
from tests.bench.overhead import ARGS
from tests.support.gateway import clean_environment, python_server

HERE = Path(__file__).parents[2]
AT_ONCE = 8
SHORT, LONG = 300, 1300
START_WITHIN = 300.0
PATIENT = """
from mcpproxy_py.cli.main import main
try:
    from mcpproxy_py.serve.mcp import answer as slow
except ImportError:
    from mcpproxy_py.serve.mcp import handshake as slow

slow.BEGIN_AFTER = 600
main()
"""
"""Under valgrind every call takes long enough to be slow, which costs what it otherwise does not. Older versions kept
that in a module of its own."""


async def counted(checkout: Path, calls: int) -> int:
    """The instructions of a gateway of this checkout, from its start to its end with so many calls between."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir(mode=0o700)
        server = python_server("plain.py", connect_timeout=START_WITHIN, tools={"echo": "read"})
        (data / "mcp_config.json").write_text(json.dumps({"log": {"level": "error"}, "mcpServers": {"s": server}}))
        process = await asyncio.create_subprocess_exec(
            *COUNTED, sys.executable, "-c", PATIENT, "serve", "--data-dir", str(data), "--listen", "127.0.0.1:0",
            cwd=checkout, env=clean_environment(PYTHONPATH=str(checkout), PYTHONHASHSEED="0"),
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(START_WITHIN):
            while not (data / "gateway.json").exists():  # noqa: ASYNC110 (a file tells nobody)
                await asyncio.sleep(0.2)
        url = json.loads((data / "gateway.json").read_text())["url"]
        arguments = {"name": "s:echo", "args": ARGS, "intent": {"operation_type": "read"}}
        call, left = Http(f"{url}/mcp").modern("call_tool_read", arguments), iter(range(calls))

        async def work(worker: int) -> None:
            for _ in left:
                await call(worker)

        await asyncio.gather(*(work(worker) for worker in range(AT_ONCE)))
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()
        return instructions_in(said.decode())


async def per_call(checkout: Path) -> float:
    """In thousands."""
    short, long = await asyncio.gather(counted(checkout, SHORT), counted(checkout, LONG))
    return (long - short) / (LONG - SHORT) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout of mcpproxy")
    wanted = parser.parse_args()
    checkouts = {"here": HERE} | ({"against": wanted.against.resolve()} if wanted.against else {})
    found = {name: round(uvloop.run(per_call(folder)), 1) for name, folder in checkouts.items()}
    for name, thousands in found.items():
        print(f"{name:<8} {thousands} thousand instructions a call")
    report("instructions", {"thousands": found, "machine": os.uname().machine})


if __name__ == "__main__":
    main()
