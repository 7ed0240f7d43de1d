"""A server that writes down everything it hears, in the order in which it comes, before it does anything with it.

    python heard.py --log FILE [--modern] [--http PORT] [--outside] [--hello FILE] [--tools N] [--listing FILE]
                    [--schemas FILE] [--says FILE]

`--log` gets one synced JSON line for each message, so that a test can say what a server was sent and what never was.
`--modern`: the revision of 2026-07-28 only; without it, the handshake era only. `--http`: streamable HTTP at /mcp, the
first line on stdout is `PORT <n>`, and it ends with its stdin; a client that hangs up on a request is written down as
`{"hung up": <id>}`. `--outside`: over HTTP in the handshake era, it asks over the stream of the GET instead of the
call's own. `--hello`: it answers the first question of a connection only when this file is there. `--tools`: that many
more destructive tools, `wipe_<n>`. `--listing`: more tools, from a JSON object of their names and which of `look`,
`put` and `wipe` each says that it is. It is read at each listing; the tool `renew` (read) says that the list changed.
`--schemas`: a JSON object of names and input schemas, read at each listing: reading tools with these, which answer at
once. `--says`: what it says of itself, a JSON object with `tools` (whole, in place of its own; `renew` is there too),
`instructions`, `prompts`, `serverInfo`, `experimental` (a capability) and `beside` (keys beside its tools and prompts),
read each time that it is asked.

Every tool takes `mark`, which says whose call it is, and `until`: it is answered only when this file is there.
    look, put, wipe              read, write and destructive; they answer at once
    look_ask, put_ask, wipe_ask  ask a question first: `input_required` in the modern era, `elicitation/create` in the
                                 other; `rounds` is how often
    report                       (read) tells its progress, then answers
    begin                        (read) says that the work goes on as a task
    deafen                       (read) answers at once, and then reads nothing more until the file is there
In the modern era the prompt `ask` and resources whose uri ends in `ask` ask a question first too.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import queue
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from plain import background, error, record, result, text

from tests.support.readable import readable

Send = Callable[[dict[str, Any]], None]
MODERN = "2026-07-28"
UNSUPPORTED = -32022
HINTS: dict[str, dict[str, bool]] = {
    "look": {"readOnlyHint": True},
    "put": {"readOnlyHint": False, "destructiveHint": False},
    "wipe": {"readOnlyHint": False, "destructiveHint": True},
}
READS = ("report", "begin", "deafen")
QUESTION = {"message": "Really?", "requestedSchema": {"type": "object", "properties": {"answer": {"type": "string"}}}}
PROPERTIES = {"mark": {"type": "string"}, "until": {"type": "string"}, "rounds": {"type": "integer"}}
NAMED = {"resources/read": "uri", "prompts/get": "name"}
NAMED_ANSWERS = {
    "resources/read": {"contents": [{"uri": "note://1", "text": "one"}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}]},
}
LISTS = {
    "resources/list": {"resources": [{"uri": "note://1", "name": "one"}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "note://{n}", "name": "notes"}]},
    "prompts/list": {"prompts": [{"name": "hello"}, {"name": "ask"}]},
}


def tools(more: int) -> list[dict[str, Any]]:
    names = {f"{name}{asks}": hints for name, hints in HINTS.items() for asks in ("", "_ask")}
    names |= dict.fromkeys(READS, HINTS["look"]) | {f"wipe_{n}": HINTS["wipe"] for n in range(more)}
    schema = {"type": "object", "properties": PROPERTIES}
    return [{"name": name, "inputSchema": schema, "annotations": hints} for name, hints in names.items()]


def listed(file: str | None) -> list[dict[str, Any]]:
    if file is None:
        return []
    names = {"renew": "look", **json.loads(Path(file).read_text())}
    schema = {"type": "object", "properties": PROPERTIES}
    return [{"name": name, "inputSchema": schema, "annotations": HINTS[kind]} for name, kind in names.items()]


def with_schemas(file: str | None) -> list[dict[str, Any]]:
    said = json.loads(Path(file).read_text()) if file else {}
    return [{"name": name, "inputSchema": each, "annotations": HINTS["look"]} for name, each in said.items()]


class Heard:
    extensions: Mapping[str, Any] = MappingProxyType({})
    """What it says beside its capabilities."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.tools = tools(args.tools)
        self.listeners: list[tuple[Any, Send]] = []
        self.lock = threading.Lock()
        self.open: dict[Any, queue.Queue[dict[str, Any]]] = {}
        self.questions = itertools.count(1)
        self.aside: Send | None = None
        """The way to the client beside any call, where it has one apart."""
        self.deaf_until: str | None = None

    @property
    def says(self) -> dict[str, Any]:
        return json.loads(Path(self.args.says).read_text()) if self.args.says else {}

    def all_tools(self) -> list[dict[str, Any]]:
        if self.args.says:
            renew = {"name": "renew", "inputSchema": {"type": "object"}, "annotations": HINTS["look"]}
            return [renew, *self.says.get("tools", [])]
        return [*self.tools, *listed(self.args.listing), *with_schemas(self.args.schemas)]

    def write_down(self, entry: Any) -> None:
        with self.lock:
            record(self.args.log, entry)

    def hear(self, message: dict[str, Any], send: Send) -> None:
        self.write_down(message)
        request_id, method = message.get("id"), message.get("method")
        if method is None:
            if (waiting := self.open.pop(request_id, None)) is not None:
                waiting.put(message)
        elif request_id is not None:
            self.answer(request_id, method, message.get("params") or {}, send)

    def answer(self, request_id: Any, method: str, params: dict[str, Any], send: Send) -> None:
        if method in ("initialize", "server/discover"):
            self.greet(request_id, method, params, send)
        elif method == "tools/list":
            send(self.done(request_id, {"tools": self.all_tools(), **self.says.get("beside", {})}))
        elif method == "tools/call":
            self.call(request_id, params, send)
        elif method in NAMED and str(params.get(NAMED[method])).endswith("ask") and self.args.modern:
            send(self.next_round(request_id, params, {}) or self.done(request_id, NAMED_ANSWERS[method]))
        elif method in NAMED:
            send(self.done(request_id, NAMED_ANSWERS[method]))
        elif method == "completion/complete":
            send(self.done(request_id, {"completion": {"values": ["one"]}}))
        elif method == "subscriptions/listen":
            tag = {"io.modelcontextprotocol/subscriptionId": request_id}
            acknowledged = {"notifications": params.get("notifications") or {}, "_meta": tag}
            send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": acknowledged})
            self.listeners.append((request_id, send))
        elif method == "prompts/list" and self.args.says:
            send(self.done(request_id, {"prompts": self.says.get("prompts", []), **self.says.get("beside", {})}))
        else:  # whatever it is, it is done: a test has to see that it never came
            send(self.done(request_id, LISTS.get(method, {})))

    def done(self, request_id: Any, value: dict[str, Any]) -> dict[str, Any]:
        return result(request_id, {"resultType": "complete", **value} if self.args.modern else value)

    def greet(self, request_id: Any, method: str, params: dict[str, Any], send: Send) -> None:
        capabilities = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}, "logging": {}}
        capabilities |= {**self.extensions}
        capabilities |= {key: self.says[key] for key in ("experimental",) if key in self.says}
        if method == "initialize" and self.args.modern:
            said = error(request_id, UNSUPPORTED, "there is no handshake here", {"supported": [MODERN]})
        elif method == "server/discover" and not self.args.modern:
            said = error(request_id, -32601, "no such method")
        elif method == "initialize":
            version, info = params.get("protocolVersion"), {"name": "heard", "version": "1"}
            about = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
            said = result(request_id, {**about, **self.told()})
        else:
            said = self.done(request_id, {"supportedVersions": [MODERN], "capabilities": capabilities, **self.told()})
        self.once_there(self.args.hello, lambda: send(said))

    def told(self) -> dict[str, Any]:
        says = self.says
        told: dict[str, Any] = {"instructions": says["instructions"]} if says.get("instructions") else {}
        if "serverInfo" in says and self.args.modern:
            told["_meta"] = {"io.modelcontextprotocol/serverInfo": says["serverInfo"]}
        elif "serverInfo" in says:
            told["serverInfo"] = says["serverInfo"]
        return told

    def call(self, request_id: Any, params: dict[str, Any], send: Send) -> None:
        name, args = params.get("name", ""), params.get("arguments") or {}
        done = self.done(request_id, text(json.dumps({"did": name, "mark": args.get("mark")})))
        if name == "renew":
            self.renew(send)
            send(done)
        elif name == "deafen":
            self.deaf_until = args["until"]
            send(done)
        elif name == "begin":
            task = {"taskId": "task-1", "status": "working", "ttlMs": 60_000, "pollIntervalMs": 1000}
            now = "2026-07-28T00:00:00Z"
            both = {"createdAt": now, "lastUpdatedAt": now, **task}
            send(result(request_id, {"resultType": "task", **both, "task": both}))
        elif name == "report":
            token = (params.get("_meta") or {}).get("progressToken")
            if token is not None:
                told = {"progressToken": token, "progress": 1, "total": 2}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
            send(done)
        elif name.endswith("_ask") and self.args.modern:
            send(self.next_round(request_id, params, args) or done)
        elif name.endswith("_ask"):
            background(lambda: self.ask(args, done, send))
        else:
            self.once_there(args.get("until"), lambda: send(done))

    def renew(self, send: Send) -> None:
        said = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}}
        if not self.args.modern:
            send(said)
        for request_id, listener in self.listeners:
            listener({**said, "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": request_id}}})

    def next_round(self, request_id: Any, params: dict[str, Any], args: dict[str, Any]) -> dict[str, Any] | None:
        """The next question, with how many were asked as state; None when that is enough. It believes whatever it is
        sent: only a gateway can hold anybody to anything here."""
        state = params.get("requestState")
        asked = int(state.removeprefix("asked-")) if isinstance(state, str) else 0
        if asked >= args.get("rounds", 1) or (state is None and "inputResponses" in params):
            return None
        question = {"method": "elicitation/create", "params": QUESTION}
        more = {"inputRequests": {"one": question}, "requestState": f"asked-{asked + 1}"}
        return result(request_id, {"resultType": "input_required", **more})

    def ask(self, args: dict[str, Any], done: dict[str, Any], send: Send) -> None:
        for _ in range(args.get("rounds", 1)):
            number = f"q{next(self.questions)}"
            box: queue.Queue[dict[str, Any]] = queue.Queue()
            self.open[number] = box
            way = self.aside if self.args.outside and self.aside else send
            way({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": QUESTION})
            answer = box.get()
            if (answer.get("result") or {}).get("action") != "accept":
                send(result(done["id"], text("nobody said yes", isError=True)))
                return
        send(done)

    def once_there(self, file: str | None, what: Callable[[], None]) -> None:
        if not file:
            what()
            return

        def wait() -> None:
            until_there(file)
            with contextlib.suppress(OSError):
                what()

        background(wait)


def until_there(file: str) -> None:
    while not os.path.exists(file):
        time.sleep(0.01)


def over_stdio(server: Heard) -> None:
    lock = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with lock:
            sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()

    fd, rest = sys.stdin.fileno(), b""
    while chunk := os.read(fd, 4096):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            server.hear(json.loads(line), send)
            if server.deaf_until is not None:
                until_there(server.deaf_until)
                server.deaf_until = None
    os._exit(0)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        self.server.heard.write_down({"of": message.get("id"), "headers": dict(self.headers.items())})
        if "id" not in message or "method" not in message:
            self.server.heard.hear(message, lambda said: None)
            self.empty(202)
            return
        said: queue.Queue[dict[str, Any]] = queue.Queue()
        self.server.heard.hear(message, said.put)
        self.begin(message["method"] == "initialize")
        try:
            while True:
                each = self.next_of(said)
                self.event(each)
                if each.get("id") == message["id"] and "method" not in each:
                    break
        except OSError:
            self.server.heard.write_down({"hung up": message["id"]})

    def do_GET(self) -> None:
        said: queue.Queue[dict[str, Any]] = queue.Queue()
        if self.server.heard.args.modern:
            self.empty(405)
            return
        self.server.heard.aside = said.put
        self.begin(False)
        with contextlib.suppress(OSError):
            while True:
                self.event(self.next_of(said))

    def do_DELETE(self) -> None:
        self.empty(200)

    def begin(self, opening: bool) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        if opening:
            self.send_header("mcp-session-id", uuid.uuid4().hex)
        self.end_headers()
        self.wfile.flush()

    def next_of(self, said: queue.Queue[dict[str, Any]]) -> dict[str, Any]:
        """Raises `OSError` when the client hangs up first."""
        while True:
            with contextlib.suppress(queue.Empty):
                return said.get(timeout=0.01)
            if readable([self.connection], 0) and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError

    def event(self, message: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(message).encode() + b"\n\n")
        self.wfile.flush()

    def empty(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


class Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, heard: Heard) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.heard = heard

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # a client that hung up is no news


def end_with_stdin() -> None:
    """A test that dies must not leave this behind."""
    sys.stdin.buffer.read()
    os._exit(0)


def main(kind: type[Heard] = Heard) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--modern", action="store_true")
    parser.add_argument("--http", type=int)
    parser.add_argument("--outside", action="store_true")
    parser.add_argument("--hello")
    parser.add_argument("--tools", type=int, default=0)
    parser.add_argument("--listing")
    parser.add_argument("--schemas")
    parser.add_argument("--says")
    args = parser.parse_args()
    heard = kind(args)
    if args.http is None:
        over_stdio(heard)
        return
    site = Site(args.http, heard)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    print(f"PORT {site.server_address[1]}", flush=True)
    site.serve_forever()


if __name__ == "__main__":
    main()
