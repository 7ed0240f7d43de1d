"""A hostile web server: it answers each path with exactly the bytes that a test wrote, and remembers what it heard.

On threads of the test's own, because the gateway runs in another process. What it says to anything that a case does not
answer is what a polite server of the handshake era says.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

PATIENCE = 60.0
"""Seconds after which a connection on which nothing comes is given up."""


@dataclass(frozen=True)
class HttpHeard:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        with suppress(ValueError):
            found = json.loads(self.body)
            return found if isinstance(found, dict) else {}
        return {}

    @property
    def asked(self) -> str:
        return str(self.message.get("method"))


CLOSE = object()
"""In an answer: hang up here."""
Answer = Callable[[HttpHeard], "list[Any] | None"]
"""Parts of an answer; None for what a polite server would say."""


@dataclass
class Site:
    url: str
    heard: list[HttpHeard] = field(default_factory=list[HttpHeard])
    connections: int = 0
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    """By the first part of the path."""
    tools: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    """What is listed there, where it is not just `look`."""

    def at(self, case: str) -> list[HttpHeard]:
        return [each for each in self.heard if each.path.split("/")[1].split("?")[0] == case]

    def answer(self, heard: HttpHeard) -> list[Any]:
        case = heard.path.split("/")[1].split("?")[0]
        own = self.answers.get(case)
        found = own(heard) if own is not None else None
        return polite(heard, self.tools.get(case, [LOOK])) if found is None else found


LOOK = {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


def polite(heard: HttpHeard, tools: list[dict[str, Any]]) -> list[Any]:
    message = heard.message
    if heard.method != "POST" or "id" not in message:
        return [response(b"", status="405 No" if heard.method != "POST" else "202 Accepted")]
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "hostile", "version": "1"}},
        "tools/list": {"tools": tools}, "tools/call": {"content": [{"type": "text", "text": "fine"}]}, "ping": {},
    }  # fmt: skip
    if heard.asked not in results:
        error = {"code": -32601, "message": "Method not found"}
        return [response(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())]
    return [response(result_of(heard, results[heard.asked]))]


def result_of(heard: HttpHeard, result: Any = None) -> bytes:
    fine = {"content": [{"type": "text", "text": "fine"}]}
    return json.dumps({"jsonrpc": "2.0", "id": heard.message.get("id"), "result": result or fine}).encode()


def response(body: bytes, *fields: str, status: str = "200 OK", kind: str = "application/json") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *fields)
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@contextmanager
def site(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    found = Site(f"{'https://localhost' if tls else 'http://127.0.0.1'}:{port}")
    open_now: set[socket.socket] = set()

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_now.add(connection)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def serve(connection: socket.socket) -> None:
        found.connections += 1
        try:
            connection.settimeout(PATIENCE)
            stream = tls.wrap_socket(connection, server_side=True) if tls else connection
            with stream, stream.makefile("rb") as reader:
                while (heard := _read(reader)) is not None:
                    found.heard.append(heard)
                    for part in found.answer(heard):
                        if part is CLOSE:
                            return
                        stream.sendall(part)
        except (OSError, ValueError):
            return
        finally:
            open_now.discard(connection)
            connection.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in list(open_now):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def _read(reader: Any) -> HttpHeard | None:
    line = reader.readline()
    if not line.strip():
        return None
    method, path, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while field_ := reader.readline().decode("latin-1").strip():
        name, _, value = field_.partition(":")
        headers[name.lower()] = value.strip()
    return HttpHeard(method, path, headers, reader.read(int(headers.get("content-length", "0"))))
