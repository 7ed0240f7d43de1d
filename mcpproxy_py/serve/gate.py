"""The gate's two answers, `tools/list` and `tools/call`, as plain JSON objects in and out.

Both ways to it, the SDK's server (`mcp`) and the short lane (`lane`), answer with what they get here. A
result goes out as the object that came in, because models that are squeezed in between drop what they do
not know (UP-6); so whoever answers owes the modern wire its envelope, and `enveloped` is that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, SERVER_INFO_META_KEY

from mcpproxy_py import __version__
from mcpproxy_py.core import jsonvalue
from mcpproxy_py.core.gatetools import definitions
from mcpproxy_py.core.values import Client
from mcpproxy_py.gateway import Gateway, OnProgress

NAME: Final = "mcpproxy"
IDENTITY: Final = {"name": NAME, "title": NAME, "version": __version__}
LIST_TTL_MS: Final = 300_000
CLAIM_LIMIT: Final = 128
"""How much of a client's claimed name we keep."""


@dataclass(frozen=True, slots=True)
class Face:
    """What of the gate is configuration: how intent is advertised, and whether wishes are taken."""

    schema: str = "nested"
    wishes: bool = True
    wish_text: str | None = None
    private: bool = False
    """Whether a token filters what a caller sees; then nobody may share a cached list."""

    def tools(self) -> list[dict[str, Any]]:
        return definitions(schema=self.schema, wishes=self.wishes, wish_text=self.wish_text)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks, as far as the wire tells."""

    client: Client
    principal: str
    session_id: str | None
    request_id: str


class Gate:
    """Raises `MCPError` for what is a protocol error; everything else is a result."""

    def __init__(self, gateway: Gateway, face: Callable[[], Face]) -> None:
        self._gateway = gateway
        self._face = face

    def list_tools(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params.get("cursor") is not None:
            raise MCPError(INVALID_PARAMS, "Unknown cursor: the tool list has one page")
        return {"tools": self._face().tools()}

    def list_hints(self) -> dict[str, Any]:
        """How long and by whom the list may be kept; said on the modern wire, which has words for it."""
        return {"ttlMs": LIST_TTL_MS, "cacheScope": "private" if self._face().private else "public"}

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        return _input_schemas(self._face()).get(name)

    async def call(self, params: Mapping[str, Any], peer: Peer, on_progress: OnProgress | None) -> Mapping[str, Any]:
        name = params.get("name")
        if not isinstance(name, str):
            raise MCPError(INVALID_PARAMS, f"params.name must be a string, not {jsonvalue.kind(name)}")
        ask = self._gateway.new_ask(
            name,
            params.get("arguments", {}),
            source="mcp",
            surface="gate",
            principal=peer.principal,
            client=peer.client,
            session_id=peer.session_id,
            request_id=peer.request_id[:CLAIM_LIMIT],
        )
        reply = await self._gateway.call(ask, on_progress)
        if reply.refusal is not None and reply.refusal.rule == "unknown_outer_tool":
            raise MCPError(INVALID_PARAMS, reply.refusal.message)
        return reply.result


def enveloped(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result as the modern wire wants it: complete, and stamped with who answered."""
    meta = jsonvalue.as_object(result.get("_meta")) or {}
    return {**result, "resultType": "complete", "_meta": {**meta, SERVER_INFO_META_KEY: IDENTITY}}


def claimed_client(info: object) -> Client:
    """A client's own words about itself, cut to what fits a record."""
    said = jsonvalue.as_object(info) or {}
    return Client(*(jsonvalue.quoted(said.get(key) or "", CLAIM_LIMIT) for key in ("name", "version")))


@lru_cache(maxsize=8)
def _input_schemas(face: Face) -> Mapping[str, Mapping[str, Any]]:
    return {tool["name"]: tool["inputSchema"] for tool in face.tools()}
