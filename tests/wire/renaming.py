"""A proxy for the official suite at the direct surface: it puts the server's name before the names that the suite
knows, and takes it off again."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

PREFIX = "everything__"
REQUEST_HEADERS = (
    "content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-session-id", "last-event-id", "host", "origin",
)  # fmt: skip
ANSWER_HEADERS = ("content-type", "mcp-session-id", "allow")
OWN_TOOL = "request_capability"
"""The surface's own tool has no server's name in front."""
NAMED = ("tools/call", "prompts/get")


class Renaming(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RenamingProxy

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = self._headers()
        with contextlib.suppress(ValueError, KeyError, TypeError):
            message = json.loads(body)
            if message.get("method") in NAMED and message["params"]["name"] != OWN_TOOL:
                message["params"]["name"] = PREFIX + message["params"]["name"]
                if "mcp-name" in self.headers:
                    headers["mcp-name"] = PREFIX + headers["mcp-name"]
                body = json.dumps(message).encode()
            elif message.get("method") == "completion/complete" and "name" in message["params"]["ref"]:
                message["params"]["ref"]["name"] = PREFIX + message["params"]["ref"]["name"]
                body = json.dumps(message).encode()
        self._forward("POST", headers, body)

    def do_GET(self) -> None:
        self._forward("GET", self._headers(), None)

    def do_DELETE(self) -> None:
        self._forward("DELETE", self._headers(), None)

    def _headers(self) -> dict[str, str]:
        wanted = {name: self.headers[name].strip() for name in REQUEST_HEADERS if name in self.headers}
        parameters = {
            name: value.strip() for name, value in self.headers.items() if name.lower().startswith("mcp-param-")
        }
        if "mcp-name" in self.headers:
            wanted["mcp-name"] = self.headers["mcp-name"].strip()
        here = f"{self.server.server_address[0]}:{self.server.server_address[1]}"
        there = self.server.url.split("/")[2]
        for name in ("host", "origin"):
            if name in wanted:
                wanted[name] = re.sub(rf"(127\.0\.0\.1|localhost):{here.split(':')[1]}$", there, wanted[name])
        return wanted | parameters

    def _forward(self, method: str, headers: dict[str, str], body: bytes | None) -> None:
        proxy = self.server
        with (
            contextlib.suppress(OSError),
            proxy.client.stream(method, proxy.url, content=body, headers=headers) as answer,
        ):
            self.send_response(answer.status_code)
            for key in ANSWER_HEADERS:
                if key in answer.headers:
                    self.send_header(key, answer.headers[key])
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            for chunk in answer.iter_bytes():
                self.wfile.write(chunk.replace(PREFIX.encode(), b""))
                self.wfile.flush()


class RenamingProxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), Renaming)
        self.url = url
        self.client = httpx.Client(timeout=60, trust_env=False, limits=httpx.Limits(max_connections=None))

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


@contextlib.contextmanager
def renaming(url: str) -> Iterator[str]:
    """The address at which the direct surface at `url` has the names of its one server, `everything`."""
    proxy = RenamingProxy(url)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}/mcp"
    finally:
        proxy.shutdown()
        proxy.server_close()
        proxy.client.close()
