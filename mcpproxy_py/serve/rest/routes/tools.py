"""Tools as a person sees them: every one, callable or not, with what the gate makes of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from mcpproxy_py.core.policy.tool_class import call_with, class_of
from mcpproxy_py.core.search.tool_search import unavailable_reason
from mcpproxy_py.core.values import Snapshot, Tool


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
