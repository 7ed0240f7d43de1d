"""How long one hostile peer can hold up everybody else's calls.

    python -m tests.bench.silence [--quick] [--only NAME ...] [--list] [--limit 50] [--json FILE]
    python -m tests.bench.silence --only sse-empty-lines --only args-lists

A gateway in a process of its own; beside it a process that calls a quiet server every few milliseconds, and one peer
after the other that does its worst: a server that answers with too much of something (`tests/servers/overwhelm.py`), or
a client. For each input it prints

    loop    the longest time for which the gateway's event loop was busy with its own work, without a turn for others,
            as a watchdog inside the gateway saw it
    call    the longest time for which one of the quiet calls was held up. No more is counted than the gateway worked in
            that time, and nothing for which it waited for a processor: that is the doing of a busy machine
    wall    the longest of these calls by the clock, with whatever the machine did

and at the end the worst. The exit status is 1 where a call or a turn was held up for longer than the limit (50 ms).
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.watched_gateway import FIGURES, shared
from tests.servers.overwhelm import ANSWERS, BODIES, FLOODS, LISTS, keys, many
from tests.support.gateway import SERVERS, Running, gateway, python_server
from tests.support.wire import ACCEPT, MODERN, Wire

QUIET = {"name": "quiet:echo", "args": {"n": 1}, "intent": {"operation_type": "read"}}
PAUSE = 0.004
META = "io.modelcontextprotocol"
LONGEST = 8.0
"""Seconds that an input may go on for."""


# The calls that must not be held up. In a process of their own: this one is busy being hostile.


def message(tool: str, arguments: Any, request_id: int = 1, **extra: Any) -> bytes:
    meta = {
        f"{META}/protocolVersion": MODERN,
        f"{META}/clientInfo": {"name": "bench", "version": "1"},
        f"{META}/clientCapabilities": {},
        **extra,
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}).encode()


def headers_of(tool: str) -> dict[str, str]:
    return {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}


def worked(pid: int) -> tuple[float, float]:
    """Processor seconds of all threads of a process, and for how long its first one and we ourselves had no processor
    though we wanted one."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
    waited = sum(int(Path(f"/proc/{each}/schedstat").read_text().split()[1]) for each in (pid, "self"))
    return total / 1e9, waited / 1e9


