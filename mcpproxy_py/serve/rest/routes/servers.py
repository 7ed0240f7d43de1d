"""Servers and their tools: look, add, remove, switch, restart, and read what they complain about.

Tools as a person sees them: every one, callable or not, with what the gate makes of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy.tool_class import call_with, class_of
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.core.search.tool_search import unavailable_reason
from mcpproxy_py.core.values import Snapshot, Tool
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.http.asgi import bad_request
from mcpproxy_py.serve.rest import requests, responses
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import cursor_of, place_of


def find_tool(snapshot: Snapshot, name: str) -> Tool | None:
    server, _, tool = name.partition(":")
    found = snapshot.servers.get(server)
    return found.tools.get(tool) if found else None


def shown_tool(snapshot: Snapshot, tool: Tool) -> dict[str, Any]:
    tool_class, origin = class_of(tool, None)
    reason = unavailable_reason(snapshot.servers[tool.server], tool)
    return {
        "name": tool.full_name,
        "server": tool.server,
        "description": tool.wire.get("description", ""),
        "annotations": dict(tool.annotations),
        "class": tool_class,
        "class_origin": origin,
        "call_with": call_with(tool, snapshot.policy),
        "inputSchema": tool.wire.get("inputSchema", {"type": "object"}),
        "callable": reason is None,
        "unavailable_reason": reason,
    }


def page_of_tools(
    snapshot: Snapshot, server: str | None, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Tools by name, from the one behind `after`, and the name to go on behind, if there are more."""
    chosen = sorted(_of(snapshot, server), key=lambda tool: tool.full_name)
    start = bisect_right(chosen, after, key=lambda tool: tool.full_name) if after is not None else 0
    page = chosen[start : start + limit]
    more = start + limit < len(chosen)
    return [shown_tool(snapshot, tool) for tool in page], page[-1].full_name if more else None


def _of(snapshot: Snapshot, server: str | None) -> Iterable[Tool]:
    for name, found in snapshot.servers.items():
        if server is None or name == server:
            yield from found.tools.values()


async def list_servers(x: RestRequest) -> Mapping[str, Any]:
    return {"servers": x.parts.operator.describe_servers()}


async def show_server(x: RestRequest) -> Mapping[str, Any]:
    entry = await x.parts.operator.server_entry(x.path["name"])  # masked as a configuration is: references are shown
    if entry is None:
        must_know(x.path["name"], (row["name"] for row in x.parts.operator.describe_servers()), "server")
    return {**x.parts.masker.mask(_one(x, x.path["name"])), "config": entry}


async def add_server(x: RestRequest) -> Mapping[str, Any]:
    body = x.body
    await x.parts.operator.add_server(body.name, body.config, x.caller, replace=body.replace, check_secrets=body.check)
    return _one(x, x.body.name)


async def remove_server(x: RestRequest) -> Mapping[str, Any]:
    await x.parts.operator.remove_server(x.path["name"], x.caller)
    return {"removed": x.path["name"]}


async def enable_server(x: RestRequest) -> Mapping[str, Any]:
    await x.parts.operator.set_enabled(x.path["name"], True, x.caller)
    return _one(x, x.path["name"])


async def disable_server(x: RestRequest) -> Mapping[str, Any]:
    await x.parts.operator.set_enabled(x.path["name"], False, x.caller)
    return _one(x, x.path["name"])


async def set_tool_classes(x: RestRequest) -> Mapping[str, Any]:
    before = await x.parts.operator.set_classes(x.path["name"], x.body.tools, x.caller)
    return {"server": x.path["name"], "tools": x.body.tools, "before": before}


async def restart_server(x: RestRequest) -> Mapping[str, Any]:
    await x.parts.operator.restart_server(x.path["name"], x.caller)
    return _one(x, x.path["name"])


async def server_log(x: RestRequest) -> Mapping[str, Any]:
    """Masked where it was written; here again, for what an earlier version wrote."""
    lines = await x.parts.operator.server_log(x.path["name"], x.query.lines)
    return {"server": x.path["name"], "lines": lines}


