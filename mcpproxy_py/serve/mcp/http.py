"""Streamable HTTP for one surface, both eras at one path: the modern one is told by its header."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from mcpproxy_py.core import headers
from mcpproxy_py.core.revisions import HANDSHAKE
from mcpproxy_py.serve.mcp.door import Door
from mcpproxy_py.serve.mcp.handshake import Handshake
from mcpproxy_py.serve.mcp.modern import Modern
from mcpproxy_py.serve.mcp.posted import Refused, seen_of
from mcpproxy_py.serve.visit import visit_of


class Endpoint:
    def __init__(self, door: Door) -> None:
        self.door = door
        self._modern = Modern(door)
        self._handshake = Handshake(door)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = visit_of(scope)
        version = visit.head.once(seen_of).get(headers.PROTOCOL_VERSION)
        era = self._handshake if version is None or version in HANDSHAKE else self._modern
        try:
            await era.serve(visit)
        except Refused as refused:
            await visit.answer(refused.status, refused.body, refused.headers)
