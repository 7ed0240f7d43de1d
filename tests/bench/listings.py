"""How long a large listing holds up the event loop: `python -m tests.bench.listings` (SEC-6).

A gateway in a process of its own, and a server on a pipe that lists so many tools in pages; what is beyond the most
that is taken of one server (20,000) is left out and said. Of each step it prints the
most that the thread of the loop worked without a turn for others, as a watchdog inside saw it (`watched_gateway.py`),
and how long the step took by the clock:

    connected    the server is added, its tools are read and pinned for the first time
    again        it is connected once more, and lists the same
    found        tools are searched for the first time
    found again  and ten times more
    started      the gateway is started again, with what it kept, until the tools are there; what it does before it
                 serves anybody is in it
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcpproxy_py.upstream.session.session import MAX_ENTRIES
from tests.bench.measure import figures, report, spread
from tests.bench.watched_gateway import FIGURES, shared
from tests.support.gateway import Running, gateway, until

PAGE = 1_000
WITHIN = 300.0
LIMIT_MS = 50.0
LISTS = """
import json, sys
count, page = int(sys.argv[1]), int(sys.argv[2])
def tool(number):
    return {"name": f"tool_{number}", "description": f"Does the thing number {number} to a file. " * 4,
            "inputSchema": {"type": "object", "required": ["path"],
                            "properties": {"path": {"type": "string", "description": "Which file."},
                                           "owner": {"type": "string"}, f"n{number}": {"type": "integer"}}},
            "annotations": {"readOnlyHint": number % 2 == 0}}
def listed(cursor):
    begin = int(cursor or 0)
    found = {"tools": [tool(number) for number in range(begin, min(begin + page, count))]}
    return {**found, "nextCursor": str(begin + page)} if begin + page < count else found
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        if asked["method"] == "initialize":
            said = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "many", "version": "1"}}}
        elif asked["method"] == "tools/list":
            said = {"result": listed(asked.get("params", {}).get("cursor"))}
        else:
            said = {"error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""


def tools_there(running: Running) -> int:
    rows = running.get("/servers")["servers"]
    row = next((row for row in rows if row["name"] == "many" and row["state"] == "connected"), {})
    return sum((row.get("tools_by_class") or {}).values())


def one_round(count: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Milliseconds of the loop, and seconds by the clock, of each step."""
    file = folder / "watched"
    file.write_bytes(bytes(FIGURES.size))
    watched = shared(str(file))
    entry = {"command": sys.executable, "args": ["-c", LISTS, str(count), str(PAGE)]}
    config: dict[str, Any] = {"log": {"level": "error"}, "listen": "127.0.0.1:0"}
    found: dict[str, tuple[float, float]] = {}

    def step(name: str, act: Callable[[], object]) -> None:
        FIGURES.pack_into(watched, 0, 0.0, 0.0, 0.0)
        began = time.perf_counter()
        act()
        took = time.perf_counter() - began
        time.sleep(1)  # what is made beside the loop and handed over later
        found[name] = FIGURES.unpack_from(watched)[2] * 1000, took

    def there() -> None:
        taken = min(count, MAX_ENTRIES)
        until(lambda: tools_there(running) == taken, WITHIN, f"{taken} tools")

    def search(first: int, beyond: int) -> None:
        for number in range(first, beyond):
            running.get("/tools/search", query=f"the thing number {number * 7} to a file")

    program, env = ("-m", "tests.bench.watched_gateway"), {"WATCHED_FILE": str(file)}
    with gateway(folder / "data", config, program=program, env=env) as running:
        running.get("/status")
        time.sleep(2)  # what it does after its start
        step("connected", lambda: (running.post("/servers", {"name": "many", "config": entry}), there()))
        step("again", lambda: (running.post("/servers/many/restart"), there()))
        step("found", lambda: search(0, 1))
        step("found again", lambda: search(1, 11))
    FIGURES.pack_into(watched, 0, 0.0, 0.0, 0.0)
    began = time.perf_counter()
    with gateway(folder / "data", None, program=program, env=env) as running:
        there()
        time.sleep(1)
        found["started"] = FIGURES.unpack_from(watched)[2] * 1000, time.perf_counter() - began
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", type=int, nargs="*", default=[20_000, 50_000])
    options = parser.parse_args()
    print(f"{'':<28} {'loop without a turn, ms':<28} by the clock, s")
    rows: dict[str, Any] = {}
    for count in options.tools:
        taken: dict[str, list[tuple[float, float]]] = {}
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                for name, each in one_round(count, Path(folder)).items():
                    taken.setdefault(name, []).append(each)
        for name, each in taken.items():
            held, took = [ms for ms, _ in each], [seconds for _, seconds in each]
            late = "  too long" if max(held) > LIMIT_MS else ""
            print(f"{f'{count:,} tools, {name}':<28} {spread(held, 0):<28} {spread(took, 1)}{late}", flush=True)
            rows[f"{count} tools, {name}"] = {"ms": figures(held), "seconds": figures(took)}
    report("listings", {"limit_ms": LIMIT_MS, "steps": rows})


if __name__ == "__main__":
    main()
