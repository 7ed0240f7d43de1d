"""What a call costs the gateway from socket to socket, in instructions: `python -m tests.bench.instructions` (PERF-3).

A gated read, or with `--kind` another of the kinds of call in `kinds.py`. Counted by valgrind, as the difference of a
longer and a shorter run, so it hardly depends on what the machine does meanwhile. With `--against CHECKOUT`, for
another version too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.bench import kinds
from tests.bench.measure import COUNTED, instructions_in, python_of, report
from tests.support.gateway import clean_environment

HERE = Path(__file__).parents[2]
PACKAGE = "mcpproxy_py"
AT_ONCE = 8
SHORT, LONG = 300, 1300
START_WITHIN = 300.0
SLOW_AFTER = "BEGIN_AFTER"
"""The constant that says when a call has taken long enough to be watched over, which costs what it otherwise does not.
Under valgrind every call takes that long."""


def program(checkout: Path) -> str:
    """A gateway in which no call counts as slow. The module with that constant is found by its text."""
    package = checkout / PACKAGE
    files = [path for path in package.rglob("*.py") if re.search(rf"^{SLOW_AFTER}\b", path.read_text(), re.MULTILINE)]
    if not files:
        print(f"no module of {checkout} has {SLOW_AFTER}: slow calls may count among the others", file=sys.stderr)
    modules = [".".join(path.relative_to(checkout).with_suffix("").parts) for path in files]
    patched = "".join(f"import {module}; {module}.{SLOW_AFTER} = 600\n" for module in modules)
    return f"import runpy\n{patched}runpy.run_module({PACKAGE!r}, run_name='__main__', alter_sys=True)\n"


async def counted(checkout: Path, kind: str, calls: int) -> int:
    """The instructions of a gateway of this checkout, from its start to its end with so many calls between."""
    async with kinds.http_server() as port:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data"
            kinds.configure(data, port, connect_timeout=START_WITHIN)
            process = await asyncio.create_subprocess_exec(
                *COUNTED, python_of(checkout), "-c", program(checkout),
                "serve", "--data-dir", str(data), "--listen", "127.0.0.1:0",
                cwd=checkout, env=clean_environment(PYTHONPATH=str(checkout), PYTHONHASHSEED="0"),
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            call = await kinds.KINDS[kind](await kinds.ready(data, START_WITHIN))
            left = iter(range(calls))

            async def work(worker: int) -> None:
                for _ in left:
                    await call(worker)

            await asyncio.gather(*(work(worker) for worker in range(AT_ONCE)))
            process.send_signal(signal.SIGTERM)
            _, said = await process.communicate()
            return instructions_in(said.decode())


async def per_call(checkout: Path, kind: str = "read") -> float:
    """In thousands."""
    short, long = await asyncio.gather(counted(checkout, kind, SHORT), counted(checkout, kind, LONG))
    return (long - short) / (LONG - SHORT) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout of mcpproxy")
    parser.add_argument("--kind", choices=kinds.KINDS, default="read")
    wanted = parser.parse_args()
    checkouts = {"here": HERE} | ({"against": wanted.against.resolve()} if wanted.against else {})
    found = {name: round(uvloop.run(per_call(folder, wanted.kind)), 1) for name, folder in checkouts.items()}
    print(kinds.TITLES[wanted.kind])
    for name, thousands in found.items():
        print(f"{name:<8} {thousands} thousand instructions a call")
    if wanted.against:
        print(f"{'ratio':<8} {found['here'] / found['against']:.2f}")
    report("instructions", {"kind": wanted.kind, "thousands": found, "machine": os.uname().machine})


if __name__ == "__main__":
    main()
