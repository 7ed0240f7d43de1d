"""Small makers of core values for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpproxy_py.core.policy.tool_class import classify
from mcpproxy_py.core.search.index import Index, segment
from mcpproxy_py.core.values import Ask, Policy, Server, Snapshot, Tool


def tool(name: str, hints: Mapping[str, Any] | None = None, *, server: str = "s", **more: Any) -> Tool:
    """`overrides` are the entries of one."""
    trusted = more.pop("trusted", True)
    if entries := more.pop("overrides", ()):
        more["overrides"] = (tuple(entries),)
    wire: dict[str, Any] = {"name": name, "inputSchema": {"type": "object"}, **more.pop("wire", {})}
    if hints is not None:
        wire["annotations"] = dict(hints)
    return Tool(server, name, wire, classify(wire.get("annotations"), trusted), trusted, **more)


def snapshot(*tools: Tool, policy: Policy | None = None, **server: Any) -> Snapshot:
    """One server `s` with these tools, connected unless said otherwise."""
    listed = {entry.name: entry for entry in tools}
    return Snapshot(
        policy or Policy(),
        {"s": Server("s", server.pop("state", "connected"), listed, **server)},
        Index({"s": segment(tools)}),
    )


def ask(params: Any, outer: str = "call_tool_read") -> Ask:
    return Ask("id-1", 0.0, outer, params)


def read(name: str = "s:t", **params: Any) -> Ask:
    return ask({"name": name, "intent": {"operation_type": "read"}, **params})
