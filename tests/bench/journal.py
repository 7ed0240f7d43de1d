"""What the record costs: `python tests/bench/journal.py`. Prints the median of five rounds, and their spread."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from mcpproxy_py.store.journal.journal import Journal
from mcpproxy_py.store.store import Store, open_store

ROUNDS = 5
PAYLOAD = {"path": "/home/ann/project/src/main.py", "body": "The quick brown fox jumps over the dog. " * 12}


def asked(number: int) -> dict[str, Any]:
    return {
        "kind": "asked", "id": f"{time.time_ns():020d}-{number:09d}", "at": time.time(), "type": "tool_call",
        "source": "mcp", "surface": "gate", "server": f"server{number % 10}", "tool": f"tool{number % 100}",
        "arguments": PAYLOAD, "arguments_size": 600, "session_id": None, "request_id": str(number),
        "client": {"name": "bench", "version": "1"}, "principal": "local",
        "metadata": {"intent": {"operation_type": "read", "reason": "to see"}, "tool_variant": "call_tool_read",
                     "decision": {"verdict": "allow", "rule": "matrix", "mode": "strict", "class": "read"}},
    }  # fmt: skip


def finished(event: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "finished", "id": event["id"], "at": time.time(), "status": "success", "error": None,
        "response": PAYLOAD, "response_size": 600, "duration_ms": 1.5, "metadata": {},
    }  # fmt: skip


def append_micros(folder: Path, many: int = 5000) -> float:
    journal = Journal(folder)
    events = [asked(number) for number in range(many)]
    start = time.perf_counter()
    for event in events:
        journal.append(event)
    taken = time.perf_counter() - start
    journal.close()
    return taken / many * 1e6


def synced_micros(folder: Path, many: int = 200) -> float:
    async def run() -> float:
        journal = Journal(folder)
        await journal.synced()
        start = time.perf_counter()
        for number in range(many):
            journal.append(asked(number))
            await journal.synced()
        taken = time.perf_counter() - start
        journal.close()
        return taken / many * 1e6

    return anyio.run(run)


def records_per_second(folder: Path, many: int = 20_000) -> float:
    store = open_store(folder)
    for number in range(many):
        event = asked(number)
        store.append(event, finished(event))
    taken = _drain(store)
    store.close()
    return many / taken


def _drain(store: Store) -> float:
    async def run() -> float:
        start = time.perf_counter()
        if not await store.caught_up(timeout=300):
            raise SystemExit("the database did not catch up within five minutes")
        return time.perf_counter() - start

    return anyio.run(run)


def measure(label: str, unit: str, once: Callable[[Path], float]) -> None:
    found: list[float] = []
    for _ in range(ROUNDS):
        folder = Path(tempfile.mkdtemp(prefix="mcpproxy-bench-"))
        try:
            found.append(once(folder / "data"))
        finally:
            shutil.rmtree(folder)
    print(f"{label:<22}{statistics.median(found):>10.1f} {unit:<10} ({min(found):.1f} to {max(found):.1f})")


if __name__ == "__main__":
    measure("append", "µs", append_micros)
    measure("append and sync", "µs", synced_micros)
    measure("into the database", "records/s", records_per_second)
