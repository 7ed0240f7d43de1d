"""A server without any SDK: raw newline JSON from a table of tools, some of which misbehave on request.

    python plain.py [--log FILE] [--cancel-log FILE] [--extra N] [--tools FILE] [--page N] [--pid-file FILE]

`--log` gets one JSON line for each `tools/call` received, synced, so that a test can prove what was never sent.
It speaks the handshake era only; `plain_http.py` serves the same over both HTTP transports.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Send = Callable[[Any], None]
Raw = Callable[[bytes], None]
STATES = {"t": True, "f": False, "n": None}
HINTS = {"readOnlyHint": "ro", "destructiveHint": "de", "idempotentHint": "idempotent", "openWorldHint": "openworld"}


def schema(**properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}


def tool(
    name: str, description: str, annotations: dict[str, Any] | None = None, /, **properties: str
) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "description": description, "inputSchema": schema(**properties)}
    return {**made, "annotations": annotations} if annotations is not None else made


def hint_tools() -> list[dict[str, Any]]:
    """`hint_<ro>_<de>` for each pair of states, and `idempotent_<s>`, `openworld_<s>`; n leaves the hint out."""
    tools = []
    for read_only, ro in STATES.items():
        for destructive, de in STATES.items():
            hints = {"readOnlyHint": ro, "destructiveHint": de}
            tools.append(hint_tool(f"hint_{read_only}_{destructive}", hints))
    for hint in ("idempotentHint", "openWorldHint"):
        tools.extend(hint_tool(f"{HINTS[hint]}_{state}", {hint: value}) for state, value in STATES.items())
    return tools


def hint_tool(name: str, hints: dict[str, bool | None]) -> dict[str, Any]:
    said = {hint: value for hint, value in hints.items() if value is not None}
    return tool(name, f"Declares {said or 'nothing'}.", said or None)


DRAFT = {
    **tool("draft", "Carries keys that no SDK knows.", {"readOnlyHint": True, "draftHint": {"level": [1, None, 2.5]}}),
    "x-unknown": {"kept": True},
    "big": 123456789012345678901234567890,
}
TOOLS = [
    *hint_tools(),
    DRAFT,
    tool("echo", "Gives its arguments back.", {"readOnlyHint": True}, text="string"),
    tool("write_note", "Pretends to write.", {"readOnlyHint": False, "destructiveHint": False}, text="string"),
    tool("delete_note", "Pretends to delete.", {"destructiveHint": True}, text="string"),
    tool("slow", "Answers after some seconds.", {"readOnlyHint": True}, seconds="number"),
    tool("fail", "Gives a result that is an error.", {"readOnlyHint": True}),
    tool("error", "Answers with a JSON-RPC error.", {"readOnlyHint": True}),
    tool("huge", "Answers with that many bytes.", {"readOnlyHint": True}, bytes="integer"),
    tool("wrong_id", "Answers with an id nobody used.", {"readOnlyHint": True}),
    tool("twice", "Answers twice.", {"readOnlyHint": True}),
    tool("never", "Never answers.", {"readOnlyHint": True}),
    tool("garbage", "Prints junk, then answers.", {"readOnlyHint": True}),
    tool(
        "flood",
        "Prints junk until a file is there, and says how many lines.",
        {"readOnlyHint": True},
        until="string",
    ),
    tool("invalid", "Answers with broken JSON.", {"readOnlyHint": True}),
    tool("progress", "Reports progress, then answers.", {"readOnlyHint": True}, steps="integer"),
    tool("ask", "Asks the client for something first.", {"readOnlyHint": True}, method="string"),
    tool("environment", "Gives its environment.", {"readOnlyHint": True}),
    tool("add_tool", "Adds a tool and says so.", {"readOnlyHint": False, "destructiveHint": False}, name="string"),
    tool("die", "Ends the process at once.", {"destructiveHint": True}),
]


class Plain:
    """The server itself; whoever carries the bytes gives it messages and takes what it sends."""

    def __init__(self, log: str | None = None, cancel_log: str | None = None, extra: int = 0, page: int = 0) -> None:
        self.log, self.cancel_log, self.page = log, cancel_log, page
        self.tools = [*TOOLS, *(tool(f"extra_{n}", f"Number {n}.", {"readOnlyHint": True}) for n in range(extra))]
        self.answers: dict[Any, tuple[threading.Event, list[Any]]] = {}
        self.announce: Send = lambda message: None

    def handle(self, message: dict[str, Any], send: Send, raw: Raw) -> None:
        method, request_id = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if method is None:
            self._answered(message)
        elif request_id is None:
            if method == "notifications/cancelled":
                record(self.cancel_log, params)
        elif method == "initialize":
            send(result(request_id, self._welcome(params)))
        elif method == "ping":
            send(result(request_id, {}))
        elif method == "tools/list":
            send(result(request_id, self._list(params)))
        elif method == "tools/call":
            record(self.log, params)
            self._call(request_id, params, send, raw)
        else:
            send(error(request_id, -32601, f"no such method: {method}"))

    def _welcome(self, params: dict[str, Any]) -> dict[str, Any]:
        capabilities = {"tools": {"listChanged": True}, "experimental": {"x": {}}}
        return {"protocolVersion": params.get("protocolVersion"), "capabilities": capabilities,
                "serverInfo": {"name": "plain", "version": "1"}, "instructions": "Be plain."}  # fmt: skip

    def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        if not self.page:
            return {"tools": self.tools}
        start = int(params.get("cursor") or 0)
        page: dict[str, Any] = {"tools": self.tools[start : start + self.page]}
        if start + self.page < len(self.tools):
            page["nextCursor"] = str(start + self.page)
        return page

    def _call(self, request_id: Any, params: dict[str, Any], send: Send, raw: Raw) -> None:
        name, args = params.get("name"), params.get("arguments") or {}
        special = getattr(self, f"_do_{name}", None)
        if special is not None:
            special(request_id, params, args, send, raw)
        elif any(each["name"] == name for each in self.tools):
            send(result(request_id, text(json.dumps(args), structuredContent={"args": args}, draftResult={"kept": 1})))
        else:
            send(error(request_id, -32602, f"Unknown tool: {name}"))

    def _do_slow(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        """After these seconds, or as soon as there is the file `until`."""
        end, until = time.monotonic() + float(args.get("seconds", 1)), args.get("until")

        def answer() -> None:
            while (left := end - time.monotonic()) > 0 and not (until and os.path.exists(until)):
                time.sleep(min(left, 0.02) if until else left)
            send(result(request_id, text("slow")))

        background(answer)

    def _do_fail(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        send(result(request_id, text("it did not work", isError=True)))

    def _do_error(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        send(error(request_id, -32050, "the plain server refuses", {"why": "asked to"}))

    def _do_huge(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        send(result(request_id, text("x" * int(args["bytes"]))))

    def _do_wrong_id(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        send(result(987654321, text("for nobody")))

    def _do_twice(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        send(result(request_id, text("first")))
        send(result(request_id, text("second")))

    def _do_never(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        return

    def _do_garbage(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        for junk in (b"not json at all", b"{", b"[1,2", b"\xff\xfe\x00", b"null", b"42", b'{"id":true}', b"[]"):
            raw(junk)
        send(result(request_id, text("after the garbage")))

    def _do_flood(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        written = 0
        while not Path(args["until"]).exists():
            raw(b"junk\n" * 999 + b"junk")
            written += 1000
        send(result(request_id, text(str(written))))

    def _do_invalid(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        raw(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{' % request_id)

    def _do_progress(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        token = (params.get("_meta") or {}).get("progressToken")
        for step in range(int(args.get("steps", 3))):
            told = {"progressToken": token, "progress": step, "total": args.get("steps"), "draftField": step}
            if token is not None:
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        send(result(request_id, text("done")))

    def _do_ask(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        answered, box = self.answers[f"ask-{request_id}"] = (threading.Event(), [])
        send({"jsonrpc": "2.0", "id": f"ask-{request_id}", "method": args.get("method", "ping"), "params": {}})

        def relay() -> None:
            answered.wait(60)
            send(result(request_id, text(json.dumps(box))))

        background(relay)

    def _do_environment(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        send(result(request_id, text(json.dumps(dict(os.environ)))))

    def _do_add_tool(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        self.tools = [*self.tools, tool(args["name"], "Came later.", {"readOnlyHint": True})]
        self.announce({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        send(result(request_id, text("added")))

    def _do_die(self, request_id: Any, params: Any, args: Any, send: Send, raw: Raw) -> None:
        print("dying as I was told", file=sys.stderr, flush=True)
        os._exit(3)

    def _answered(self, message: dict[str, Any]) -> None:
        waiting = self.answers.pop(message.get("id"), None)
        if waiting:
            waiting[1].append(message)
            waiting[0].set()


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def result(request_id: Any, value: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(request_id: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}


def record(path: str | None, entry: Any) -> None:
    if path is None:
        return
    with open(path, "a") as file:
        file.write(json.dumps(entry) + "\n")
        file.flush()
        os.fsync(file.fileno())


def background(work: Callable[[], Any]) -> None:
    threading.Thread(target=work, daemon=True).start()


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log")
    parser.add_argument("--cancel-log")
    parser.add_argument("--extra", type=int, default=0)
    parser.add_argument("--tools", type=Path, help="a JSON list of more tools, which answer nothing")
    parser.add_argument("--page", type=int, default=0)
    parser.add_argument("--pid-file")
    return parser


def made(args: argparse.Namespace) -> Plain:
    record_pid(args.pid_file)
    server = Plain(args.log, args.cancel_log, args.extra, args.page)
    server.tools += json.loads(args.tools.read_bytes()) if args.tools else []
    return server


def record_pid(path: str | None) -> None:
    if path:
        record(path, os.getpid())


def serve(server: Plain) -> None:
    lock = threading.Lock()

    def raw(line: bytes) -> None:
        with lock:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    def send(message: Any) -> None:
        raw(json.dumps(message).encode())

    server.announce = send
    for line in sys.stdin.buffer:
        server.handle(json.loads(line), send, raw)


if __name__ == "__main__":
    serve(made(options().parse_args()))
