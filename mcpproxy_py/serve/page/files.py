"""The files of the page: what is in `static/`, read once, known by a path each (USE-2).

Nothing of the gateway is in them, so they are for everybody whom the guard lets through; what the page shows it asks
REST for. A path is looked up among the files that there are, so none leads out of the directory.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.http.request import HttpRequest

STATIC: Final = Path(__file__).with_name("static")
PREFIX: Final = "/ui"
KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class StaticFile(NamedTuple):
    body: bytes
    kind: str
    tag: str


@cache
def static_files() -> dict[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    for path in sorted(STATIC.rglob("*")):
        if path.is_file() and path.suffix in KINDS:
            body = path.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[f"{PREFIX}/{path.relative_to(STATIC).as_posix()}"] = StaticFile(body, KINDS[path.suffix], tag)
    found[PREFIX] = found[f"{PREFIX}/"] = found[f"{PREFIX}/index.html"]
    return found


async def answer_static(request: HttpRequest) -> None:
    head = request.head
    found = static_files().get(head.path)
    if found is None:
        raise GatewayError(Code.NOT_FOUND, f"There is nothing at {quoted(head.path)}. The page is at {PREFIX}")
    if head.method not in ("GET", "HEAD"):
        raise GatewayError(Code.METHOD_NOT_ALLOWED, f"This takes GET, not {quoted(head.method)}")
    known = any(name == b"if-none-match" and found.tag.encode() in value for name, value in head.headers)
    lines = {**HEADERS, "etag": found.tag}
    if not known:
        lines |= {"content-type": found.kind, "content-length": str(len(found.body))}
    await request.begin(304 if known else 200, [(name.encode(), value.encode()) for name, value in lines.items()])
    await request.send(b"" if known or head.method == "HEAD" else found.body, more=False)
