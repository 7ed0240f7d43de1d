"""The decision alone, over a snapshot of 10,000 tools: `python -m tests.bench.decide` (GATE-11, PERF-2)."""

from __future__ import annotations

import argparse
import gc
import random
import time

import jsonschema_rs

from mcpproxy_py.core.policy.decide import decide
from mcpproxy_py.core.policy.tool_class import classify
from mcpproxy_py.core.search.index import Index, segment
from mcpproxy_py.core.values import Ask, Policy, Route, Server, Snapshot, Tool
from tests.bench.measure import figures, percentile, report, spread

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "title": {"type": "string"}, "labels": {"type": "array"}},
    "required": ["id"],
}


def world(servers: int, tools: int) -> Snapshot:
    check = jsonschema_rs.validator_for(SCHEMA)
    hints = ({"readOnlyHint": True}, {"readOnlyHint": False}, {"destructiveHint": True}, {})

    def made(server: str, number: int) -> Tool:
        wire = {"name": f"tool_{number}", "inputSchema": SCHEMA, "annotations": hints[number % 4]}
        return Tool(server, f"tool_{number}", wire, classify(wire["annotations"]),
                    violation=lambda args: None if check.is_valid(args) else "wrong")  # fmt: skip

    listed = {f"s{n}": {t.name: t for t in (made(f"s{n}", k) for k in range(tools))} for n in range(servers)}
    return Snapshot(
        Policy(),
        {name: Server(name, "connected", found) for name, found in listed.items()},
        Index({name: segment(found.values()) for name, found in listed.items()}),
    )


def asks(snapshot: Snapshot, count: int, seed: int) -> list[Ask]:
    """Calls of every kind an agent makes: most are allowed, some are refused at different rungs."""
    pick = random.Random(seed)
    names = [tool.full_name for server in snapshot.servers.values() for tool in server.tools.values()]
    made = []
    for number in range(count):
        variant = pick.choice(["read", "write", "destructive"])
        intent = {"operation_type": variant, "data_sensitivity": "internal", "reason": "because I was asked to"}
        args = {"id": number, "title": "a title", "labels": ["a", "b", {"c": 1}]}
        made.append(Ask("x", 0.0, f"call_tool_{variant}", {"name": pick.choice(names), "args": args, "intent": intent}))
    return made


def one_round(snapshot: Snapshot, count: int, seed: int) -> tuple[float, float, float]:
    found = asks(snapshot, count, seed)
    took: list[float] = []
    allowed = 0
    for ask in found:
        start = time.perf_counter_ns()
        decision = decide(ask, snapshot)
        took.append((time.perf_counter_ns() - start) / 1000)
        allowed += isinstance(decision, Route)
    assert 0 < allowed < count, "the mix must hold both allowed and refused calls"
    return percentile(took, 0.5), percentile(took, 0.99), allowed / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=20_000)
    options = parser.parse_args()
    worlds = {"1 server x 1 tool": world(1, 4), "10 x 100": world(10, 100), "100 x 100": world(100, 100)}
    gc.collect()
    gc.freeze()
    for snapshot in worlds.values():
        one_round(snapshot, 2000, 0)
    rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in worlds}
    for number in range(options.rounds):
        for name, snapshot in worlds.items():
            rows[name].append(one_round(snapshot, options.count, number))
    print(f"{'snapshot':<20} {'p50 µs':<24} {'p99 µs':<24} allowed")
    for name, found in rows.items():
        p50, p99, share = zip(*found, strict=True)
        print(f"{name:<20} {spread(p50):<24} {spread(p99):<24} {share[0]:.0%}")
    report("decide", {"unit": "microseconds", "target_p99": 50, "snapshots": {
        name: {"p50": figures([r[0] for r in found]), "p99": figures([r[1] for r in found])}
        for name, found in rows.items()}})  # fmt: skip


if __name__ == "__main__":
    main()