async def list_tools(x: RestRequest) -> Mapping[str, Any]:
    snapshot = x.parts.gateway.snapshot
    if x.query.server is not None:
        must_know(x.query.server, snapshot.servers, "server")
    tools, last = page_of_tools(snapshot, x.query.server, _place(x.query.cursor), x.query.limit)
    return {"tools": tools, "next_cursor": cursor_of(last) if last is not None else None}


async def show_tool(x: RestRequest) -> Mapping[str, Any]:
    snapshot = x.parts.gateway.snapshot
    tool = find_tool(snapshot, x.path["name"])
    if tool is None:
        names = (found.full_name for server in snapshot.servers.values() for found in server.tools.values())
        raise _not_known(x.path["name"], names, "tool")
    return shown_tool(snapshot, tool)


def _place(cursor: str | None) -> str | None:
    try:
        return place_of(cursor) if cursor is not None else None
    except ValueError:
        raise bad_request("cursor was not issued by this gateway", parameter="cursor") from None


def _one(x: RestRequest, name: str) -> dict[str, Any]:
    rows = x.parts.operator.describe_servers()
    return {"server": next((row for row in rows if row["name"] == name), {"name": name})}


def must_know(name: str, known: Iterable[str], what: str) -> None:
    names = list(known)
    if name not in names:
        raise _not_known(name, names, what)


def _not_known(name: str, known: Iterable[str], what: str) -> GatewayError:
    near = nearest(name, known)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return GatewayError(Code.NOT_FOUND, f"There is no {what} '{quoted(name)}'{hint}", details={"nearest": near})


_CHANGES: Final = (Code.NOT_FOUND, Code.CONFLICT, Code.CONFIG_INVALID, Code.STORE_UNAVAILABLE)

ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/servers", "Servers", "Every upstream server and its state", list_servers,
             responses.ServerList),
    RestEndpoint("GET", "/api/v1/servers/{name}", "Servers", "One server, its state and its configuration", show_server,
             responses.ServerInFull, refusals=(Code.NOT_FOUND, Code.CONFIG_INVALID), masked=False),
    RestEndpoint("POST", "/api/v1/servers", "Servers", "Add a server to the configuration and connect it", add_server,
             responses.OneServer, body=requests.NewServer, status=201, refusals=_CHANGES),
    RestEndpoint("DELETE", "/api/v1/servers/{name}", "Servers", "Remove a server from the configuration", remove_server,
             responses.Removed, refusals=_CHANGES),
    RestEndpoint("POST", "/api/v1/servers/{name}/enable", "Servers", "Enable a server", enable_server,
             responses.OneServer, refusals=_CHANGES),
    RestEndpoint("POST", "/api/v1/servers/{name}/disable", "Servers", "Disable a server", disable_server,
             responses.OneServer, refusals=_CHANGES),
    RestEndpoint("POST", "/api/v1/servers/{name}/tools", "Servers", "Set the class of single tools of a server",
             set_tool_classes, responses.ToolClassesSet, body=requests.ToolClasses, refusals=_CHANGES),
    RestEndpoint("POST", "/api/v1/servers/{name}/restart", "Servers", "Disconnect a server and connect it again",
             restart_server, responses.OneServer, refusals=_CHANGES),
    RestEndpoint("GET", "/api/v1/servers/{name}/logs", "Servers", "The last lines a server wrote to stderr", server_log,
             responses.LogLines, query=requests.LogTail, refusals=(Code.NOT_FOUND,)),
    RestEndpoint("GET", "/api/v1/tools", "Tools", "Every tool, callable or not, by name", list_tools, responses.Tools,
             query=requests.ToolPage, refusals=(Code.NOT_FOUND,), masked=False),
    RestEndpoint("GET", "/api/v1/tools/{name:path}", "Tools", "One tool, as server:tool", show_tool,
             responses.ToolAnswer, refusals=(Code.NOT_FOUND,), masked=False),
)  # fmt: skip
