"""How fast it starts and how much it holds: `python -m tests.bench.start` (PERF-6).

Starting is timed from the outside, beside a Python that does nothing, in turns: until `/healthz` and a `tools/list`
were answered, by the clock, and what the gateway had used of a processor by then, which is what is left when other
programs keep the machine busy. Memory is the proportional set size of the gateway and of the processes it needs for
itself, with idle clients that hold a session and its stream, in front of servers that run in another process and list
tools of about a kilobyte, after searches with several hundred words.

With `--against CHECKOUT` only starting is looked at, of ours and of the gateway of another checkout, with the same
packages, in turns, and in what part of the time or how many times of it ours did it. `--instructions` counts a start
and an end of each as well, with valgrind, which what the machine does meanwhile hardly changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.bench.clients import MODERN, Http, checked
from tests.bench.measure import COUNTED, figures, instructions_in, likely, report, spread
from tests.bench.rig import Rig, Upstream
from tests.bench.search import PHRASES, generated, spoken
from tests.servers.plain import TOOLS
from tests.support.gateway import Running, clean_environment, start

HERE = Path(__file__).parents[2]
OURS = [sys.executable, "-m", "mcpproxy_py"]
ANSWERS_WITHIN = 60.0
SEARCHES = 200
SETTLED = 3.0
"""Seconds until it has what it makes after its start."""
KINDS = ("ms", "cpu_ms")
PER_COUNT = 600
"""Seconds that a start may take under valgrind."""
TARGETS = {"help_over_python_ms": 100, "serve_first_answers_ms": 1000, "serve_answers_ms": 1000, "memory_mb": 600}


HEALTH = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
LISTING = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list", "connection": "close"}


def run_ms(command: list[str], checkout: Path = HERE) -> tuple[float, float]:
    """By the clock and of processor time."""
    began, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, cwd=checkout, stdout=subprocess.DEVNULL, env=_environment(checkout))
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return (time.perf_counter() - began) * 1000, used * 1000


def _environment(checkout: Path) -> dict[str, str]:
    """In which the package of this checkout is imported, with the packages of this interpreter."""
    return clean_environment(PYTHONPATH=str(checkout))


@contextmanager
def serving(data_dir: Path, checkout: Path = HERE) -> Iterator[tuple[float, float]]:
    """A gateway, and the milliseconds until it answered, by the clock and of processor time."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    began = time.perf_counter()
    command = [*OURS, "serve", "--data-dir", str(data_dir), "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=checkout, env=_environment(checkout)
    )
    try:
        while not _asked(port, HEALTH):
            assert process.poll() is None and time.perf_counter() - began < ANSWERS_WITHIN, "it does not answer"
            time.sleep(0.002)
        checked(_asked(port, Http(f"http://127.0.0.1:{port}/mcp").message("tools/list", {"_meta": MODERN}, LISTING)))
        used = psutil.Process(process.pid).cpu_times()
        yield (time.perf_counter() - began) * 1000, (used.user + used.system) * 1000
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _asked(port: int, request: bytes) -> bytes:
    """The answer, if there is a good one."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as found:
        found.sendall(request)
        answer = b"".join(iter(lambda: found.recv(65536), b""))
        return answer if answer.startswith(b"HTTP/1.1 200") else b""
    return b""


def starting(rounds: int) -> dict[str, Any]:
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            found = _one_round(Path(folder) / f"new{number}", Path(folder) / "used")
            if number:  # the first only warms the caches
                for name, took in found.items():
                    rows.setdefault(name, []).append(took)
    for name, values in rows.items():
        target = f"at most {TARGETS[name]}" if name in TARGETS else ""
        print(f"{name:<24} {spread(values, 0):<24} {target}", flush=True)
    return {name: figures(values) for name, values in rows.items()}


def _one_round(new: Path, used: Path) -> dict[str, float]:
    bare, helped = run_ms([sys.executable, "-c", ""]), run_ms([*OURS, "--help"])
    with serving(new) as first:
        pass
    with serving(used) as later:
        pass
    taken = {"bare_python": bare, "help": helped, "serve_first_answers": first, "serve_answers": later}
    over = {f"help_over_python_{of}": ours - theirs for of, ours, theirs in zip(KINDS, helped, bare, strict=True)}
    return {f"{name}_{of}": took for name, both in taken.items() for of, took in zip(KINDS, both, strict=True)} | over


def starting_against(rounds: int, other: Path, *, count: bool) -> dict[str, Any]:
    """Ours and the other's, one directly after the other, each round from the other one's end."""
    checkouts = {"ours": HERE, "theirs": other}
    taken: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for checkout in checkouts.values():
            _check_imported(checkout)
        for number in range(rounds + 1):
            for name in ("help", "serve_first_answers", "serve_answers"):
                for whose in ("ours", "theirs") if number % 2 else ("theirs", "ours"):
                    both = _start_of(name, checkouts[whose], Path(folder) / whose, number)
                    if number:  # the first only warms the caches
                        for of, took in zip(KINDS, both, strict=True):
                            taken.setdefault(f"{name}_{of}", {}).setdefault(whose, []).append(took)
        rows = {name: _beside(name, each["ours"], each["theirs"]) for name, each in taken.items()}
        if count:
            counted = {whose: _instructions(checkout, Path(folder) / whose / "used")
                       for whose, checkout in checkouts.items()}  # fmt: skip
            rows["serve_million_instructions"] = counted
            print(f"{'serve, from start to end':<24} {counted['ours']:.0f} million instructions, theirs "
                  f"{counted['theirs']:.0f}: {counted['ours'] / counted['theirs']:.3f} times", flush=True)  # fmt: skip
    return rows


def _start_of(name: str, checkout: Path, root: Path, number: int) -> tuple[float, float]:
    if name == "help":
        return run_ms([*OURS, "--help"], checkout)
    with serving(root / (f"new{number}" if name == "serve_first_answers" else "used"), checkout) as took:
        return took


def _check_imported(checkout: Path) -> None:
    said = "import mcpproxy_py; print(mcpproxy_py.__file__)"
    found = subprocess.check_output([sys.executable, "-c", said], cwd=checkout, env=_environment(checkout), text=True)
    assert Path(found.strip()).is_relative_to(checkout), f"{found.strip()} is not of {checkout}"


def _beside(name: str, ours: list[float], theirs: list[float]) -> dict[str, Any]:
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    median, low, high = likely(ratios)
    quick = quickest(ours) / quickest(theirs)
    print(f"{name:<26} {spread(ours, 0):<20} theirs {spread(theirs, 0):<20} {median:.3f} times "
          f"(likely {low:.3f} to {high:.3f}); the quickest quarter {quick:.3f}", flush=True)  # fmt: skip
    times = {**figures(ratios), "likely": [low, high], "quickest_quarter": quick}
    return {"ours": figures(ours), "theirs": figures(theirs), "times": times}


def quickest(values: list[float]) -> float:
    """The mean of the quickest quarter: a machine that changes its speed has two medians, and one of these."""
    return statistics.mean(sorted(values)[: max(1, len(values) // 4)])


def _instructions(checkout: Path, data_dir: Path) -> float:
    """Millions, of a gateway that ends when it is ready, since nobody wants anything of it."""
    command = [*COUNTED, *OURS, "serve", "--idle-exit", "0", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    environ = {**_environment(checkout), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=checkout, env=environ, stderr=subprocess.PIPE, text=True, timeout=PER_COUNT,
                          check=True)  # fmt: skip
    return instructions_in(done.stderr) / 1e6


async def holding(servers: int, tools: int, sessions: int) -> dict[str, Any]:
    """Megabytes, empty and full."""
    async with AsyncExitStack() as stack:
        rig = Rig(Upstream("many", "plain_http.py", "http"), 1, ["gate"], stack)
        listing = rig.folder / "tools.json"
        listing.write_text(json.dumps(wordy_tools(tools - len(TOOLS))))
        port = await rig.port_of(*rig.upstream.command, "--http", "0", "--tools", str(listing))
        entry = {"url": f"http://127.0.0.1:{port}/mcp"}
        empty = await _weighed(rig.folder / "empty", {}, 0)
        full = await _weighed(rig.folder / "full", {f"s{n}": entry for n in range(servers)}, sessions)
    shown = {"servers": servers, "tools": servers * tools, "sessions": sessions, "empty_mb": empty, "full_mb": full}
    print(f"{'memory empty':<24} {_sum(empty):.0f} MB {empty}")
    print(f"{'memory full':<24} {_sum(full):.0f} MB {full}   at most {TARGETS['memory_mb']}", flush=True)
    return shown


def wordy_tools(count: int) -> list[dict[str, Any]]:
    """As real ones are, with a description of each parameter."""
    chance = random.Random(count)
    wires = [json.loads(json.dumps(tool.wire)) for tool in generated(0, count, chance)]
    for wire in wires:
        for shape in wire["inputSchema"]["properties"].values():
            shape["description"] = ", ".join(chance.sample(PHRASES, 4))
    return wires


def _sum(parts: dict[str, float]) -> float:
    return sum(parts.values())


async def _weighed(data_dir: Path, servers: dict[str, Any], sessions: int) -> dict[str, float]:
    share = {"per_principal": {"sessions": sessions + 1, "streams": sessions + 1}}  # all of them come from one
    config = {"log": {"level": "error"}, "limits": share, "mcpServers": servers}
    gateway = await asyncio.to_thread(start, data_dir, config)
    try:
        streams = [await _idle_session(gateway) for _ in range(sessions)]
        for query in spoken(random.Random(1), SEARCHES):
            await asyncio.to_thread(gateway.get, "/tools/search", query=query)
        await asyncio.sleep(SETTLED)
        found = _megabytes(gateway.process.pid)
        for writer in streams:
            writer.close()
        return found
    finally:
        await asyncio.to_thread(gateway.stop)


async def _idle_session(gateway: Running) -> asyncio.StreamWriter:
    """What a client of the handshake era holds: a session, and the stream on which it waits for the server."""
    client = Http(gateway.mcp)
    session = await client.session()
    _, posting = client.connections[0]
    posting.close()
    lines = {**client.headers, **session, "accept": "text/event-stream"}
    reader, writer = await asyncio.open_connection(client.host, client.port)
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"GET {client.path} HTTP/1.1\r\n{head}\r\n".encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return writer


def _megabytes(pid: int) -> dict[str, float]:
    gateway = psutil.Process(pid)
    parts = {"gateway": gateway, **{f"child {n}": each for n, each in enumerate(gateway.children(recursive=True))}}
    return {name: round(_proportional(each) / 2**20, 1) for name, each in parts.items()}


def _proportional(process: psutil.Process) -> int:
    found = process.memory_full_info() if hasattr(process, "memory_full_info") else process.memory_info()
    return getattr(found, "pss", found.rss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--tools", type=int, default=100, help="of each server")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of mcpproxy, beside ours")
    parser.add_argument("--instructions", action="store_true", help="with --against: counted by valgrind, too")
    options = parser.parse_args()
    print(f"processors: {os.cpu_count()}, load: {os.getloadavg()[0]:.1f}")
    if options.against:
        rows = starting_against(options.rounds, options.against.resolve(), count=options.instructions)
        report("start_against", {"against": str(options.against), "starting": rows})
        return
    timed = starting(options.rounds)
    held = asyncio.run(holding(options.servers, options.tools, options.sessions))
    report("start", {"targets": TARGETS, "starting": timed, "holding": held})


if __name__ == "__main__":
    main()
