"""The record at size, on both engines: `python -m tests.bench.activity [--rows 1000000] [--engine sqlite]` (PERF-5).

Fills a store, then reads it by every filter, searches, sums up, exports, deletes. Prints medians and p99, and how busy
the machine was meanwhile: with others at work on it, wall times are theirs as much as ours.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio

from mcpproxy_py.core.record import events
from mcpproxy_py.core.values import Ask, ClientInfo, Policy, Refusal
from mcpproxy_py.errors import Code
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.store.activity.reader import Filters, Reader
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.store import Store, open_store
from tests.bench.measure import percentile, report

DAYS = 30
SERVERS, TOOLS = 10, 100
STATUSES = ("success",) * 17 + ("blocked", "error", "timeout")
OPERATIONS = ("read",) * 6 + ("write",) * 3 + ("destructive",)
CLIENTS = ("claude-code", "cursor", "vscode", "codex")
BEGINNINGS, STEMS = ("re", "in", "con", "pro", "sub", "trans"), ("port", "ject", "form", "sist", "mit")
VOCABULARY = [f"{a}{b}{c}" for a in BEGINNINGS for b in STEMS for c in ("", "s", "ed", "ing", "er", "ion")]
REPEATS = 40
Figures = dict[str, Any]


def story(many: int, begin: int, total: int, choose: random.Random) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Asks and their ends, spread over the last month; about a kilobyte each, all words of arguments drawn anew."""
    start = time.time() - DAYS * 86_400
    for number in range(begin, begin + many):
        at, tool = start + DAYS * 86_400 * number / total, choose.randrange(TOOLS)
        row, status = f"{int(at * 1000):012x}-7000-{number:08x}", choose.choice(STATUSES)
        arguments = {"path": f"/home/ann/src/{choose.choice(VOCABULARY)}.py", "number": number,
                     "body": " ".join(choose.choices(VOCABULARY, k=50))}  # fmt: skip
        operation = (
            OPERATIONS[tool % 10] if number % 20 else "destructive"
        )  # a tool is nearly always meant the same way
        intent = {"operation_type": operation, "reason": f"to {choose.choice(VOCABULARY)}"}
        yield {
            "kind": "asked", "id": row, "at": at, "type": "tool_call" if tool else "tool_search", "source": "mcp",
            "surface": "gate", "server": f"server{tool % SERVERS}", "tool": f"tool{tool}", "arguments": arguments,
            "arguments_size": 500, "session_id": f"session{number // 500}", "request_id": f"r{number}",
            "client": {"name": choose.choice(CLIENTS), "version": "1"}, "principal": f"agent{number % 5}",
            "metadata": {"intent": intent, "tool_variant": "call_tool_read",
                         "decision": {"verdict": "allow", "rule": "matrix", "mode": "strict", "class": "read"}},
        }, {
            "kind": "finished", "id": row, "at": at + 0.1, "status": status, "response_size": 300, "metadata": {},
            "error": None if status == "success" else {"code": "E", "message": f"no {choose.choice(VOCABULARY)}"},
            "response": {"content": [{"type": "text", "text": "x" * 260}]}, "duration_ms": choose.lognormvariate(3, 1),
        }  # fmt: skip


