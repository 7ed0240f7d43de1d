"""A server that says, byte for byte, what a test wants said, and when, over any transport and in either era.

    python scripted.py --log FILE [--modern] [--http PORT | --sse PORT] [--answers FILE] [--name NAME]

It writes down what it hears, and for each call which session it came on. Over HTTP (streamable at /mcp, the oldest
transport at /sse) the first line on stdout is `PORT <n>`, and it ends with its stdin.

Its one tool `play` takes `mark` and `steps`, which are done in order beside all other calls:
    {"own": TEXT}      say this on the call's own stream      {"wait": FILE}   until this file is there
    {"aside": TEXT}    say it beside any call                  {"done": FILE}   make this file
In a TEXT, `$id` is the id of the call. What is not answered by a step is never answered, nor is what was cancelled.
`--answers` names a file with an object, which is read anew for each request: method to the text of its result, and
"before METHOD" to what is said first, on the stream of that request.
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
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).parent))
from heard import MODERN, UNSUPPORTED, end_with_stdin, until_there
from plain import background, error, record

from tests.support.readable import readable

Say = Callable[[str], None]
PLAY = {"name": "play", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
RESULTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": [PLAY]},
    "prompts/list": {"prompts": [{"name": "hello"}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}]},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
}


class Scripted:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.lock = threading.Lock()

    def write_down(self, entry: Any) -> None:
        with self.lock:
            record(self.args.log, entry)

    def hear(self, message: dict[str, Any], session: str, own: Say, aside: Callable[[], Say]) -> None:
        self.write_down(message)
        request_id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method is None or request_id is None:
            return
        if method == "tools/call":
            arguments = params.get("arguments") or {}
            self.write_down({"session": session, "mark": arguments.get("mark")})
            background(lambda: self.play(json.dumps(request_id), arguments.get("steps") or [], own, aside))
        else:
            answers = json.loads(Path(self.args.answers).read_text()) if self.args.answers else {}
            if first := answers.get(f"before {method}"):
                own(first)
            own(self.answer(request_id, method, params, answers.get(method)))

    def play(self, request_id: str, steps: list[dict[str, str]], own: Say, aside: Callable[[], Say]) -> None:
        for step in steps:
            ((kind, what),) = step.items()
            if kind == "wait":
                until_there(what)
            elif kind == "done":
                Path(what).touch()
            else:
                with contextlib.suppress(OSError):
                    (own if kind == "own" else aside())(what.replace("$id", request_id))

    def answer(self, request_id: Any, method: str, params: dict[str, Any], text: str | None) -> str:
        modern = self.args.modern
        if method == "initialize" and modern:
            return json.dumps(error(request_id, UNSUPPORTED, "there is no handshake here", {"supported": [MODERN]}))
        if method == "server/discover" and not modern:
            return json.dumps(error(request_id, -32601, "no such method"))
        text = text or json.dumps(self.result_of(method, params))
        return f'{{"jsonrpc": "2.0", "id": {json.dumps(request_id)}, "result": {text}}}'

    def result_of(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        capabilities = {"tools": {}, "prompts": {}, "resources": {}, "logging": {}}
        if method == "initialize":
            version, info = params.get("protocolVersion"), {"name": self.args.name, "version": "1"}
            return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        if method == "server/discover":
            return {"resultType": "complete", "supportedVersions": [MODERN], "capabilities": capabilities}
        if method == "resources/read":
            found: dict[str, Any] = {"contents": [{"uri": params.get("uri"), "text": f"of {self.args.name}"}]}
        else:
            found = RESULTS.get(method, {})
        return {"resultType": "complete", **found} if self.args.modern else found


def over_stdio(server: Scripted) -> None:
    lock = threading.Lock()

    def say(text: str) -> None:
        with lock:
            sys.stdout.buffer.write(text.encode() + b"\n")
            sys.stdout.buffer.flush()

    for line in sys.stdin.buffer:
        server.hear(json.loads(line), str(os.getpid()), say, lambda: say)
    os._exit(0)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        at = urlsplit(self.path)
        if at.path == "/message":
            session = parse_qs(at.query)["session"][0]
            say = self.server.streams[session].put
            self.server.scripted.hear(message, session, say, lambda: say)
            self.empty(202)
        else:
            self.streamable(message)

    def streamable(self, message: dict[str, Any]) -> None:
        opening = message.get("method") == "initialize" and not self.server.scripted.args.modern
        session = uuid.uuid4().hex if opening else self.headers.get("mcp-session-id") or "none"
        said: queue.Queue[str] = queue.Queue()
        self.server.scripted.hear(message, session, said.put, lambda: self.server.streams[session].put)
        if "id" not in message or "method" not in message:
            self.empty(202)
            return
        self.begin(*([("mcp-session-id", session)] if opening else []))
        try:
            while True:
                each = self.next_of(said)
                self.event(each)
                with contextlib.suppress(ValueError):
                    found = json.loads(each)
                    if "method" not in found and found.get("id") == message["id"]:
                        return
        except OSError:
            self.server.scripted.write_down({"hung up": message["id"]})

    def do_GET(self) -> None:
        said: queue.Queue[str] = queue.Queue()
        if self.path == "/sse":
            session = str(next(self.server.numbers))
            self.server.streams[session] = said
            self.begin()
            self.wfile.write(f"event: endpoint\ndata: /message?session={session}\n\n".encode())
            self.wfile.flush()
        elif self.server.scripted.args.modern:
            self.empty(405)
            return
        else:
            session = self.headers.get("mcp-session-id") or "none"
            self.server.streams[session] = said
            self.begin()
            self.server.scripted.write_down({"listens": session})
        with contextlib.suppress(OSError):
            while True:
                self.event(self.next_of(said))

    def do_DELETE(self) -> None:
        self.empty(200)

    def begin(self, *headers: tuple[str, str]) -> None:
        self.close_connection = True
        self.send_response(200)
        for name, value in (("content-type", "text/event-stream"), ("connection", "close"), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def next_of(self, said: queue.Queue[str]) -> str:
        """Raises `OSError` when the client hangs up first."""
        while True:
            with contextlib.suppress(queue.Empty):
                return said.get(timeout=0.01)
            if readable([self.connection], 0) and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError

    def event(self, text: str) -> None:
        self.wfile.write(b"data: " + text.encode() + b"\n\n")
        self.wfile.flush()

    def empty(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


class Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, scripted: Scripted) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.scripted = scripted
        self.streams: dict[str, queue.Queue[str]] = {}
        self.numbers = itertools.count(1)

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # a client that hung up is no news


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--modern", action="store_true")
    parser.add_argument("--http", type=int)
    parser.add_argument("--sse", type=int)
    parser.add_argument("--answers")
    parser.add_argument("--name", default="scripted")
    args = parser.parse_args()
    scripted = Scripted(args)
    port = args.http if args.http is not None else args.sse
    if port is None:
        over_stdio(scripted)
        return
    site = Site(port, scripted)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    print(f"PORT {site.server_address[1]}", flush=True)
    site.serve_forever()


if __name__ == "__main__":
    main()
