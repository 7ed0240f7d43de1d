"""A registry on this machine that speaks the wire format of the official one (v0.1), and one that does not behave."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.threaded import threaded

OFFICIAL = "io.modelcontextprotocol.registry/official"


def row(
    name: str, *, status: str = "active", description: str = "", says: str | None = None, **server: Any
) -> dict[str, Any]:
    """As the registry lists a server."""
    official = {
        "status": status, "publishedAt": "2026-01-02T03:04:05.678901Z", "updatedAt": "2026-02-03T04:05:06.789012Z",
        "statusChangedAt": "2026-02-03T04:05:06.789012Z", "isLatest": True, **({"statusMessage": says} if says else {}),
    }  # fmt: skip
    body = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", "name": name,
        "description": description or f"What {name} does", "version": "1.2.3", **server,
    }  # fmt: skip
    return {"server": body, "_meta": {OFFICIAL: official}}


def npm(identifier: str = "@example/weather", version: str | None = "1.2.3", **other: Any) -> dict[str, Any]:
    return {
        "registryType": "npm", "registryBaseUrl": "https://registry.npmjs.org", "identifier": identifier,
        **({"version": version} if version else {}), "transport": {"type": "stdio"}, **other,
    }  # fmt: skip


def remote(url: str, kind: str = "streamable-http", **other: Any) -> dict[str, Any]:
    return {"type": kind, "url": url, **other}


@dataclass
class Registry:
    """`rows` are what it lists; `answers` takes requests over before that."""

    url: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: list[tuple[str, dict[str, str], Mapping[str, str]]] = field(default_factory=list[Any])
    """Path, query and headers of each request."""
    page: int = 30
    answers: Callable[[BaseHTTPRequestHandler, str, dict[str, str]], bool] = lambda handler, path, query: False

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = dict(parse_qsl(parts.query))
        self.asked.append((parts.path, query, dict(handler.headers.items())))
        if self.answers(handler, parts.path, query):
            return
        if parts.path.endswith(".json"):
            return send(handler, {"servers": self.rows})
        words = parts.path.split("/")[1:]
        if words[:2] != ["v0.1", "servers"]:
            return send(handler, {"title": "Not Found", "status": 404, "detail": "no such endpoint"}, 404)
        if len(words) == 2:
            return send(handler, self._listed(query))
        name = unquote(words[2])
        for each in self.rows:
            if each["server"]["name"] == name and unquote(words[4]) in ("latest", each["server"]["version"]):
                return send(handler, each)
        return send(handler, {"title": "Not Found", "status": 404, "detail": "Server not found"}, 404)

    def _listed(self, query: Mapping[str, str]) -> dict[str, Any]:
        text = query.get("search", "").lower()
        there = [each for each in self.rows if each["_meta"][OFFICIAL]["status"] != "deleted"]
        fits = [each for each in there if text in f"{each['server']['name']} {each['server']['description']}".lower()]
        start = next((i + 1 for i, each in enumerate(fits) if cursor(each) == query.get("cursor")), 0)
        size = min(int(query.get("limit", "30")), self.page)
        shown = fits[start : start + size]
        more = {"nextCursor": cursor(shown[-1])} if len(fits) > start + size else {}
        return {"servers": shown, "metadata": {"count": len(shown), **more}}


def cursor(each: Mapping[str, Any]) -> str:
    return f"{each['server']['name']}:{each['server']['version']}"


def send(
    handler: BaseHTTPRequestHandler, body: Any, status: int = 200, kind: str = "application/json", **headers: str
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    with contextlib.suppress(OSError):
        handler.wfile.write(data)


@contextlib.contextmanager
def registry(*rows: dict[str, Any]) -> Iterator[Registry]:
    made = Registry(rows=list(rows))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                made.respond(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with threaded(Handler) as at:
        made.url = f"http://{at}"
        yield made
