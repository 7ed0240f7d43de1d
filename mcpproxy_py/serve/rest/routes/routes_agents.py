"""What an agent discovers over plain HTTP, by the door of the MCP surfaces (CAT-5).

The lists of tools are looked up, as `tools/list` is. What the catalog answers is an ask, decided and recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcpproxy_py.core.policy.tool_class import call_with
from mcpproxy_py.core.search.tool_search import unavailable_reason
from mcpproxy_py.core.values import VARIANT_OF, Operation, Snapshot, Tool
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.rest import requests, responses
from mcpproxy_py.serve.rest._serve_endpoint import Endpoint, Exchange
from mcpproxy_py.serve.rest.routes.calls import REFUSALS, refuse, while_connected


async def visible_tools(x: Exchange) -> Mapping[str, Any]:
    snapshot = x.parts.gateway.snapshot
    return {"tools": [_shown(tool, snapshot) for tool in _visible(snapshot, x.query.server)]}


async def tool_ids(x: Exchange) -> Mapping[str, Any]:
    return {"ids": [tool.full_name for tool in _visible(x.parts.gateway.snapshot, x.query.server)]}


async def catalog(x: Exchange) -> Mapping[str, Any]:
    return await _asked(x, "read", "mcp_list_catalog", x.query.model_dump(exclude_none=True))


async def request_capability(x: Exchange) -> Mapping[str, Any]:
    return await _asked(x, "write", "mcp_request_capability", x.body.model_dump(exclude_unset=True))


def _visible(snapshot: Snapshot, wanted: str | None) -> Iterable[Tool]:
    """Those that can be called now. A server nobody has is one without tools, as for one that nobody may know of."""
    for name, server in snapshot.servers.items():
        if wanted is None or name == wanted:
            yield from (tool for tool in server.tools.values() if unavailable_reason(server, tool) is None)


def _shown(tool: Tool, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "name": tool.full_name,
        "server": tool.server,
        "description": tool.wire.get("description", ""),
        "inputSchema": tool.wire.get("inputSchema", {"type": "object"}),
        "annotations": dict(tool.annotations),
        "call_with": call_with(tool, snapshot.policy),
    }


async def _asked(x: Exchange, operation: Operation, tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    params = {"name": f"catalog:{tool}", "args": dict(args), "intent": {"operation_type": operation}}
    reply = await while_connected(x.request, x.parts.gateway.call(x.ask(VARIANT_OF[operation], params)))
    if reply.refusal is not None:
        refuse(reply.refusal, reply.id)
    if reply.result.get("isError"):
        details = {"id": reply.id}
        raise GatewayError(Code.INVALID_ARGUMENTS, reply.result["content"][0]["text"], details=details)
    return reply.result["structuredContent"]


_GROUP: Final = "Discovery, for agents"

ENDPOINTS: Final = (
    Endpoint("GET", "/mcp/tools", _GROUP, "The tools that can be called now", visible_tools, responses.VisibleTools,
             query=requests.VisibleTools, guarded="agent"),
    Endpoint("GET", "/tool/ids", _GROUP, "The names of the tools that can be called now", tool_ids, responses.ToolIds,
             query=requests.VisibleTools, guarded="agent"),
    Endpoint("GET", "/mcp/catalog", _GROUP, "Known servers and what is connected, as mcp_list_catalog says; recorded",
             catalog, responses.CatalogAnswer, query=requests.CatalogSearch, guarded="agent", refusals=REFUSALS),
    Endpoint("POST", "/mcp/request-capability", _GROUP, "Ask a person for a server, as mcp_request_capability does",
             request_capability, responses.Requested, body=requests.CapabilityRequest, guarded="agent",
             refusals=REFUSALS),
)  # fmt: skip
