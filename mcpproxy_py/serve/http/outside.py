"""What is answered at every path that is neither MCP nor REST: a page for people at `/`, and a clear 404 elsewhere.

It says nothing that whoever connects does not know already, so no credential is asked for, and nothing behind the guard
is asked.
"""

from __future__ import annotations

import base64
import hashlib
import html
from typing import Final

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.http.asgi import NO_STORE, json_bytes
from mcpproxy_py.serve.http.request import HttpRequest, RequestHead

OLD_TRANSPORT: Final = frozenset(("/sse", "/messages", "/message"))
"""Where servers of the transport HTTP+SSE stood, which clients still try."""
WHERE: Final = {"service": "mcpproxy", "mcp": "/mcp", "rest": "/api/v1", "health": "/healthz"}

_STYLE: Final = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:3rem auto;padding:0 1rem}body{color:#222}"
    "code,pre{background:#f1f1f1;border-radius:3px;padding:.1em .3em}pre{padding:.7em;overflow-x:auto}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}code,pre{background:#2a2a2a}}"
)
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>mcpproxy</title>
<style>%(style)s</style>
</head>
<body>
<h1>mcpproxy is running</h1>
<p>This is a gateway for agents that speak MCP, the Model Context Protocol. It is used by programs; there is nothing to
click here.</p>
<h2>Connect an agent</h2>
<p>The address for agents is <code>%(mcp)s</code>. With Claude Code, for example:</p>
<pre>claude mcp add --transport http mcpproxy %(mcp)s</pre>
<p>If an agent token is set, the agent sends it as <code>Authorization: Bearer TOKEN</code>.</p>
<h2>Look after it</h2>
<p>On the machine where it runs:</p>
<pre>mcpproxy upstream list     the servers behind it
mcpproxy activity list     what agents have called
mcpproxy doctor            what is wrong, and how to mend it
mcpproxy --help            all commands</pre>
<p>Programs find the same at <code>/api/v1</code>, with the admin key (<code>mcpproxy key show</code>);
<code>/api/v1/openapi.json</code> describes it. <code>/healthz</code> and <code>/readyz</code> need no key.</p>
</body>
</html>
"""
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def answer_outside(request: HttpRequest) -> None:
    """Raises `GatewayError` for all but what is at `/`."""
    head = request.head
    accepted = _accepted(head)
    if head.path != "/" or head.method not in ("GET", "HEAD") or "text/event-stream" in accepted:
        raise GatewayError(Code.NOT_FOUND, _missing(head))
    if "text/html" in accepted:
        await _send(request, _page(head), "text/html; charset=utf-8", {"content-security-policy": POLICY})
    else:
        await _send(request, json_bytes(WHERE), "application/json", {})


async def _send(request: HttpRequest, body: bytes, kind: str, more: dict[str, str]) -> None:
    lines = {**NO_STORE, "referrer-policy": "no-referrer", **more, "vary": "accept", "content-type": kind}
    lines["content-length"] = str(len(body))
    await request.begin(200, [(name.encode(), value.encode()) for name, value in lines.items()])
    await request.send(b"" if request.head.method == "HEAD" else body, more=False)


def _accepted(head: RequestHead) -> str:
    return ",".join(value.decode("latin-1").lower() for name, value in head.headers if name == b"accept")


def _page(head: RequestHead) -> bytes:
    """The guard has checked the host. Behind a proxy the scheme is not known."""
    mcp = "/mcp" if head.forwarded else f"http://{head.host}/mcp"
    return (_PAGE % {"style": _STYLE, "mcp": html.escape(mcp)}).encode()


def _missing(head: RequestHead) -> str:
    if head.path == "/":
        return "There is nothing for programs at /. MCP is at /mcp"
    if head.path in OLD_TRANSPORT:
        return f"There is nothing at {head.path}: this gateway speaks streamable HTTP, at /mcp"
    return f"There is nothing at {quoted(head.path)}. MCP is at /mcp, REST at /api/v1"
