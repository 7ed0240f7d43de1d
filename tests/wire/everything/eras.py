"""Making a server of both eras one that speaks only one, in the way such servers refuse the other."""

from __future__ import annotations

from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

NO_HANDSHAKE = {
    "code": UNSUPPORTED_PROTOCOL_VERSION,
    "message": "This server has no initialize handshake",
    "data": {"supported": [*MODERN_PROTOCOL_VERSIONS]},
}
NOT_INITIALIZED = {"code": -32000, "message": "Bad Request: Server not initialized"}


class OneEra:
    """ASGI middleware: what the header claims to be of the other era does not get through."""

    def __init__(self, app: ASGIApp, era: str) -> None:
        self.app = app
        self.era = era

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._speaks(scope):
            return await self.app(scope, receive, send)
        await self._refusal(scope)(scope, receive, send)

    def _speaks(self, scope: Scope) -> bool:
        version = dict(scope["headers"]).get(b"mcp-protocol-version", b"").decode("latin-1")
        if self.era == "handshake":
            return not version or version in HANDSHAKE_PROTOCOL_VERSIONS
        return bool(version) and version not in HANDSHAKE_PROTOCOL_VERSIONS

    def _refusal(self, scope: Scope) -> Response:
        if self.era == "modern" and scope["method"] != "POST":
            return Response(status_code=405, headers={"allow": "POST"})
        error = NO_HANDSHAKE if self.era == "modern" else NOT_INITIALIZED
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=400)
