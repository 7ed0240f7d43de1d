"""What one call costs the gateway itself: `python -m tests.bench.call [--against CHECKOUT] [--instructions]`.

Decided, checked, masked and journalled, with an upstream that answers at once: what is left is our own work
(PERF-1, PERF-5). With `--against`, another checkout does the same in turn, so that what the machine does meanwhile
hits both. Instructions are counted by valgrind, where it is installed: they do not depend on the machine's mood.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.core.values import Ask, ClientInfo, Policy, Server, Snapshot, Tool
from mcpproxy_py.gateway.gateway import CallLimits, Gateway
from mcpproxy_py.store.journal.journal import Journal
from tests.bench.measure import COUNTED, figures, instructions_in, percentile, report, spread

HERE = Path(__file__).parents[2]
TEXT = "The quick brown fox jumps over the dog. " * 5
ARGS = {"path": "/home/ann/project/src/main.py", "text": TEXT, "id": 17, "labels": ["a", "b"]}
RESULT: dict[str, Any] = {"content": [{"type": "text", "text": TEXT * 4}], "isError": False}
WIRE = {"name": "echo", "annotations": {"readOnlyHint": True, "destructiveHint": False, "title": "Echo"}}
INTENT = {"operation_type": "read", "reason": "to look at it", "data_sensitivity": "internal"}
PARAMS = {"name": "s:echo", "args": ARGS, "intent": INTENT}
CLIENT = ClientInfo("bench", "1")


class Echo:
    """An upstream room with one tool, that answers at once."""

    def __init__(self) -> None:
        tool = Tool("s", "echo", WIRE, "read", violation=lambda args: None)
        self.snapshot = Snapshot(Policy(), {"s": Server("s", "connected", {"echo": tool})})

    async def ready(self, server: str) -> None: ...

    async def request(self, server: str, *args: Any, **options: Any) -> dict[str, Any]:
        if callable(args[0]):
            args[0]()  # a permit; revisions before it were handed the message
        return RESULT


class Record(Journal):
    """The journal alone; who follows it works in a process of its own anyway."""

    async def acknowledged(self) -> None: ...


async def calls(many: int) -> list[float]:
    """CPU microseconds of each call."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Record(Path(folder) / "journal")
        new_id = IdMaker(random.randbytes)
        gateway = Gateway(Echo(), journal, CallLimits(), new_id)  # type: ignore[arg-type]
        took: list[float] = []
        for number in range(many):
            started = time.thread_time_ns()
            at = time.time()
            ask = Ask(new_id(at), at, "call_tool_read", PARAMS, client=CLIENT, request_id=str(number))
            reply = await gateway.call(ask)
            took.append((time.thread_time_ns() - started) / 1000)
            assert reply.status == "success"
        journal.close()
        return took


def in_checkout(folder: Path, many: int, *before: str) -> subprocess.CompletedProcess[str]:
    """This very file, with the package of that checkout."""
    environ = {**os.environ, "PYTHONPATH": f"{folder}:{HERE}", "PYTHONHASHSEED": "0"}
    command = [*before, sys.executable, __file__, "--only", str(many)]
    return subprocess.run(command, env=environ, cwd=folder, check=True, capture_output=True, text=True)


def instructions(folder: Path, many: int = 400) -> float:
    """Thousands per call: the difference between a longer and a shorter run, which leaves the start out."""
    counts = [instructions_in(in_checkout(folder, n, *COUNTED).stderr) for n in (100, 100 + many)]
    return (counts[1] - counts[0]) / many / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout of mcpproxy")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.only:
        print(percentile(asyncio.run(calls(wanted.only))[wanted.only // 5 :], 0.5))
        return
    checkouts = {"here": HERE} | ({"against": wanted.against.resolve()} if wanted.against else {})
    took: dict[str, list[float]] = {name: [] for name in checkouts}
    for _ in range(wanted.rounds):
        for name, folder in checkouts.items():
            took[name].append(float(in_checkout(folder, wanted.count).stdout))
    found: dict[str, Any] = {name: {"p50_cpu_us": figures(values)} for name, values in took.items()}
    for name, folder in checkouts.items():
        print(f"{name:<8} p50 {spread(took[name], 1)} µs of CPU a call")
        if wanted.instructions:
            found[name]["instructions_k"] = round(instructions(folder), 1)
            print(f"{'':<8} {found[name]['instructions_k']} thousand instructions a call")
    if wanted.against:
        ratios = [ours / theirs for ours, theirs in zip(took["here"], took["against"], strict=True)]
        found["ratio"] = figures(ratios)
        print(f"ratio    {spread(ratios)}")
    report("call", found)


if __name__ == "__main__":
    main()
