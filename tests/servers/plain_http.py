"""`plain.py` over HTTP, standard library only: `--http PORT` (streamable, at /mcp) or `--sse PORT` (legacy, at /sse).

Port 0 takes a free one. The first line on stdout is `PORT <n>`. Over streamable HTTP: `--answer json|events`
says how it answers, `--session` hands out a session id, and a POST to /forget makes it forget every session.
Every request's headers are recorded in `--header-log`.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from plain import Plain, made, options, record

NOTIFIES = b'{"jsonrpc": "2.0", "method"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        record(self.server.header_log, {name.lower(): value for name, value in self.headers.items()})
        if self.path == "/forget":
            self.server.sessions.clear()
            self.plain(200)
        elif self.path == "/moved":
            self.plain(307, {"location": "/mcp"})
        elif self.path == "/elsewhere":
            self.plain(307, {"location": "http://127.0.0.2:9/mcp?secret=1"})
        elif self.path.startswith("/messages"):
            self.legacy_message(body)
        elif self.path == "/mcp":
            self.message(json.loads(body))
        else:
            self.plain(404)

    def do_DELETE(self) -> None:
        self.server.sessions.discard(self.headers.get("mcp-session-id"))
        record(self.server.header_log, {"deleted": self.headers.get("mcp-session-id")})
        self.plain(200)

    def do_GET(self) -> None:
        if self.path == "/sse":
            self.stream(f"/messages?session_id={uuid.uuid4().hex}")
        elif self.path == "/mcp" and self.headers.get("mcp-session-id") in self.server.sessions:
            self.stream(None)
        else:
            self.plain(405)

    def plain(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def message(self, message: dict[str, Any]) -> None:
        session = self.headers.get("mcp-session-id")
        opening = message.get("method") == "initialize"
        if self.server.wants_session and not opening and session not in self.server.sessions:
            self.plain(404 if session else 400)
        elif "id" not in message or "method" not in message:
            self.server.plain.handle(message, lambda answer: None, lambda line: None)
            self.plain(202)
        else:
            self.relay(message, opening)

    def relay(self, message: dict[str, Any], opening: bool) -> None:
        """Collect what the server sends until the answer is there; a tool that never answers holds the request."""
        said: queue.Queue[bytes] = queue.Queue()
        self.server.plain.handle(message, lambda answer: said.put(json.dumps(answer).encode()), said.put)
        self.send_response(200)
        if opening and self.server.wants_session:
            session = uuid.uuid4().hex
            self.server.sessions.add(session)
            self.send_header("mcp-session-id", session)
        if self.server.answers == "json":
            self.answer_json(said)
        else:
            self.answer_events(said, message["id"])

    def answer_json(self, said: queue.Queue[bytes]) -> None:
        body = said.get()
        while body.startswith(NOTIFIES):
            body = said.get()
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_events(self, said: queue.Queue[bytes], request_id: Any) -> None:
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        while True:
            body = said.get()
            self.wfile.write(b"event: message\r\ndata: " + body + b"\r\n\r\n")
            self.wfile.flush()
            if b'"id": %d,' % request_id in body[:80]:
                break
        self.close_connection = True

    def stream(self, endpoint: str | None) -> None:
        """A stream of what the server says unasked; the legacy transport answers on it too. Whoever sees that it is
        open hears everything from then on."""
        box: queue.Queue[bytes] = queue.Queue()
        self.server.plain.announce = lambda message: box.put(json.dumps(message).encode())
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        if endpoint is not None:
            self.server.boxes[endpoint] = box
            self.wfile.write(f"event: endpoint\ndata: {endpoint}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True
        while True:
            self.wfile.write(b"data: " + box.get() + b"\n\n")
            self.wfile.flush()

    def legacy_message(self, body: bytes) -> None:
        box = self.server.boxes[self.path]
        self.plain(202)
        self.server.plain.handle(json.loads(body), lambda answer: box.put(json.dumps(answer).encode()), box.put)


class Site(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, plain: Plain, answers: str, wants_session: bool, header_log: str | None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.plain, self.answers, self.wants_session = plain, answers, wants_session
        self.header_log = header_log
        self.sessions: set[str | None] = set()
        self.boxes: dict[str, queue.Queue[bytes]] = {}

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # a client that hung up is no news


def main() -> None:
    parser = options()
    parser.add_argument("--http", type=int)
    parser.add_argument("--sse", type=int)
    parser.add_argument("--answer", choices=("json", "events"), default="json")
    parser.add_argument("--session", action="store_true")
    parser.add_argument("--header-log")
    args = parser.parse_args()
    port = args.http if args.http is not None else args.sse
    site = Site(port or 0, made(args), args.answer, args.session, args.header_log)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    print(f"PORT {site.server_address[1]}", flush=True)
    site.serve_forever()


def end_with_stdin() -> None:
    """A test that dies must not leave this behind."""
    sys.stdin.buffer.read()
    import os

    os._exit(0)


if __name__ == "__main__":
    main()