def probe(port: int, pid: int) -> None:
    """Calls for ever. At each line on stdin, tells what was since the last one."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers, calls = headers_of("call_tool_read"), []
    asked = threading.Event()
    threading.Thread(target=lambda: [asked.set() for _ in sys.stdin], daemon=True).start()
    for number in itertools.count(1):
        body = message("call_tool_read", QUIET, number)
        before, begun = worked(pid), time.perf_counter()
        connection.request("POST", "/mcp", body, headers)
        said = connection.getresponse().read()
        took, after = time.perf_counter() - begun, worked(pid)
        assert b'"isError":true' not in said and b'"error"' not in said, said[:500]
        calls.append((took, after[0] - before[0], after[1] - before[1]))
        if asked.is_set():
            asked.clear()
            print(json.dumps(calls), flush=True)
            calls = []
        time.sleep(PAUSE)


# The peers that do their worst.


@dataclass
class Scene:
    """What an input may use."""

    running: Running
    wire: Wire
    port: int
    web: str

    def call(self, server: str, mode: str) -> None:
        """A call that this server answers as `mode` says."""
        arguments = {"name": f"{server}:do", "args": {"mode": mode}, "intent": {"operation_type": "read"}}
        self.send(message("call_tool_read", arguments))

    def send(self, body: bytes, path: str = "/mcp", headers: dict[str, str] | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("POST", path, body, headers or headers_of("call_tool_read"))
            return connection.getresponse().read()
        return b""

    def raw(self, *blocks: bytes, answer: bool = True) -> None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=LONGEST) as connection,
        ):
            for block in blocks:
                connection.sendall(block)
            if answer:
                connection.recv(65_536)

    def attached(self, *lines: bytes) -> None:
        """Lines on the private socket."""
        where = json.loads((self.running.data_dir / "gateway.json").read_text())["socket"]
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LONGEST)
            connection.connect(where)
            connection.sendall(b'{"surface":"gate"}\n')
            connection.recv(4096)
            for line in lines:
                connection.sendall(line + b"\n")
            connection.sendall(b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n')
            connection.recv(65_536)

    def connect(self, *flags: str, **config: Any) -> None:
        """A server that is hostile when it is connected."""
        given = config or python_server("overwhelm.py", *flags)
        self.running.post("/servers", {"name": "guest", "config": given})
        self.settle()
        self.running.client.delete("/api/v1/servers/guest")

    def settle(self) -> None:
        end = time.monotonic() + LONGEST
        while time.monotonic() < end:
            rows = self.running.get("/servers")["servers"]
            if next(row for row in rows if row["name"] == "guest")["state"] in ("connected", "failed"):
                break
            time.sleep(0.05)
        time.sleep(0.3)


Input = Callable[[Scene], None]


@dataclass(frozen=True)
class Lists:
    """An agent that wants a list of a server with very long ones, three times, before and after the server has listed
    other tools. With `globs`, by a token of so many."""

    method: str
    path: str = "/mcp/direct"
    listing: str = "new-names"
    globs: tuple[str, ...] = ()
    params: tuple[tuple[str, Any], ...] = ()

    def prepare(self, scene: Scene) -> None:
        """What is no part of the figures: the server connects."""
        given = python_server("overwhelm.py", "--list", self.listing)
        scene.running.post("/servers", {"name": "guest", "config": given})
        scene.settle()
        time.sleep(1)

    def __call__(self, scene: Scene) -> None:
        named = f"t{next(TOKENS)}"
        scope = {"tools": list(self.globs)} if self.globs else {}
        token = scene.running.post("/tokens", {"name": named, **scope}).json()["token"] if self.globs else None
        wire = Wire(f"{scene.running.url}{self.path}", token=token)
        with contextlib.closing(wire.http):
            for again in range(3):
                said = wire.send(self.method, dict(self.params))
                assert "result" in said[-1] or self.method == "prompts/get", said
                if again == 0:
                    scene.running.post("/servers/guest/restart")
                    scene.settle()

    def clean_up(self, scene: Scene) -> None:
        scene.running.client.delete("/api/v1/servers/guest")


TOKENS = itertools.count(1)
GLOBS = tuple(
    glob
    for n in range(50)
    for glob in (f"page{n}?_tool{n}*", f"*tool{n}_o[f-g]*", f"*_x{n}?_*", f"*{n}*_of_this_server")
)
SEARCH = (("name", "retrieve_tools"), ("arguments", {"query": "a tool of this server"}))
SERVER = "/mcp/s/guest"
HEAD = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\naccept: application/json\r\n"


def call_of(args: bytes) -> bytes:
    whole = message("call_tool_read", {"name": "busy:echo", "args": 0, "intent": {"operation_type": "read"}})
    return whole.replace(b'"args": 0', b'"args": ' + args)


def in_text(text: bytes) -> bytes:
    whole = {"name": "busy:echo", "args_json": text.decode(), "intent": {"operation_type": "read"}}
    return message("call_tool_read", whole)


def args(value: bytes) -> Input:
    return lambda scene: consume(scene.send(call_of(b'{"n":' + value + b"}")))


def consume(_: object) -> None:
    return


def tool(name: str, arguments: Any) -> Input:
    return lambda scene: consume(scene.send(message(name, arguments), headers=headers_of(name)))


def meta(value: Any) -> Input:
    return lambda scene: consume(scene.send(message("call_tool_read", QUIET, **{"x": value})))


def connections(scene: Scene, number: int, said: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(number):
            with contextlib.suppress(OSError):
                each = stack.enter_context(socket.create_connection(("127.0.0.1", scene.port), timeout=2))
                each.sendall(said)
        time.sleep(1)


def rest(path: str, body: Any = None) -> Input:
    def ask(scene: Scene) -> None:
        if body is None:
            scene.running.client.get(f"/api/v1{path}")
        else:
            headers = {"content-type": "application/json"}
            scene.running.client.post(f"/api/v1{path}", content=body, headers=headers)

    return ask


def read_on(scene: Scene) -> None:
    """Long results of every shape, read on, and searched for what is everywhere and for what is nowhere."""
    for mode in ("json-in-text-12MB", "text-15MB", "keys-most", "json-in-text-12MB"):
        wanted = {"name": "pipe:do", "args": {"mode": mode}, "intent": {"operation_type": "read"}}
        said = json.loads(scene.send(message("call_tool_read", wanted)) or b"{}")
        cut = said.get("result", {}).get("_meta", {}).get("mcpproxy/cut")
        if cut is None:
            continue
        for wish in (
            {"from": cut["from"]},
            {"from": cut["total"] // 2},
            {"query": "a"},
            {"query": "1 zz"},
            {"query": "b 9"},
        ):
            scene.send(message("read_result", {"id": cut["id"], **wish}), headers=headers_of("read_result"))


def unread(scene: Scene) -> None:
    """Many large answers that nobody reads."""
    blocks = message("retrieve_tools", {"query": "do echo"})
    head = "".join(f"{name}: {value}\r\n" for name, value in headers_of("retrieve_tools").items()).encode()
    whole = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n%bcontent-length: %d\r\n\r\n%b" % (head, len(blocks), blocks)
    scene.raw(whole * 2_000, answer=False)


CLIENTS: dict[str, Input] = {
    "args-lists": args(many(b"[]", 4_000_000)),
    "args-objects": args(many(b"{}", 4_000_000)),
    "args-strings": args(many(b'""', 4_000_000)),
    "args-numbers": args(many(b"1", 4_000_000)),
    "args-lists-most": args(many(b"[]", 72_000)),
    "args-objects-most": args(many(b'{"a":1}', 130_000)),
    "args-keys-most": args(keys(16_000)),
    "args-text-4MB": args(b'"' + b"x" * 4_000_000 + b'"'),
    "args-escapes-4MB": args(b'"' + b"\\n" * 2_000_000 + b'"'),
    "args-not-ascii-4MB": args(b'"' + "漢é".encode() * 800_000 + b'"'),
    "args-lists-in-lists": args(many(b"[[[]]]", 84_000)),
    "args-lists-30-deep": args(many(b"[" * 30 + b"]" * 30, 94_000)),
    "args-deep": args(b"[" * 500_000 + b"]" * 500_000),
    "args-huge-number": args(b"9" * 3_000_000),
    "args-floats": args(many(b"1e308", 4_000_000)),
    "args-duplicate-keys": args(b"{" + b",".join([b'"a":1'] * 400_000) + b"}"),
    "args-half-surrogates": args(b'"' + b"\\ud800" * 600_000 + b'"'),
    "args-json-lists": lambda scene: consume(scene.send(in_text(b'{"n":' + many(b"[]", 3_900_000) + b"}"))),
    "args-json-lists-most": lambda scene: consume(scene.send(in_text(b'{"n":' + many(b"[]", 72_000) + b"}"))),
    "args-json-deep": lambda scene: consume(scene.send(in_text(b"[" * 1_000_000))),
    "args-json-quotes": lambda scene: consume(scene.send(in_text(many(b'""', 1_900_000)))),
    "args-secrets-60KB": args(json.dumps([f"password=hunter{n} token: ghp_{n:036d}" for n in range(1_000)]).encode()),
    "names-4MB": tool("call_tool_read", {"name": "x" * 4_000_000, "args": {}}),
    "names-of-colons": tool("call_tool_read", {"name": "a:" * 1_900_000, "args": {}}),
    "method-4MB": lambda scene: consume(scene.send(b'{"jsonrpc":"2.0","id":1,"method":"%s"}' % (b"x" * 4_000_000))),
    "id-4MB": lambda scene: consume(scene.send(b'{"jsonrpc":"2.0","id":"%s","method":"ping"}' % (b"x" * 4_000_000))),
    "intent-4MB": tool("call_tool_read", {**QUIET, "intent": {"operation_type": "read", "reason": "é" * 1_900_000}}),
    "intent-text-4MB": tool("call_tool_read", {**QUIET, "intent": "[" * 3_900_000}),
    "meta-4MB": meta("x" * 4_000_000),
    "meta-lists": meta([[]] * 900_000),
    "unknown-keys": tool("call_tool_read", {f"k{n}": n for n in range(30_000)}),
    "batch": lambda scene: consume(scene.send(many(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 4_000_000))),
    "not-json": lambda scene: consume(scene.send(b"[" * 4_000_000)),
    "blank": lambda scene: consume(scene.send(b" " * 4_100_000 + b"1")),
    "retrieve-4MB": tool("retrieve_tools", {"query": "délete é " * 200_000}),
    "retrieve-words": tool("retrieve_tools", {"query": " ".join(f"delete{n}x create{n}y" for n in range(20_000))}),
    "retrieve-one-word": tool("retrieve_tools", {"query": "aB" * 1_900_000}),
    "read-on": read_on,
    "request-capability": tool("request_capability", {"rationale": "x" * 3_900_000, "mcp_name": "y"}),
    "request-state": lambda scene: consume(
        scene.send(message("call_tool_read", QUIET)[:-2] + b',"requestState":"%s"}}' % (b"A" * 3_900_000))
    ),
    "responses": lambda scene: consume(
        scene.send(message("call_tool_read", QUIET)[:-2] + b',"inputResponses":%s}}' % keys(16_000))
    ),
    "headers": lambda scene: scene.raw(HEAD + b"a: b\r\n" * 20_000 + b"\r\n"),
    "headers-endless": lambda scene: scene.raw(HEAD, *[b"a: b\r\n" * 10_000] * 100),
    "request-line": lambda scene: scene.raw(b"GET /" + b"%41" * 100_000 + b" HTTP/1.1\r\n\r\n"),
    "one-byte-chunks": lambda scene: scene.raw(
        HEAD + b"transfer-encoding: chunked\r\n\r\n", *[b"1\r\n \r\n" * 40_000] * 60, b"0\r\n\r\n"
    ),
    "pipelined": lambda scene: scene.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 100_000),
    "pipelined-posts": lambda scene: scene.raw((HEAD + b"content-length: 2\r\n\r\n{}") * 20_000),
    "half-bodies": lambda scene: connections(scene, 300, HEAD + b"content-length: 4000000\r\n\r\n" + b"[" * 60_000),
    "connections": lambda scene: connections(scene, 800, b""),
    "heads-unfinished": lambda scene: connections(scene, 300, HEAD),
    "answers-unread": unread,
    "attached-empty-lines": lambda scene: scene.attached(b"\n" * 3_000_000),
    "attached-blank-lines": lambda scene: scene.attached(b" \n" * 1_000_000),
    "attached-garbage": lambda scene: scene.attached(b"x\n" * 100_000),
    "attached-pings": lambda scene: scene.attached(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 20_000),
    "attached-lists": lambda scene: scene.attached(call_of(many(b"[]", 4_000_000))),
    "attached-one-line": lambda scene: scene.attached(*[b"x" * 1_000_000] * 10),
    "rest-search": rest("/activity?q=" + "a%25b_" * 150),
    "rest-tools-search": rest("/tools?q=" + "delete%20" * 100),
    "rest-lists": rest("/call", b'{"variant":"read","name":"busy:echo","args":{"n":%s}}' % many(b"[]", 3_900_000)),
    "rest-lists-most": rest("/call", b'{"variant":"read","name":"busy:echo","args":{"n":%s}}' % many(b"[]", 72_000)),
    "rest-deep": rest("/call", b"[" * 4_000_000),
    "rest-query": rest("/activity?" + "q=1&" * 15_000),
}


def stdio(mode: str) -> Input:
    return lambda scene: scene.call("pipe", mode)


def web(mode: str) -> Input:
    return lambda scene: scene.call("web", mode)


def listing(mode: str) -> Input:
    return lambda scene: scene.connect("--list", mode)


def legacy(coding: str) -> Input:
    return lambda scene: scene.connect(url=f"{scene.web}/sse?{coding}", transport="sse")


ODD = ("error-10MB", "batch-100000", "stderr", "endless-line", "drip", "exits")
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "array", "items": {"anyOf": [{"type": "string", "pattern": "^(a+)+$"}] * 40}}},
}
SERVERS_DO: dict[str, Input] = {
    **{f"stdio-{mode}": stdio(mode) for mode in (*ANSWERS, *FLOODS, *ODD)},
    **{f"http-{mode}": web(mode) for mode in (*BODIES, "lists-most", "progress", "medium-answers", "large-answers")},
    **{f"list-{mode}": listing(mode) for mode in LISTS if mode != "none"},
    "sse-empty": legacy("empty"),
}
LISTED: dict[str, Input] = {
    "tools": Lists("tools/list"),
    "tools-one-glob": Lists("tools/list", globs=("*_of_this_server",)),
    "tools-200-globs": Lists("tools/list", globs=GLOBS),
    "tools-200-globs-long-names": Lists("tools/list", listing="longest-names", globs=GLOBS),
    "tools-200-globs-passthrough": Lists("tools/list", SERVER, globs=GLOBS),
    "tools-200-globs-search": Lists("tools/call", "/mcp", globs=GLOBS, params=SEARCH),
    "tools-passthrough": Lists("tools/list", SERVER),
    "prompts": Lists("prompts/list"),
    "prompts-get": Lists("prompts/get", params=(("name", "guest__nowhere"),)),
    "prompts-passthrough": Lists("prompts/list", SERVER),
    "resources": Lists("resources/list"),
    "resources-passthrough": Lists("resources/list", SERVER),
    "templates": Lists("resources/templates/list"),
    "skills": Lists("skills/list"),
    "skills-passthrough": Lists("skills/list", SERVER),
}
INPUTS: dict[str, Input] = {
    **{f"client-{name}": do for name, do in CLIENTS.items()},
    **SERVERS_DO,
    **{f"listed-{name}": do for name, do in LISTED.items()},
}
QUICKLY = (
    "client-args-lists", "client-args-keys-most", "client-read-on", "client-args-text-4MB", "client-args-json-lists",
    "client-attached-empty-lines", "client-one-byte-chunks", "client-pipelined", "client-rest-lists",
    "stdio-lists-30MB", "stdio-keys-most", "stdio-text-15MB", "stdio-escapes-15MB", "stdio-progress", "stdio-empty",
    "stdio-batches-of-nothing-60KB", "http-gzip-events", "http-sse-empty-lines", "http-one-byte-chunks",
    "http-large-answers", "list-large-pages", "list-many", "sse-empty", "listed-tools-200-globs", "listed-prompts",
)  # fmt: skip


# The bench.


@dataclass(frozen=True)
class Row:
    name: str
    loop: float
    call: float
    wall: float
    calls: int


class Bench:
    def __init__(self, scene: Scene, watched: Path, prober: subprocess.Popen[str]) -> None:
        self._scene, self._prober = scene, prober
        self._watched = shared(str(watched))
        self._usual = self._usual_cost = 0.0

    def settle(self) -> None:
        """What a call takes when nobody does anything."""
        time.sleep(1)
        self._since()
        time.sleep(1.5)
        calls, _ = self._since()
        self._usual = statistics.median(took for took, _, _ in calls)
        self._usual_cost = statistics.median(cost for _, cost, _ in calls)
        took, cost = self._usual * 1e3, self._usual_cost * 1e3
        print(f"a quiet call takes {took:.1f} ms, and the gateway works {cost:.1f} ms for it")

    def run(self, name: str) -> Row:
        do = INPUTS[name]
        if isinstance(do, Lists):
            do.prepare(self._scene)
        self._since()
        doing = threading.Thread(target=do, args=(self._scene,), daemon=True)
        doing.start()
        doing.join(LONGEST)
        time.sleep(0.25)
        calls, loop = self._since()
        if isinstance(do, Lists):
            do.clean_up(self._scene)
        held = [min(took - waited - self._usual, cost - self._usual_cost) for took, cost, waited in calls]
        return Row(name, loop, max(held, default=0.0), max((took for took, _, _ in calls), default=0.0), len(calls))

    def _since(self) -> tuple[list[tuple[float, float, float]], float]:
        assert self._prober.stdin and self._prober.stdout
        self._prober.stdin.write("\n")
        self._prober.stdin.flush()
        calls = json.loads(self._prober.stdout.readline() or "[]")
        _, loop, _ = FIGURES.unpack_from(self._watched)
        FIGURES.pack_into(self._watched, 0, 0.0, 0.0, 0.0)
        return calls, loop


def scene_of(folder: Path, stack: ExitStack) -> tuple[Scene, Path]:
    watched = folder / "watched"
    watched.write_bytes(bytes(FIGURES.size))
    command = [sys.executable, str(SERVERS / "overwhelm.py"), "--http", "0"]
    process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    assert process.stdout
    where = f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
    servers = {
        "quiet": python_server("plain.py"),
        "busy": python_server("plain.py"),
        "pipe": python_server("overwhelm.py", timeout=LONGEST),
        "web": {"url": f"{where}/mcp", "timeout": LONGEST},
    }
    config = {"mcpServers": servers, "log": {"level": "error"}, "surfaces": ["gate", "direct", "passthrough"]}
    running = stack.enter_context(
        gateway(
            folder / "data",
            config,
            program=("-m", "tests.bench.watched_gateway"),
            env={"WATCHED_FILE": str(watched)},
        )
    )
    return Scene(running, Wire(running.mcp), int(running.url.rpartition(":")[2]), where), watched


def chosen(only: list[str], quick: bool) -> Iterator[str]:
    for name in INPUTS:
        if (not only and (not quick or name in QUICKLY)) or any(each in name for each in only):
            yield name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="inputs whose names contain this")
    parser.add_argument("--quick", action="store_true", help="a few inputs of each kind")
    parser.add_argument("--list", action="store_true", help="the names of all inputs")
    parser.add_argument("--limit", type=float, default=50.0, help="milliseconds that a call may be held up")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--probe", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.probe:
        probe(*given.probe)
    if given.list:
        print("\n".join(INPUTS))
        return 0
    rows: list[Row] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        scene, watched = scene_of(folder, stack)
        probing = [
            sys.executable,
            "-m",
            "tests.bench.silence",
            "--probe",
            str(scene.port),
            str(scene.running.process.pid),
        ]
        prober = stack.enter_context(
            subprocess.Popen(probing, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(prober.kill)
        bench = Bench(scene, watched, prober)
        bench.settle()
        print(f"{'input':40} {'loop ms':>9} {'call ms':>9} {'wall ms':>9} {'calls':>6}")
        for name in chosen(given.only, given.quick):
            row = bench.run(name)
            rows.append(row)
            late = "  too long" if max(row.loop, row.call) * 1e3 > given.limit else ""
            print(
                f"{row.name:40} {row.loop * 1e3:9.1f} {row.call * 1e3:9.1f} {row.wall * 1e3:9.1f} {row.calls:6}{late}",
                flush=True,
            )
    if not rows:
        print("there is no such input; --list names them")
        return 2
    worst = max(rows, key=lambda row: max(row.loop, row.call))
    print(f"the worst of {len(rows)}: {worst.name}, {max(worst.loop, worst.call) * 1e3:.1f} ms")
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return int(max(worst.loop, worst.call) * 1e3 > given.limit)


if __name__ == "__main__":
    sys.exit(main())
