"""`retrieve_tools`: ranking over one snapshot, as an answer (FIND-1, FIND-2)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

from mcpproxy_py.core.policy.surface_tools import USAGE
from mcpproxy_py.core.policy.tool_class import call_with, class_of
from mcpproxy_py.core.search.index import Hit, Index, Ranking, Rule
from mcpproxy_py.core.search.signature import signature
from mcpproxy_py.core.values import Server, Snapshot, Tool

COMPACT_DESCRIPTION: Final = 160
EXCLUDED: Final = "excluded_by_operator"
CALLABLE: Final = ("connected", "sleeping")
WHY_NOT: Final[Mapping[str, str]] = {
    "disabled": "server_disabled",
    "connecting": "server_connecting",
    "failed": "server_down",
}


def unavailable_reason(server: Server, tool: Tool) -> str | None:
    """Why this tool cannot be called now, from a closed set, or `None`."""
    if not server.offers(tool.name):
        return EXCLUDED
    return None if server.state in CALLABLE else WHY_NOT[server.state]


def retrieve_tools(snapshot: Snapshot, params: Mapping[str, Any]) -> dict[str, Any]:
    """The tools that fit a query, as an answer."""
    ranking, unavailable = found(snapshot, params)
    show = _compact if params["detail"] == "compact" else _full
    return {
        "tools": [show(hit, snapshot) for hit in ranking.hits],
        "usage_instructions": USAGE,
        "total": ranking.total,
        "unavailable": unavailable,
    }


def found(snapshot: Snapshot, params: Mapping[str, Any]) -> tuple[Ranking, dict[str, int]]:
    """Filters apply before the cut; what cannot be called is not among the hits but counted, by reason."""
    index: Index = snapshot.index
    wanted, barred = _wanted(index, params), _unavailable(snapshot)
    among = reduce(lambda left, mask: left & ~mask, barred.values(), wanted)
    ranking = index.rank(params["query"], params["limit"], among)
    missed = ranking.matched & wanted
    counts = {reason: (missed & mask).bit_count() for reason, mask in sorted(barred.items())}
    return ranking, {reason: many for reason, many in counts.items() if many}


def _unavailable(snapshot: Snapshot) -> dict[str, int]:
    """Of every reason, the mask of the tools it keeps from being called: `unavailable_reason`, for all at once."""
    servers = snapshot.servers
    index: Index = snapshot.index
    excluded = index.mask(lambda name: _excluded(servers[name]))
    states = {servers[name].state for name in index.segments}.difference(CALLABLE)
    away = {WHY_NOT[state]: index.mask(lambda name, state=state: servers[name].state == state) for state in states}
    return {EXCLUDED: excluded, **{reason: mask & ~excluded for reason, mask in away.items()}}


def _excluded(server: Server) -> Rule | bool:
    if not server.deny_tools and server.allow_tools is None:
        return False
    return Rule((server.allow_tools, server.deny_tools), lambda tool: not server.offers(tool.name))


def _wanted(index: Index, params: Mapping[str, Any]) -> int:
    rule = READ_ONLY if params["read_only_only"] else HARMLESS if params["exclude_destructive"] else True
    return index.mask(lambda name: rule if params["server"] in (None, name) else False)


READ_ONLY: Final = Rule("read only", lambda tool: class_of(tool, None)[0] == "read")
HARMLESS: Final = Rule("not destructive", lambda tool: class_of(tool, None)[0] != "destructive")


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
