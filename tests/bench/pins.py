"""What holding a listing against its pins costs: `python -m tests.bench.pins` (SEC-3, SEC-6).

In seconds of a thread, for listings of so many tools: equal to what is approved (once and again), every description
reworded, every schema widened, every hint lowered, every tool renamed; and for a few that are made to be slow. `held
up` is the longest that another thread waited for its turn meanwhile, as the event loop would. Where another program
takes the processor, that counts too.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from mcpproxy_py.core.pins.judge import judge
from mcpproxy_py.core.pins.listing import PinnedListing, from_json, listing_of
from mcpproxy_py.upstream.session.session import MAX_ENTRIES
from mcpproxy_py.upstream.turns import uncollected
from tests.bench.measure import figures, report, spread

TEXT = {"type": "string", "description": "What it is about, in a few words."}
NUMBER = {"type": "integer", "minimum": 0, "default": 10}


def wire(number: int, **parts: Any) -> dict[str, Any]:
    properties = {"owner": TEXT, "repo": TEXT, "query": TEXT, "limit": NUMBER, f"field_{number}": {"type": "boolean"}}
    return {
        "name": f"tool_{number}", "description": f"Finds what belongs to number {number}. Gives a list of it. " * 4,
        "inputSchema": {"type": "object", "properties": properties, "required": ["owner", "repo"]},
        "annotations": {"readOnlyHint": number % 2 == 0, "destructiveHint": number % 2 == 1}, **parts,
    }  # fmt: skip


def fresh(listing: PinnedListing) -> PinnedListing:
    """As it comes from another message: with nothing found out about it."""
    return from_json(json.loads(json.dumps(listing.as_json())))


def widened(number: int) -> dict[str, Any]:
    made = wire(number)
    made["inputSchema"]["properties"]["more"] = TEXT
    return made


def changes(count: int) -> dict[str, Callable[[], list[dict[str, Any]]]]:
    numbers = range(count)
    return {
        "equal, first time": lambda: [wire(n) for n in numbers],
        "equal, again": lambda: [wire(n) for n in numbers],
        "one lowered": lambda: [wire(0), *(wire(n) for n in numbers[1:-1]),
                                wire(count - 1, annotations={"readOnlyHint": True})],
        "all reworded": lambda: [wire(n, description=f"Other words about {n}.") for n in numbers],
        "all widened": lambda: [widened(n) for n in numbers],
        "all lowered": lambda: [wire(n, annotations={"readOnlyHint": True, "idempotentHint": True}) for n in numbers],
        "all renamed": lambda: [wire(n, name=f"other_{n}") for n in numbers],
    }  # fmt: skip


def deep(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        made = {"anyOf": [made, {"type": "null"}]}
    return made


HOSTILE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a description of a megabyte": (wire(0, description="a b " * 250_000), wire(0, description="a c " * 250_000)),
    "100,000 properties": tuple(
        wire(0, inputSchema={"type": "object", "properties": {f"{name}{n}": {} for n in range(100_000)}})
        for name in "pq"
    ),
    "an enum of 300,000": tuple(
        wire(0, inputSchema={"enum": [f"{name}{n}" for n in range(300_000)]}) for name in "pq"
    ),
    "500 levels": (wire(0, inputSchema=deep(400)), wire(0, inputSchema={"anyOf": [deep(399), {}]})),
    "300,000 fractions": tuple(
        wire(0, inputSchema={"examples": [n / 7 for n in range(300_000)], "x": k}) for k in (1, 2)
    ),
}  # type: ignore[assignment]  # fmt: skip


class Ticker:
    """A thread that wants its turn every millisecond."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        last = time.perf_counter()
        while not self._stop.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            self.longest, last = max(self.longest, now - last), now

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def measured(approved: PinnedListing, listed: PinnedListing) -> tuple[float, float]:
    with Ticker() as ticker:
        started = time.thread_time()
        uncollected(lambda: judge(approved, listed, manual=False, trusted=True, findings={}))
        took = time.thread_time() - started
    return took, ticker.longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", type=int, nargs="*", default=[5_000, MAX_ENTRIES])
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    print(f"{'listing':<42} {'seconds of a thread':<26} held up, ms")
    for count in options.tools:
        approved = listing_of([wire(n) for n in range(count)])
        approved.digest()
        for name, make in changes(count).items():
            held = fresh(approved) if "first" in name else approved
            rounds = [measured(held if "first" not in name else fresh(held), fresh(listing_of(make())))
                      for _ in range(options.rounds)]  # fmt: skip
            told(found, f"{count:,} tools, {name}", rounds)
    for name, (before, after) in HOSTILE.items():
        rounds = [measured(*(listing_of([each]) for each in (before, after))) for _ in range(options.rounds)]
        told(found, name, rounds)
    report("pins", {"unit": "seconds", "listings": found})


def told(found: dict[str, dict[str, Any]], name: str, rounds: list[tuple[float, float]]) -> None:
    took, held = [each[0] for each in rounds], [each[1] * 1000 for each in rounds]
    print(f"{name:<42} {spread(took, 3):<26} {spread(held, 0)}", flush=True)
    found[name] = {"seconds": figures(took), "held up, milliseconds": figures(held)}


if __name__ == "__main__":
    main()
