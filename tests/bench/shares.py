"""Who takes how much of the processor for one gated read: `python -m tests.bench.shares` (PERF-3).

Client, gateway, server and the writer of the record share the machine, so the sum of their times, divided by the
number of cores, is the least that a call can take here, however well they keep out of each other's way. Asking for a
rate is asking that sum to be small enough: the last columns say what the machine could do with a gateway that costs
nothing, and what a gateway may cost for the rate that is aimed at. With `--against CHECKOUT`, another checkout of the
project does the same in the same rounds.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import uvloop

from tests.bench.clients import Call
from tests.bench.measure import awake, figures, report, spread
from tests.bench.overhead import OTHER, UPSTREAMS, WAYS, Begun, one_round
from tests.bench.rig import Rig, Upstream

BEHIND_IT = [name for name, upstream in UPSTREAMS.items() if upstream.transport == "stdio"]
"""The servers that the gateway starts itself, so that they are found among its children."""
AIM = 12_000
"""Calls a second, of PERF-3."""
ROLES = {"tests/servers": "server", " -m mcpproxy_py": "record", "/mcpproxy_py/": "reaper"}
"""Of what a gateway starts, by what its command line holds; the first that fits. The writer of the record is a module
of ours, and what ends left-over servers a file of ours."""


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


async def measure(
    upstream: Upstream, at_once: int, calls: int, rounds: int, against: Path | None = None
) -> dict[str, dict[str, list[float]]]:
    """Microseconds of a processor for each call, by role, and calls a second; of ours, and of the other checkout."""
    async with AsyncExitStack() as stack:
        rig = Rig(upstream, 1, ["gate"], stack, against)
        ways = {"here": WAYS["gated read"]} | ({"against": OTHER["other read"]} if against else {})
        begun = {name: await way(rig) for name, way in ways.items()}
        pids = {name: (await rig.running(other=name != "here")).process.pid for name in ways}
        for call in begun.values():
            await one_round(Begun(call, None), at_once, calls // 4)
        found: dict[str, dict[str, list[float]]] = {name: {} for name in ways}
        for number in range(rounds):
            for name in [*ways][:: -1 if number % 2 else 1]:
                for role_or_rate, value in (await _round(begun[name], pids[name], at_once, calls)).items():
                    found[name].setdefault(role_or_rate, []).append(value)
        return found


async def _round(call: Call, gateway: int, at_once: int, calls: int) -> dict[str, float]:
    processes = family(gateway)
    before, began = {name: micros(each) for name, each in processes.items()}, time.perf_counter()
    done = await one_round(Begun(call, None), at_once, calls)
    many = done.calls_per_second * (time.perf_counter() - began)
    took = {name: (micros(each) - before[name]) / many for name, each in processes.items()}
    return {**took, "calls a second": done.calls_per_second}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=BEHIND_IT, default="a")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--awake", action="store_true", help="keep the cores from going to sleep between two calls")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of mcpproxy, beside ours")
    wanted = parser.parse_args()
    upstream, against = UPSTREAMS[wanted.only], wanted.against.resolve() if wanted.against else None
    with awake(wanted.awake):
        measured = uvloop.run(measure(upstream, wanted.at_once, wanted.calls, wanted.rounds, against))
    cores = os.cpu_count() or 1
    shown: dict[str, dict[str, dict[str, float]]] = {}
    print(f"{upstream.name}, {wanted.at_once} at once, {cores} cores; µs of a processor for each call")
    for where, found in measured.items():
        others = [sum(values) for values in zip(*(found[name] for name in ("client", "server", "record")), strict=True)]
        found["most with a gateway that costs nothing"] = [cores * 1e6 / each for each in others]
        found[f"what a gateway may cost at {AIM} a second"] = [cores * 1e6 / AIM - each for each in others]
        print(where if against else "")
        for name, values in found.items():
            print(f"{name:<42} {spread(values, 0)}")
        shown[where] = {name: figures(values) for name, values in found.items()}
    if against:
        ratios = {name: [a / b for a, b in zip(measured["here"][name], measured["against"][name], strict=True)]
                  for name in ("gateway", "record", "calls a second")}  # fmt: skip
        for name, values in ratios.items():
            print(f"{name + ', here over against':<42} {spread(values)}")
    report("shares", {"upstream": wanted.only, "at_once": wanted.at_once, "cores": cores, "found": shown})


if __name__ == "__main__":
    main()
