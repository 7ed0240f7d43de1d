"""What the catalog costs a gateway: `python -m tests.bench.catalog` (issue 4, "Speed").

Two questions. `lookup_capability` through the gate, against an empty tool of another in-process provider in the same
gateway, by one raw client on one connection, in turn; and what the catalog's data adds to a start, by starting a
process that reads it and one that does everything but that, in turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.bench.measure import figures, percentile, report, spread
from tests.support.gateway import Running, clean_environment, start

EMPTY: Final = """
from mcpproxy_py.providers import ToolProvider, ToolSpec

class Empty(ToolProvider):
    def tools(self):
        return [ToolSpec("nothing", annotations={"readOnlyHint": True})]
    async def nothing(self) -> None: ...
"""
CALLS: Final = {
    "empty": ("empty:nothing", {}),
    "lookup": ("catalog:lookup_capability", {"agent": "claude-code", "capability": "mcp"}),
    "lookup, misspelt": ("catalog:lookup_capability", {"agent": "claude-code", "capability": "debuging"}),
}
MOST: Final = 1.3
MOST_MS: Final = 50.0
LOADING: Final = """
import sys, time
import mcpproxy_py.app.compose
from mcpproxy_py.providers.catalog.load import load
from mcpproxy_py.providers.catalog.provider import CatalogProvider
began = time.perf_counter()
if sys.argv[1] == "with":
    CatalogProvider(load(), lambda principal: (), None).tools()
print((time.perf_counter() - began) * 1000)
"""


class Client:
    """One kept connection; each call is a request whose bytes were made beforehand."""

    def __init__(self, url: str) -> None:
        found = urlsplit(url)
        self._http = HTTPConnection(found.hostname or "", found.port)
        self._path = found.path

    def calling(self, name: str, args: dict[str, Any]) -> Callable[[], None]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        wanted = {"name": name, "args": args, "intent": {"operation_type": "read"}}
        params = {"name": "call_tool_read", "arguments": wanted, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {
            "accept": "application/json, text/event-stream", "content-type": "application/json",
            "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "call_tool_read",
        }  # fmt: skip

        def call() -> None:
            self._http.request("POST", self._path, body, headers)
            answer = self._http.getresponse()
            said = answer.read()
            assert answer.status == 200 and b'"isError":true' not in said, said[:300]

        return call


def started(folder: Path) -> Running:
    data = folder / "data"
    data.mkdir(mode=0o700)
    (data / "empty.py").write_text(EMPTY)
    config = {"log": {"level": "error"}, "providers": {"empty": "empty:Empty"}, "mcpServers": {}}
    running = start(data, config)
    running.wait_for("catalog", "empty")
    return running


def p50(call: Callable[[], None], count: int) -> float:
    took: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1000)
    return percentile(took, 0.5)


def through_the_gate(rounds: int, count: int) -> dict[str, list[float]]:
    """The median in ms of each round, by call."""
    with tempfile.TemporaryDirectory() as folder:
        running = started(Path(folder))
        try:
            client = Client(running.mcp)
            calls = {name: client.calling(*what) for name, what in CALLS.items()}
            for call in calls.values():
                p50(call, 200)
            found: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(rounds):
                for name, call in calls.items():
                    found[name].append(p50(call, count))
            return found
        finally:
            running.stop()


def loading(rounds: int) -> list[float]:
    """What reading and preparing the data takes in a process that has imported a whole gateway, in ms."""

    def one(how: str) -> float:
        command = [sys.executable, "-c", LOADING, how]
        done = subprocess.run(command, capture_output=True, check=True, env=clean_environment(), timeout=60)
        return float(done.stdout)

    return [one("with") - one("without") for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=400)
    options = parser.parse_args()
    took = through_the_gate(options.rounds, options.calls)
    found: dict[str, Any] = {}
    for name, rounds in took.items():
        ratios = [mine / base for mine, base in zip(rounds, took["empty"], strict=True)]
        found[name] = {"p50_ms": figures(rounds), "over_empty": figures(ratios)}
        print(f"{name:<18} p50 ms {spread(rounds, 3):<26} over an empty tool {spread(ratios)}", flush=True)
    data = loading(options.rounds)
    found["loading_ms"] = figures(data)
    print(f"the data takes     ms {spread(data, 1)}")
    report("catalog", {"rounds": options.rounds, **found})
    assert found["lookup"]["over_empty"]["median"] <= MOST
    assert found["loading_ms"]["median"] <= MOST_MS


if __name__ == "__main__":
    main()
