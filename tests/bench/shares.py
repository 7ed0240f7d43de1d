"""Who takes how much of the processor for one gated read: `python -m tests.bench.shares` (PERF-3).

Client, gateway, server and the writer of the record share the machine, so the sum of their times, divided by the
number of cores, is the least that a call can take here, however well they keep out of each other's way. Asking for a
rate is asking that sum to be small enough: the last columns say what the machine could do with a gateway that costs
nothing, and what a gateway may cost for the rate that PERF-3 asks for.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import AsyncExitStack

import psutil
import uvloop

from tests.bench.measure import awake, figures, report, spread
from tests.bench.overhead import UPSTREAMS, WAYS, one_round
from tests.bench.rig import Rig, Upstream

BEHIND_IT = [name for name, upstream in UPSTREAMS.items() if upstream.transport == "stdio"]
"""The servers that the gateway starts itself, so that they are found among its children."""
AIM = 12_000
"""Calls a second, of PERF-3."""
ROLES = {"mcpproxy_py.store.apart": "record", "warden.py": "warden", "tests/servers": "server"}
"""Of what the gateway starts, by what its command line holds."""


def family(pid: int) -> dict[str, psutil.Process]:
    """Everything that works on a call, by its role. There is one of each."""
    gateway = psutil.Process(pid)
    return {"client": psutil.Process(), "gateway": gateway,
            **{role(each): each for each in gateway.children(recursive=True)}}  # fmt: skip


def role(process: psutil.Process) -> str:
    command = " ".join(process.cmdline())
    return next(name for part, name in ROLES.items() if part in command)


def micros(process: psutil.Process) -> float:
    """What a process has had of the processor, threads that ended among it."""
    had = process.cpu_times()
    return (had.user + had.system) * 1e6


async def measure(upstream: Upstream, at_once: int, calls: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds of a processor for each call, by role, and calls a second."""
    async with AsyncExitStack() as stack:
        rig = Rig(upstream, 1, ["gate"], stack)
        call = await WAYS["gated read"](rig)
        gateway = (await rig.running()).process.pid
        await one_round(call, at_once, calls // 4)
        found: dict[str, list[float]] = {}
        for _ in range(rounds):
            processes = family(gateway)
            before, began = {name: micros(each) for name, each in processes.items()}, time.perf_counter()
            done = await one_round(call, at_once, calls)
            many = done.calls_per_second * (time.perf_counter() - began)
            for name, each in processes.items():
                found.setdefault(name, []).append((micros(each) - before[name]) / many)
            found.setdefault("calls a second", []).append(done.calls_per_second)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=BEHIND_IT, default="a")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--awake", action="store_true", help="keep the cores from going to sleep between two calls")
    wanted = parser.parse_args()
    with awake(wanted.awake):
        found = uvloop.run(measure(UPSTREAMS[wanted.only], wanted.at_once, wanted.calls, wanted.rounds))
    cores = os.cpu_count() or 1
    others = [sum(values) for values in zip(*(found[name] for name in ("client", "server", "record")), strict=True)]
    found["most with a gateway that costs nothing"] = [cores * 1e6 / each for each in others]
    found[f"what a gateway may cost at {AIM} a second"] = [cores * 1e6 / AIM - each for each in others]
    print(f"{UPSTREAMS[wanted.only].name}, {wanted.at_once} at once, {cores} cores; µs of a processor for each call")
    for name, values in found.items():
        print(f"{name:<42} {spread(values, 0)}")
    shown = {name: figures(values) for name, values in found.items()}
    report("shares", {"upstream": wanted.only, "at_once": wanted.at_once, "cores": cores, "found": shown})


if __name__ == "__main__":
    main()