async def fill(store: Store, many: int) -> Figures:
    choose, step, marks = random.Random(3), max(many // 10, 1), [time.perf_counter()]
    for begin in range(0, many, step):
        for asked, finished in story(min(step, many - begin), begin, many, choose):
            store.append(asked, finished)
        if not await store.caught_up(timeout=3600):
            raise SystemExit("the database did not catch up")
        marks.append(time.perf_counter())
    rates = [step / (after - before) for before, after in itertools.pairwise(marks)]
    say("filled", f"{many} records in {marks[-1] - marks[0]:.0f} s, generating them included",
        f"{statistics.median(rates):.0f} records/s, the last tenth {rates[-1]:.0f}")  # fmt: skip
    return {"seconds": marks[-1] - marks[0], "per_second": rates}


async def drained(folder: Path, options: Options, many: int) -> Figures:
    """The writer alone, into a store that is full already. Its processor time, which on PostgreSQL is not all, says
    what it needs; how many a second it did, what the machine had left for it."""
    rates: list[float] = []
    micros: list[float] = []
    for round_ in range(3):
        store = open_store(folder, options=options)
        store._writer.halt()
        for asked, finished in story(many, round_ * many, many, random.Random(round_)):
            now = time.time()  # new records are the newest
            mark = f"{int(now * 1e6):014x}-{asked['id']}"
            store.append({**asked, "id": mark, "at": now}, {**finished, "id": mark, "at": now})
        began, busy = time.perf_counter(), time.process_time()
        store._writer.drain()  # type: ignore[attr-defined]
        rates.append(many / (time.perf_counter() - began))
        micros.append((time.process_time() - busy) / many * 1e6)
        store.close()
    say("sustained", f"{statistics.median(rates):.0f} records/s ({min(rates):.0f} to {max(rates):.0f})",
        f"{statistics.median(micros):.0f} µs of a core each ({min(micros):.0f} to {max(micros):.0f})")  # fmt: skip
    return {"per_second": rates, "micros": micros}


def timed(work: Callable[[], Any], repeats: int = REPEATS) -> list[float]:
    work()
    found: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        found.append((time.perf_counter() - began) * 1000)
    return found


def line(label: str, *columns: list[float]) -> Figures:
    shown = (f"p50 {percentile(found, 0.5):7.2f}  p99 {percentile(found, 0.99):7.2f} ms" for found in columns)
    say(label, *shown)
    return {"p50": [percentile(found, 0.5) for found in columns], "p99": [percentile(found, 0.99) for found in columns]}


def say(label: str, *values: str) -> None:
    print(f"  {label:<26}{'   '.join(values)}", flush=True)


def pages(reader: Reader, many: int) -> Figures:
    now = datetime.now(UTC)
    asked = {
        "none": Filters(), "intent_type": Filters(intent_type="destructive"), "type": Filters(type="tool_search"),
        "status": Filters(status="timeout"), "server": Filters(server="server3"), "tool": Filters(tool="tool42"),
        "session_id": Filters(session_id=f"session{many // 1000}"), "request_id": Filters(request_id=f"r{many // 2}"),
        "client": Filters(client="cursor"), "principal": Filters(principal="agent2"),
        "start_time": Filters(start_time=now - timedelta(days=20)),
        "end_time": Filters(end_time=now - timedelta(days=9)),
        "server and status": Filters(server="server3", status="error"),
        "and a time": Filters(server="server3", status="error", start_time=now - timedelta(days=20),
                              end_time=now - timedelta(days=10)),
        "tool and intent": Filters(tool="tool42", intent_type="destructive"),
        "client, agent and status": Filters(client="cursor", principal="agent2", status="blocked"),
        "server and status, in none": Filters(server="server3", status="cancelled"),
        "server and tool, in none": Filters(server="server3", tool="tool42"),
    }  # fmt: skip
    print("  a page of 50 by filter: the first, and the hundredth or the last there is")
    found: Figures = {}
    for label, filters in asked.items():
        late = filters
        for _ in range(99):
            cursor = reader.list(late).next_cursor
            if cursor is None:
                break
            late = replace(filters, cursor=cursor)
        found[label] = line(label, timed(lambda f=filters: reader.list(f)), timed(lambda f=late: reader.list(f)))
    return found


def searches(reader: Reader, many: int) -> Figures:
    asked = {
        "a word in many": "transformer", "two words": "transformer rejected", "in one record": str(many // 3),
        "a beginning of many": "transf*", "a beginning of some": f"{many // 300}*", "in none": "rumpelstiltskin",
        "many and none": "transformer rumpelstiltskin", "a letter": "t*", "a beginning of none": "transfx*",
    }  # fmt: skip
    print("  text search, a page of 50")
    found = {label: line(label, timed(lambda q=q: reader.list(Filters(q=q)))) for label, q in asked.items()}
    narrow = {
        "and a status": Filters(q="transformer", status="timeout"),
        "and a server": Filters(q="transformer", server="server3"),
        "and a session": Filters(q="transformer", session_id=f"session{many // 1000}"),
        "and a status of none": Filters(q="transformer", status="cancelled"),
        "and a tool, in none": Filters(q="server3", tool="tool42"),
    }  # fmt: skip
    return {**found, **{label: line(label, timed(lambda f=f: reader.list(f))) for label, f in narrow.items()}}


def summaries(reader: Reader) -> Figures:
    now = datetime.now(UTC)
    asked = {
        "of everything": Filters(), "of a server": Filters(server="server3"),
        "of the last day": Filters(start_time=now - timedelta(days=1)),
        "of the last week": Filters(start_time=now - timedelta(days=7)), "of a session": Filters(session_id="session3"),
    }  # fmt: skip
    print("  summary")
    return {label: line(label, timed(lambda f=f: reader.summary(f), 15)) for label, f in asked.items()}


EXPORT = """
import sys
from pathlib import Path
from mcpproxy_py.store.activity.reader import Filters, Reader
from mcpproxy_py.store.options import Options
reader = Reader(Options.from_line(sys.stdin.readline()).database(Path(sys.argv[1])))
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
reader.list(Filters())
before = peak()
rows = sum(1 for _ in reader.export(Filters()))
print(rows, before, peak())
"""


def export(folder: Path, options: Options) -> Figures:
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", EXPORT, str(folder)], input=options.as_line(), text=True, check=True,
                          capture_output=True)  # fmt: skip
    rows, before, after = map(int, done.stdout.split())
    seconds = time.perf_counter() - began
    say("export", f"{rows} rows in {seconds:.0f} s", f"memory {before // 1024} MB before, {after // 1024} MB at most")
    return {"rows": rows, "seconds": seconds, "kb_before": before, "kb_peak": after}


async def recording(folder: Path) -> Figures:
    """What a call pays: masking, chaining, one write; and the sync before what is above read."""
    store = open_store(folder / "recording", apart=True)
    params = {"name": "s:echo", "args": {"text": "hello", "note": "x" * 600}}
    refused = Refusal(Code.TOOL_NOT_FOUND, "no such tool", "known", "", args=params["args"])
    outcome = events.Outcome("success", {"content": [{"type": "text", "text": "y" * 600}]})
    once: list[float] = []
    for number in range(6000):
        now, client = time.time(), ClientInfo("bench", "1")
        ask = Ask(f"id{number}", now, "call_tool_read", params, "mcp", "gate", "local", client, None, str(number))
        began = time.perf_counter()
        store.append(events.asked(ask, refused, Policy(), 65_536, MASKER))
        store.append(events.finished(ask.id, ask.at, outcome, 1.5, 65_536, MASKER))
        once.append((time.perf_counter() - began) * 1e6)
    say("recording adds to a call", f"p50 {percentile(once, 0.5):.0f} µs", f"p99 {percentile(once, 0.99):.0f} µs")
    alone = await synced(store, 1, 300)
    crowd = await synced(store, 64, 3000)
    say("write-ahead, alone", f"p50 {percentile(alone, 0.5):.2f} ms", f"p99 {percentile(alone, 0.99):.2f} ms")
    say(
        "write-ahead, of 64",
        f"{sum(crowd) / len(crowd) / 64:.3f} ms each when shared",
        f"p50 {percentile(crowd, 0.5):.2f} ms",
    )
    store.close()
    return {"micros": [percentile(once, 0.5), percentile(once, 0.99)],
            "ahead_ms": [percentile(alone, 0.5), percentile(crowd, 0.5)]}  # fmt: skip


async def synced(store: Store, together: int, many: int) -> list[float]:
    took: list[float] = []
    left = iter(range(many))

    async def work() -> None:
        for number in left:
            began = time.perf_counter()
            store.append({"kind": "asked", "id": f"s{together}-{number}", "at": time.time(), "tool": "t"})
            await store.synced()
            took.append((time.perf_counter() - began) * 1000)

    async with anyio.create_task_group() as tasks:
        for _ in range(together):
            tasks.start_soon(work)
    return took


async def retention(folder: Path, options: Options, many: int) -> Figures:
    """Calls while half of the record is deleted, against calls while nothing is."""
    found: Figures = {}
    for label, days in (("while nothing goes", None), ("while retention deletes", DAYS / 2)):
        store = open_store(folder, options=replace(options, retention_days=days), apart=True)
        took: list[float] = []
        end = time.monotonic() + 15
        while time.monotonic() < end:
            for each in await synced(store, 4, 40):
                took.append(each)
            await store.activities(Filters(status="timeout"))
        found[label] = line(label, took)
        say("", f"{store.health()['retention_deleted']} records deleted meanwhile")
        store.close()
    return found


async def measure(folder: Path, options: Options, many: int) -> Figures:
    store = open_store(folder, options=options, apart=True)
    found: Figures = {"fill": await fill(store, many)}
    store.close()
    found["sustained"] = await drained(folder, options, min(many // 10, 30_000))
    database = options.database(folder)
    try:
        reader = Reader(database)
        found |= {"size": database.size(), "pages": pages(reader, many), "search": searches(reader, many)}
        found["summary"] = summaries(reader)
    finally:
        database.close()
    found["export"] = export(folder, options)
    found["retention"] = await retention(folder, options, many)
    say("size", f"{found['size'] / many:.0f} bytes a record")
    return found


@contextmanager
def engine(name: str) -> Iterator[Options]:
    if name == "sqlite":
        yield Options()
        return
    from tests.support.postgres import own_server

    with own_server() as server:
        yield Options(database_url=server.database())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engine", choices=("sqlite", "postgres"))
    options = parser.parse_args()
    found: Figures = {"many": options.rows}
    for name in ("sqlite", "postgres") if options.engine is None else (options.engine,):
        folder = Path(tempfile.mkdtemp(prefix="mcpproxy-bench-"))
        say(f"{name}, load {os.getloadavg()[0]:.1f}")
        try:
            with engine(name) as where:
                found[name] = anyio.run(measure, folder / "data", where, options.rows)
                found["recording"] = anyio.run(recording, folder)
            say(f"load {os.getloadavg()[0]:.1f}")
        finally:
            shutil.rmtree(folder)
    report("activity", found)


if __name__ == "__main__":
    main()
