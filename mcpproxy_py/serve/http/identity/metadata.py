"""How a client without a token, or with one that will not do, finds its way: the metadata of RFC 9728, and the
challenge that leads there (`WWW-Authenticate`), as the revisions 2025-11-25 and 2026-07-28 ask.

A surface's resource is the address that its client uses, whether there is such a surface or not: whoever has no token
must not learn here which servers and profiles there are.
"""

from __future__ import annotations

import re
from typing import Final

from mcp.shared.auth import ProtectedResourceMetadata

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.http.asgi import NO_STORE, json_bytes
from mcpproxy_py.serve.http.cors import SURFACE, WELL_KNOWN
from mcpproxy_py.serve.http.request import HttpRequest, RequestHead
from mcpproxy_py.settings.access.auth import JwtAuth

GATE: Final = "/mcp"
_FIT: Final = re.compile(r'[^\x20-\x7e]|["\\]')
_SECURE: Final = (b"x-forwarded-proto", b"https")


class ResourceMetadata:
    def __init__(self, settings: JwtAuth, public_url: str | None) -> None:
        """`public_url` where clients use another address than they say in `Host`."""
        self._issuer = settings.issuer
        self._scopes = list(settings.all_scopes)
        self._public_url = public_url

    def origin(self, head: RequestHead) -> str:
        """As the client sees it; the guard has checked the host."""
        if self._public_url is not None:
            return self._public_url
        return f"{'https' if _SECURE in head.headers else 'http'}://{head.host}"

    async def answer(self, request: HttpRequest) -> None:
        """Raises `GatewayError` where there is no metadata."""
        head = request.head
        surface = _surface_at(head.path.removeprefix(WELL_KNOWN))
        if surface is None:
            raise GatewayError(Code.NOT_FOUND, f"There is nothing here; the metadata of /mcp is at {WELL_KNOWN}/mcp")
        if head.method not in ("GET", "HEAD"):
            raise GatewayError(Code.METHOD_NOT_ALLOWED, "Metadata can only be read: GET")
        found = ProtectedResourceMetadata.model_validate({
            "resource": self.origin(head) + surface, "authorization_servers": [self._issuer],
            "scopes_supported": self._scopes or None, "resource_name": "mcpproxy",
        })  # fmt: skip
        body = json_bytes(found.model_dump(mode="json", exclude_none=True))
        await request.respond(200, body, [(name.encode(), value.encode()) for name, value in NO_STORE.items()])

    def challenge(self, head: RequestHead, scopes: str, error: str | None = None, why: str = "") -> str:
        """The value of `WWW-Authenticate`."""
        surface = _surface_at(head.path) or ""
        parts = {
            "realm": "mcpproxy", "error": error, "error_description": _FIT.sub("'", why) if error else None,
            "scope": scopes or None, "resource_metadata": f"{self.origin(head)}{WELL_KNOWN}{surface}",
        }  # fmt: skip
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value is not None)


def _surface_at(path: str) -> str | None:
    """The path of a surface; without one it is the gate's."""
    path = path.rstrip("/") or GATE
    return path if SURFACE.fullmatch(path) else None
