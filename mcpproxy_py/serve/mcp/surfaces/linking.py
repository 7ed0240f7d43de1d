"""Asking in a way that resources named in the answer can be read from then on, at the gate and directly (SURF-8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpproxy_py.core.protocol.constants import INVALID_PARAMS
from mcpproxy_py.core.values import Route, Surface
from mcpproxy_py.errors import RpcError
from mcpproxy_py.gateway.call import Call
from mcpproxy_py.serve.mcp.request import McpRequest
from mcpproxy_py.serve.mcp.surfaces import surface
from mcpproxy_py.serve.mcp.surfaces.asks import Asking
from mcpproxy_py.serve.mcp.surfaces.links import Links
from mcpproxy_py.serve.mcp.surfaces.replies import relayed
from mcpproxy_py.serve.mcp.surfaces.surface import text_param


async def call_linking(asking: Asking, links: Links, exchange: McpRequest, kind: Surface) -> Call | dict[str, Any]:
    """A tool call, whose result may name resources."""
    name, arguments = text_param(exchange, "name"), exchange.params.get("arguments", {})
    reply = await asking.call(exchange, kind, name, arguments)
    if isinstance(reply, Call) and isinstance(reply.decision, Route):
        links.learn(exchange.peer.principal, reply.decision.server, reply.result)
    return reply


async def read_linked(asking: Asking, links: Links, exchange: McpRequest, kind: Surface) -> Mapping[str, Any]:
    """A resource that something relayed has named, from the server that named it (SURF-8)."""
    uri = text_param(exchange, "uri")
    server = links.owner(exchange.peer.principal, uri)
    if server is None:
        raise RpcError(INVALID_PARAMS, "Unknown resource: no result or listing has named this URI here", {"uri": uri})
    reply = await asking.call(exchange, kind, uri, surface.own_params(exchange), server)
    result = relayed(reply)
    links.learn(exchange.peer.principal, server, result)
    return result
