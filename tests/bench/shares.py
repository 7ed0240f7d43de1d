"""Who takes how much of the processor for one gated read: `python -m tests.bench.shares` (PERF-3). Linux only.

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
from pathlib import Path

import uvloop

from tests.bench.measure import awake, figures, report, spread
from tests.bench.overhead import UPSTREAMS, WAYS, one_round
from tests.bench.rig import Rig, Upstream

AIM = 12_000
"""Calls a second, of PERF-3."""
TICK = 1e6 / os.sysconf("SC_CLK_TCK")
ROLES = {"mcpproxy_py.store.apart": "record", "warden.py": "warden", "tests/servers": "server"}
"""By what their command lines hold; none of it is the gateway itself."""


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found


def micros(pid: int) -> float:
    """What a process has had of the processor, threads that ended among it."""
    after_its_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_its_name[11]) + int(after_its_name[12])) * TICK


def role(pid: int) -> str:
    command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return next((name for part, name in ROLES.items() if part in command), "gateway")


async def measure(upstream: Upstream, at_once: int, calls: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds of a processor for each call, by role, and calls a second."""
    async with AsyncExitStack() as stack:
        rig = Rig(upstream, 1, ["gate"], stack)
        call = await WAYS["gated read"](rig)
        gateway = (await rig.running()).process.pid
        await one_round(call, at_once, calls // 4)
        found: dict[str, list[float]] = {}
        for _ in range(rounds):
            pids = {"client": os.getpid(), **{role(pid): pid for pid in family(gateway)}}
            before, began = {name: micros(pid) for name, pid in pids.items()}, time.perf_counter()
            done = await one_round(call, at_once, calls)
            many = done.calls_per_second * (time.perf_counter() - began)
            for name, pid in pids.items():
                found.setdefault(name, []).append((micros(pid) - before[name]) / many)
            found.setdefault("calls a second", []).append(done.calls_per_second)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[name for name in UPSTREAMS if name != "c"], default="a")
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
