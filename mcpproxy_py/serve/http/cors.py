"""CORS (Fetch standard, section 3.3): pages of allowed origins may read the MCP surfaces and their metadata (SEC-11).

Only an origin that `allowed_origins` names gets these headers, and only at these paths: nothing that opens with the
admin key or a cookie is among them.
"""

from __future__ import annotations

import re
from typing import Final

from mcpproxy_py.serve.http.request import Headers, HttpRequest

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
SURFACE: Final = re.compile(r"/mcp(/direct|/s/[A-Za-z0-9_-]{1,64}|/p/[A-Za-z0-9_-]{1,64}(/direct)?)?")
"""The path of any surface, whether there is such a server or profile or not."""
EXPOSED: Final = b"mcp-session-id, mcp-protocol-version, www-authenticate, retry-after"
METHODS: Final = b"GET, POST, DELETE"
MAX_AGE: Final = b"600"
"""Seconds for which a browser remembers a preflight."""
REQUESTED: Final = b"access-control-request-headers"
ALLOWED: Final = frozenset((
    "accept", "authorization", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version",
    "mcp-session-id",
))  # fmt: skip
PARAM_HEADER: Final = re.compile(r"mcp-param-[a-z0-9_-]{1,64}")
"""What a tool wants repeated of its arguments (MCP 2026-07-28, Streamable HTTP, Custom Headers)."""


def is_readable(path: str) -> bool:
    """Whether pages of allowed origins may read what is at this path."""
    return path == WELL_KNOWN or SURFACE.fullmatch(path.removeprefix(WELL_KNOWN).rstrip("/")) is not None


def answer_headers(origin: str) -> tuple[tuple[bytes, bytes], ...]:
    """Never `access-control-allow-credentials`: a cookie opens nothing here."""
    allowed = b"access-control-allow-origin", origin.encode("latin-1")
    return allowed, (b"access-control-expose-headers", EXPOSED), (b"vary", b"origin")


async def answer_preflight(request: HttpRequest) -> None:
    """What a browser asks before the request of a page, which brings no credential."""
    found = dict(request.head.headers)
    wanted = [each.strip().lower() for each in found.get(REQUESTED, b"").decode("latin-1").split(",")]
    allowed = [each for each in wanted if each in ALLOWED or PARAM_HEADER.fullmatch(each)]
    headers: Headers = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", ", ".join(allowed).encode("ascii")),
        (b"access-control-max-age", MAX_AGE),
    ]
    if found.get(b"access-control-request-private-network") == b"true":
        headers.append((b"access-control-allow-private-network", b"true"))
    await request.respond(200, b"", headers)
