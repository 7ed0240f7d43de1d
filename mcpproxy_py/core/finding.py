"""`retrieve_tools`: ranking over one snapshot, as an answer (FIND-1, FIND-2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.classes import call_with, class_of
from mcpproxy_py.core.gatetools import USAGE
from mcpproxy_py.core.search import Hit
from mcpproxy_py.core.signature import signature
from mcpproxy_py.core.values import Server, Snapshot, Tool

COMPACT_DESCRIPTION: Final = 160
CALLABLE: Final = ("connected", "sleeping")
WHY_NOT: Final[Mapping[str, str]] = {
    "disabled": "server_disabled",
    "connecting": "server_connecting",
    "failed": "server_down",
}


def unavailable_reason(server: Server, tool: Tool) -> str | None:
    """Why this tool cannot be called now, from a closed set, or `None`."""
    if not server.offers(tool.name):
        return "excluded_by_operator"
    return None if server.state in CALLABLE else WHY_NOT[server.state]


def retrieve_tools(snapshot: Snapshot, params: Mapping[str, Any]) -> dict[str, Any]:
    """The tools that fit a query. Filters apply before the cut; what cannot be called is counted, not shown."""
    skipped: Counter[str] = Counter()

    def accept(tool: Tool) -> bool:
        if not _wanted(tool, params):
            return False
        reason = unavailable_reason(snapshot.servers[tool.server], tool)
        if reason:
            skipped[reason] += 1
        return reason is None

    ranking = snapshot.index.rank(params["query"], params["limit"], accept)
    show = _compact if params["detail"] == "compact" else _full
    return {
        "tools": [show(hit, snapshot) for hit in ranking.hits],
        "usage_instructions": USAGE,
        "total": ranking.total,
        "unavailable": dict(sorted(skipped.items())),
    }


def _wanted(tool: Tool, params: Mapping[str, Any]) -> bool:
    if params["server"] is not None and tool.server != params["server"]:
        return False
    if not (params["read_only_only"] or params["exclude_destructive"]):
        return True
    highest, _ = class_of(tool, None)
    return highest == "read" if params["read_only_only"] else highest != "destructive"


def _full(hit: Hit, snapshot: Snapshot) -> dict[str, Any]:
    tool = hit.tool
    return {
        "name": tool.full_name,
        "description": tool.wire.get("description", ""),
        "inputSchema": tool.wire.get("inputSchema", {"type": "object"}),
        "score": hit.score,
        "server": tool.server,
        "annotations": dict(tool.annotations),
        "call_with": call_with(tool, snapshot.policy),
    }


def _compact(hit: Hit, snapshot: Snapshot) -> dict[str, Any]:
    row = _full(hit, snapshot)
    del row["inputSchema"]
    description = str(row["description"])
    if len(description) > COMPACT_DESCRIPTION:
        description = description[: COMPACT_DESCRIPTION - 1].rstrip() + "…"
    return {**row, "description": description, "signature": signature(hit.tool)}
