"""What traces cost a call, with a collector and with one that is away: `python -m tests.bench.tracing`.

The same raw client, round by round in turn; the figures to look at are the ratios to the gateway that traces nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import uvloop

from tests.bench.clients import Call, Http
from tests.bench.measure import spread
from tests.bench.overhead import ARGS, COUNTS, Begun, one_round
from tests.support.gateway import gateway, python_server

SINK = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
NOBODY = "http://127.0.0.1:9"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def calls(stack: ExitStack) -> dict[str, Call]:
    sink = stack.enter_context(subprocess.Popen([sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True))
    stack.callback(sink.kill)
    assert sink.stdout is not None
    there = f"http://127.0.0.1:{sink.stdout.readline().strip()}"
    ways = {
        "off": {},
        "on": {ENDPOINT: there},
        "on, one in ten": {ENDPOINT: there, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
        "on, nobody there": {ENDPOINT: NOBODY},
    }
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    config = {"mcpServers": {"s0": python_server("plain.py")}}
    arguments = {"name": "s0:echo", "args": ARGS, "intent": {"operation_type": "read"}}
    found: dict[str, Call] = {}
    for number, (name, env) in enumerate(ways.items()):
        running = stack.enter_context(gateway(folder / str(number), config, env=env))
        found[name] = Http(running.mcp).modern("call_tool_read", arguments)
    return found


async def compared(ways: dict[str, Call], concurrency: int, rounds: int) -> None:
    p50: dict[str, list[float]] = {name: [] for name in ways}
    rate: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        names = list(ways)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            found = await one_round(Begun(ways[name], None), concurrency, COUNTS[concurrency])
            if turn:  # the first is for warming up
                p50[name].append(found.p50_ms)
                rate[name].append(found.calls_per_second)
    for name in ways:
        slower = [ours / off for ours, off in zip(p50[name], p50["off"], strict=True)]
        faster = [ours / off for ours, off in zip(rate[name], rate["off"], strict=True)]
        print(f"{concurrency:>3} at a time  {name:<18} p50 {spread(slower)} x off   calls/s {spread(faster)} x off")


async def main(rounds: int) -> None:
    with ExitStack() as stack:
        ways = calls(stack)
        for concurrency in (1, 16):
            await compared(ways, concurrency, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    uvloop.run(main(parser.parse_args().rounds))
