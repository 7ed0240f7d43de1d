"""What is answered at every path that is neither MCP nor REST: at `/` the way to the page of people, whose files are at
`/ui`, and a clear 404 elsewhere.

It says nothing that whoever connects does not know already, so no credential is asked for, and nothing behind the guard
is asked.
"""

from __future__ import annotations

from typing import Final

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.http.asgi import NO_STORE, json_bytes
from mcpproxy_py.serve.http.request import HttpRequest, RequestHead

OLD_TRANSPORT: Final = frozenset(("/sse", "/messages", "/message"))
"""Where servers of the transport HTTP+SSE stood, which clients still try."""
PAGE: Final = "/ui"
WHERE: Final = {"service": "mcpproxy", "mcp": "/mcp", "rest": "/api/v1", "health": "/healthz"}


async def answer_outside(request: HttpRequest) -> None:
    """Raises `GatewayError` for all but what is at `/`."""
    head = request.head
    if head.path == PAGE or head.path.startswith(f"{PAGE}/"):
        from mcpproxy_py.serve.page.files import answer_static

        await answer_static(request)
        return
    accepted = _accepted(head)
    if head.path != "/" or head.method not in ("GET", "HEAD") or "text/event-stream" in accepted:
        raise GatewayError(Code.NOT_FOUND, _missing(head))
    if "text/html" in accepted:
        await _send(request, 303, b"", {"location": PAGE})
    else:
        await _send(request, 200, json_bytes(WHERE), {"content-type": "application/json"})


async def _send(request: HttpRequest, status: int, body: bytes, more: dict[str, str]) -> None:
    lines = {**NO_STORE, "referrer-policy": "no-referrer", **more, "vary": "accept", "content-length": str(len(body))}
    await request.begin(status, [(name.encode(), value.encode()) for name, value in lines.items()])
    await request.send(b"" if request.head.method == "HEAD" else body, more=False)


def _accepted(head: RequestHead) -> str:
    return ",".join(value.decode("latin-1").lower() for name, value in head.headers if name == b"accept")


def _missing(head: RequestHead) -> str:
    if head.path == "/":
        return "There is nothing for programs at /. MCP is at /mcp"
    if head.path in OLD_TRANSPORT:
        return f"There is nothing at {head.path}: this gateway speaks streamable HTTP, at /mcp"
    return f"There is nothing at {quoted(head.path)}. MCP is at /mcp, REST at /api/v1"
