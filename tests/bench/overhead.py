"""What a gateway costs a call: direct, ours, and others, side by side: `python -m tests.bench.overhead` (PERF-1).

Direct is the same raw client at the upstream itself: newline JSON on its pipe, or a POST. Everything is driven by this
one process, round by round in turn and from a different start each round, so that what the machine does meanwhile hits
all alike. The figures to look at are the ratios to direct within a round. Where gateways are compared, processor time
of their process stands beside: it is the same whatever else the machine does, but for what caches hold, and how many
calls happened to share a write.

With `--against CHECKOUT`, the gateway of another checkout of the project stands beside ours in the same rounds, with
the packages of its own `.venv` or else with ours, and further rows say what changed (PERF-3). Unless told otherwise it
then looks at gated reads and writes in front of one trivial server on a pipe, with the bare relay beside both.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from tests.bench.clients import Call, Http
from tests.bench.measure import awake, cpu_seconds, figures, likely, percentile, report, spread
from tests.bench.rig import PATIENCE, Rig, Upstream

ARGS = {"text": "hello", "note": "x" * 200}
COUNTS = {1: 400, 16: 2400, 64: 3200}
LONGEST_ROUND = 6.0
SETTLED = 0.03
"""Seconds until a gateway has done what is left to do of the last calls."""
INSTALLED_WITHIN = 600.0
FAULTS = (AssertionError, OSError, TimeoutError, IndexError, ValueError, asyncio.IncompleteReadError)
"""What goes wrong with a way that does not work; it is left out and said so, and the others are still measured."""
UPSTREAMS = {
    "a": Upstream("a: trivial stdio", "plain.py"),
    "b": Upstream("b: SDK stdio", "sdk.py"),
    "c": Upstream("c: SDK HTTP", "sdk.py", "http"),
}


# The ways to make the same call. To add one, write how it begins and put it into the table.


async def direct(rig: Rig) -> Call:
    if rig.upstream.transport == "stdio":
        return (await rig.pipe(*rig.upstream.command)).calling(rig.upstream.tool, ARGS)
    return Http((await rig.entries())["s0"]["url"]).modern(rig.upstream.tool, ARGS)


async def direct_handshake(rig: Rig) -> Call:
    """As an older client does it, with a server that knows both eras. The gateway speaks the newer one with it."""
    if rig.upstream.transport == "stdio":
        return (await rig.pipe(*rig.upstream.command, modern=False)).calling(rig.upstream.tool, ARGS)
    return await Http((await rig.entries())["s0"]["url"]).handshake(rig.upstream.tool, ARGS)


async def bare_relay(rig: Rig) -> Call:
    """No gateway at all: the floor under every other way, where the server is on a pipe."""
    client = Http(f"{await rig.bare_relay()}/")
    return client.modern(rig.upstream.tool, ARGS)


async def bare_asgi(rig: Rig) -> Call:
    """Not even a server behind it: what the machine can do at all, for figures in calls a second."""
    return Http(f"{await rig.bare_asgi()}/").modern(rig.upstream.tool, ARGS)


def gated(variant: str, *, other: bool = False) -> Way:
    async def way(rig: Rig) -> Call:
        arguments = {"name": f"s0:{rig.upstream.tool}", "args": ARGS, "intent": {"operation_type": variant}}
        return Http(f"{await rig.gateway(other=other)}/mcp").modern(f"call_tool_{variant}", arguments)

    return way


def crowded(variant: str, *, with_token: bool) -> Way:
    """At a gateway with 200 tokens, 20 profiles and 5,000 pinned tools, beside what we have otherwise."""

    async def way(rig: Rig) -> Call:
        running, token = await rig.crowded_gateway()
        arguments = {"name": f"s0:{rig.upstream.tool}", "args": ARGS, "intent": {"operation_type": variant}}
        client = Http(running.mcp)
        if with_token:
            client.headers["authorization"] = f"Bearer {token}"
        return client.modern(f"call_tool_{variant}", arguments)

    return way


async def direct_surface(rig: Rig) -> Call:
    return Http(f"{await rig.gateway()}/mcp/direct").modern(f"s0__{rig.upstream.tool}", ARGS)


async def passthrough(rig: Rig) -> Call:
    return Http(f"{await rig.gateway()}/mcp/s/s0").modern(rig.upstream.tool, ARGS)


async def fastmcp(rig: Rig) -> Call:
    """In the handshake era, where it is twice as fast: for a modern call it lists all tools first."""
    return await Http(await rig.fastmcp()).handshake(f"s0_{rig.upstream.tool}", ARGS)


async def mcp_proxy(rig: Rig) -> Call:
    """It turns stdio into HTTP and HTTP into stdio, and knows the handshake era only."""
    if rig.upstream.transport == "stdio":
        return await Http(await rig.mcp_proxy_over_http()).handshake(rig.upstream.tool, ARGS)
    return (await rig.mcp_proxy_over_stdio()).calling(rig.upstream.tool, ARGS)


Way = Callable[[Rig], Awaitable[Call]]
WAYS: dict[str, Way] = {
    "direct": direct,
    "direct, older": direct_handshake,
    "bare relay": bare_relay,
    "bare ASGI": bare_asgi,
    "gated read": gated("read"),
    "gated write": gated("write"),
    "direct surface": direct_surface,
    "passthrough": passthrough,
    "FastMCP proxy": fastmcp,
    "mcp-proxy": mcp_proxy,
}
OTHER: dict[str, Way] = {"other read": gated("read", other=True), "other write": gated("write", other=True)}
"""With `--against`: the gateway of the other checkout."""
CROWDED: dict[str, Way] = {
    "crowded read": crowded("read", with_token=False),
    "read by token": crowded("read", with_token=True),
    "crowded write": crowded("write", with_token=False),
    "write by token": crowded("write", with_token=True),
}
"""With `--crowded`."""
COMPARED = {
    "gated read": "other read", "gated write": "other write",
    "crowded read": "gated read", "read by token": "gated read",
    "crowded write": "gated write", "write by token": "gated write",
}  # fmt: skip
"""Which way is held against which, where both are measured."""
GATED = ("gated read", "gated write")
PEERS = ("FastMCP proxy", "mcp-proxy")
OURS = (*GATED, "direct surface", "passthrough")
SURFACES = {"direct surface": "direct", "passthrough": "passthrough"}


class Round(NamedTuple):
    p50_ms: float
    p99_ms: float
    calls_per_second: float
    cpu_us: float
    """What a call took of the gateway's processor time; it says more than the rate where the machine has other things
    to do. NaN where there is no gateway."""


class Begun(NamedTuple):
    call: Call
    pid: int | None
    """Of the gateway behind it."""


async def one_round(way: Begun, concurrency: int, count: int) -> Round:
    call, pid = way
    had = cpu_seconds(pid) if pid else math.nan
    took: list[float] = []
    left = iter(range(count))
    began = time.perf_counter()

    async def work(worker: int) -> None:
        for _ in left:
            started = time.perf_counter()
            await call(worker)
            ended = time.perf_counter()
            took.append((ended - started) * 1000)
            if ended - began > LONGEST_ROUND:
                return

    await asyncio.gather(*(work(worker) for worker in range(concurrency)))
    rate = len(took) / (time.perf_counter() - began)
    await asyncio.sleep(SETTLED)
    cpu = (cpu_seconds(pid) - had) / len(took) * 1e6 if pid else math.nan
    return Round(percentile(took, 0.5), percentile(took, 0.99), rate, cpu)


async def begun(rig: Rig, wanted: Iterable[str]) -> tuple[dict[str, Begun], dict[str, str]]:
    """Those ways that work, warm, and why the others do not."""
    calls: dict[str, Begun] = {}
    absent: dict[str, str] = {}
    for name in wanted:
        try:
            async with asyncio.timeout(INSTALLED_WITHIN):
                call = await {**WAYS, **OTHER, **CROWDED}[name](rig)
            calls[name] = Begun(call, await gateway_behind(name, rig))
            async with asyncio.timeout(PATIENCE):
                await one_round(calls[name], 16, 300)
        except FAULTS as error:
            calls.pop(name, None)
            absent[name] = f"{type(error).__name__}: {error}"[:160]
            print(f"{rig.upstream.name:<17} x{rig.count:<3} {name:<15} not measured: {absent[name]}", flush=True)
    return calls, absent


async def measure(
    rounds: int,
    upstreams: Iterable[Upstream],
    counts: Iterable[int],
    wanted: Sequence[str],
    against: Path | None = None,
    at_once: Sequence[int] = tuple(COUNTS),
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for upstream in upstreams:
        for count in counts:
            async with AsyncExitStack() as stack:
                surfaces = ["gate", *(SURFACES[way] for way in wanted if way in SURFACES)]
                calls, absent = await begun(Rig(upstream, count, surfaces, stack, against), wanted)
                rows += [{"upstream": upstream.name, "upstreams": count, "way": name, "absent": why}
                         for name, why in absent.items()]  # fmt: skip
                for concurrency in at_once:
                    found = await interleaved(calls, concurrency, COUNTS[concurrency], rounds)
                    rows += [row(upstream.name, count, concurrency, name, each, found["direct"])
                             for name, each in found.items()]  # fmt: skip
                    rows += [compared(upstream.name, count, concurrency, ours, found[ours], found[theirs])
                             for ours, theirs in COMPARED.items() if {ours, theirs} <= set(found)]  # fmt: skip
    return rows


async def gateway_behind(way: str, rig: Rig) -> int | None:
    if way in OURS or way in OTHER:
        return (await rig.running(other=way in OTHER)).process.pid
    return (await rig.crowded_gateway())[0].process.pid if way in CROWDED else None


async def interleaved(calls: dict[str, Begun], concurrency: int, many: int, rounds: int) -> dict[str, list[Round]]:
    """In another order each round: a gateway that was just called is still writing its record, and who comes next at
    the same one would always pay for that."""
    found: dict[str, list[Round]] = {name: [] for name in calls}
    order = random.Random(1)
    for _ in range(rounds):
        for name in order.sample(list(calls), len(calls)):
            try:
                async with asyncio.timeout(PATIENCE):
                    found[name].append(await one_round(calls[name], concurrency, many))
            except FAULTS as error:
                print(f"c={concurrency} {name}: a round failed, {type(error).__name__}: {error}"[:200], flush=True)
    return {name: mine for name, mine in found.items() if len(mine) == rounds}


def row(upstream: str, count: int, concurrency: int, way: str, mine: list[Round], base: list[Round]) -> dict[str, Any]:
    pairs = list(zip(mine, base, strict=True))
    columns = {
        "p50_ms": [each.p50_ms for each in mine],
        "p99_ms": [each.p99_ms for each in mine],
        "calls_per_second": [each.calls_per_second for each in mine],
        "p50_over_direct": [each.p50_ms / other.p50_ms for each, other in pairs],
        "rate_over_direct": [each.calls_per_second / other.calls_per_second for each, other in pairs],
        "p99_over_p50": [each.p99_ms / each.p50_ms for each in mine],
        "cpu_us": [each.cpu_us for each in mine],
    }
    show(f"{upstream:<17} x{count:<3} c={concurrency:<3} {way:<15}", columns)
    shown = {name: figures(values) for name, values in columns.items()}
    return {"upstream": upstream, "upstreams": count, "concurrency": concurrency, "way": way, **shown}


def compared(
    upstream: str, count: int, concurrency: int, way: str, ours: list[Round], theirs: list[Round]
) -> dict[str, Any]:
    """In how many times the calls a second, and in what part of the time, within each round."""
    pairs = list(zip(ours, theirs, strict=True))
    rates = [mine.calls_per_second / other.calls_per_second for mine, other in pairs]
    times = [mine.p50_ms / other.p50_ms for mine, other in pairs]
    cpu = [mine.cpu_us / other.cpu_us for mine, other in pairs]
    median, low, high = likely(cpu)
    print(f"{upstream:<17} x{count:<3} c={concurrency:<3} {way:<15} against the other: "
          f"calls/s {spread(rates)} times, p50 {spread(times)} times, "
          f"processor time of the gateway {median:.3f} times (likely {low:.3f} to {high:.3f})", flush=True)  # fmt: skip
    return {"upstream": upstream, "upstreams": count, "concurrency": concurrency, "way": way,
            "rate_over_other": figures(rates), "p50_over_other": figures(times),
            "cpu_over_other": {**figures(cpu), "likely": [low, high]}}  # fmt: skip


def show(head: str, columns: dict[str, list[float]]) -> None:
    digits = {"p50_ms": 3, "calls_per_second": 0, "cpu_us": 1}
    widths = {"p50_ms": 24, "calls_per_second": 20}
    cells = [f"{spread(values, digits.get(name, 2)):<{widths.get(name, 21)}}" for name, values in columns.items()]
    print(head, " ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=UPSTREAMS, nargs="*")
    parser.add_argument("--upstreams", type=int, nargs="*")
    parser.add_argument("--ways", choices=WAYS, nargs="*")
    parser.add_argument("--at-once", type=int, choices=COUNTS, nargs="*", default=list(COUNTS))
    parser.add_argument("--no-peers", action="store_true", help="leave out other proxies, which have to be installed")
    parser.add_argument("--awake", action="store_true", help="keep the cores from going to sleep between two calls")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of mcpproxy, beside ours")
    parser.add_argument(
        "--crowded", action="store_true", help="beside ours one with 200 tokens, 20 profiles and 5,000 pinned tools"
    )
    options = parser.parse_args()
    against = options.against.resolve() if options.against else None
    only, upstreams = (
        options.only or (["a"] if against or options.crowded else [*UPSTREAMS]),
        options.upstreams or ([1] if against or options.crowded else [1, 10]),
    )
    ways = {"direct", *(options.ways or (["bare relay", *GATED] if against or options.crowded else WAYS))}
    wanted = [name for name in WAYS if name in ways and not (options.no_peers and name in PEERS)]
    wanted += [COMPARED[ours] for ours in GATED if against and ours in wanted]
    wanted += [name for name in CROWDED if options.crowded]
    widths = {"p50 ms": 24, "p99 ms": 21, "calls/s": 20, "p50/direct": 21, "rate/direct": 21, "p99/p50": 21}
    print(f"{'':<44}", *(f"{name:<{width}}" for name, width in widths.items()), "CPU us")
    chosen = [UPSTREAMS[name] for name in only]
    with awake(options.awake):  # and a light loop, since its cost is in everything
        rows = uvloop.run(measure(options.rounds, chosen, upstreams, wanted, against, options.at_once))
    report("overhead", {"rounds": options.rounds, "awake": options.awake, "against": str(against or ""), "rows": rows})


if __name__ == "__main__":
    main()
