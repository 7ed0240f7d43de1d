"""The shapes of the catalog's answers, as the `outputSchema` of each tool.

What may still grow is left open; what the documented shapes promise is required.

The seven tools as wire objects (CAT-1, CAT-4). Every word is paid for by each agent that lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

from mcpproxy_py.core.catalog import approval_rules, gaps
from mcpproxy_py.core.catalog.model import CATEGORIES
from mcpproxy_py.core.catalog.overlay import CONNECTION_STATUSES

_TEXT: Final = {"type": "string"}
_MAYBE_TEXT: Final = {"type": ["string", "null"]}
_FLAG: Final = {"type": "boolean"}
COUNT: Final = {"type": "integer"}
NAMES: Final = {"type": "array", "items": _TEXT}


def _shape(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _rows(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "array", "items": _shape(properties, *required)}


_MATCH: Final = {
    "matches": _rows({"name": _TEXT, "category": _TEXT, "matchConfidence": {"type": "number"}}, "name", "category",
                     "matchConfidence"),
    "message": _TEXT,
}  # fmt: skip
_NOTES: Final = {
    "type": "object",
    "properties": {"setup": _TEXT, "configFile": _TEXT, "startUrl": _TEXT, "gotchas": NAMES},
    "additionalProperties": False,
}


def _or_matches(properties: Mapping[str, Any], *ways: tuple[str, ...]) -> dict[str, Any]:
    """One of several answers, or the three an ambiguous name may have meant."""
    return {
        "type": "object",
        "properties": {**properties, **_MATCH},
        "anyOf": [{"required": list(keys)} for keys in (*ways, ("matches",))],
    }


_LISTED: Final = _rows(
    {"name": _TEXT, "category": _TEXT, "tier": _MAYBE_TEXT, "available": _FLAG}, "name", "category", "available"
)
_CITED: Final = _rows(
    {"url": _TEXT, "description": _TEXT, "verifiedDate": _MAYBE_TEXT, "sourceGranularity": _TEXT, "status": _TEXT,
     "capabilities": NAMES}, "url", "verifiedDate",
)  # fmt: skip
LOOKUP: Final = _or_matches(
    {
        "agent": _TEXT,
        "capability": _shape(
            {"name": _TEXT, "category": _TEXT, "available": _FLAG, "tier": _MAYBE_TEXT, "maturityLevel": _MAYBE_TEXT,
             "description": _TEXT, "implementationNotes": _NOTES,
             "sources": _rows({"url": _TEXT, "verifiedDate": _MAYBE_TEXT}, "url", "verifiedDate"), "status": _TEXT},
            "name", "category", "available",
        ),
    },
    ("agent", "capability"),
)  # fmt: skip
COMPARE: Final = _or_matches(
    {
        "capability": _TEXT,
        "comparison": _rows(
            {"agent": _TEXT, "available": _FLAG, "tier": _MAYBE_TEXT, "maturityLevel": _MAYBE_TEXT,
             "implementationNotes": _NOTES}, "agent", "available",
        ),
    },
    ("capability", "comparison"),
)  # fmt: skip
LIST: Final = {
    "type": "object",
    "properties": {
        "agent": _TEXT,
        "category": _TEXT,
        "capabilities": _LISTED,
        "agents": _rows({"agent": _TEXT, "capabilities": _LISTED}, "agent", "capabilities"),
    },
    "anyOf": [{"required": ["agent", "capabilities"]}, {"required": ["category", "agents"]}],
}
SOURCES: Final = _or_matches(
    {
        "agent": _TEXT,
        "capability": _TEXT,
        "status": _TEXT,
        "sources": _CITED,
        "agents": _rows({"agent": _TEXT, "status": _TEXT, "sources": _CITED}, "agent", "sources"),
    },
    ("sources",),
    ("agents",),
)
INVENTORY: Final = _shape(
    {
        "inventory_version": COUNT,
        "summary": _TEXT,
        "connected_server_names": NAMES,
        "enabled_server_names": NAMES,
        "registered_tool_count": COUNT,
        "servers": _rows(
            {"name": _TEXT, "enabled": _FLAG, "connected": _FLAG, "last_error": _MAYBE_TEXT, "tool_count": COUNT,
             "tools": NAMES}, "name", "enabled", "connected", "last_error", "tool_count", "tools",
        ),
    },
    "inventory_version", "summary", "connected_server_names", "enabled_server_names", "registered_tool_count",
    "servers",
)  # fmt: skip
_OVERLAY_NAMES: Final = (
    "connected_server_names", "enabled_server_names", "connected_catalog_server_names",
    "connected_disabled_server_names", "cataloged_not_connected_server_names", "cataloged_disabled_server_names",
    "uncataloged_not_connected_server_names", "uncataloged_disabled_server_names",
)  # fmt: skip
_NEXT: Final = {"type": "string", "enum": list(gaps.NEXT_ACTIONS)}
CATALOG: Final = _shape(
    {
        "servers": _rows(
            {"slug": _MAYBE_TEXT, "name": _TEXT, "server_name": _MAYBE_TEXT,
             "connection_status": {"type": "string", "enum": list(CONNECTION_STATUSES)},
             "execution_available": _FLAG, "next_action": _NEXT},
            "slug", "name", "server_name", "connection_status", "execution_available", "next_action",
        ),
        "omitted": COUNT,
        "registries": _rows({"registry": _TEXT, "found": COUNT, "read_at": {"type": ["number", "null"]}},
                            "registry", "found", "read_at"),
        "overlay": _shape(
            {"inventory_version": COUNT, **dict.fromkeys(_OVERLAY_NAMES, NAMES),
             "uncataloged_connected_servers": _rows({"name": _TEXT}, "name"),
             "status_counts": _shape(dict.fromkeys(CONNECTION_STATUSES, COUNT), *CONNECTION_STATUSES)},
            "inventory_version", *_OVERLAY_NAMES, "uncataloged_connected_servers", "status_counts",
        ),
    },
    "servers", "overlay",
)  # fmt: skip
_ACTOR: Final = _shape({"kind": _TEXT}, "kind")
_APPROVAL: Final = {
    "type": ["object", "null"],
    "properties": {
        "approval_id": _TEXT,
        "request_type": _TEXT,
        "requested_by": _ACTOR,
        "target_resource": _shape({"type": _TEXT, "id": _TEXT}, "type", "id"),
        "rationale": _TEXT,
        "context": {"type": "object"},
        "status": {"type": "string", "enum": list(approval_rules.STATUSES)},
        "expires_at_ms": COUNT,
        "reviewed_by": _MAYBE_TEXT,
        "reviewed_at_ms": {"type": ["integer", "null"]},
        "review_notes": _MAYBE_TEXT,
    },
}
REQUESTED: Final = _shape(
    {
        "ok": _FLAG,
        "approval": _APPROVAL,
        "requested_by": _ACTOR,
        "classification": _shape(
            {"state": {"type": "string", "enum": list(gaps.STATES)}, "gap": {"type": "string", "enum": list(gaps.GAPS)},
             "available_tools": NAMES, "next_action": _NEXT, "approval_needed": _FLAG, "reason": _TEXT},
            "state", "gap", "available_tools", "next_action", "approval_needed", "reason",
        ),
        "note": _TEXT,
        "connect_command": _TEXT,
    },
    "ok", "approval", "requested_by", "classification", "note",
)  # fmt: skip


READER: Final = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
WRITER: Final = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
MOST_ROWS: Final = 200


def definitions(agents: Iterable[str]) -> list[dict[str, Any]]:
    """All seven, fresh on every call. `agents` are named in a description, because a model has to know them."""
    any_words = _said("Capability, in any words")
    agent = _said("Agent ID")
    tools = [
        _tool(
            "lookup_capability",
            "Look up a capability",
            "What can one coding agent do for one capability, and how is it set up?",
            _object({"agent": _said(f"Agent ID: {', '.join(agents)}"), "capability": any_words}, "agent", "capability"),
            LOOKUP,
        ),
        _tool(
            "compare_capability",
            "Compare a capability",
            "How does one capability differ across coding agents?",
            _object({"capability": any_words, "agents": _some_of("Only these agent IDs; default all")}, "capability"),
            COMPARE,
        ),
        _tool(
            "list_capabilities",
            "List capabilities",
            "Which capabilities does an agent have, or which are in a category? Give at least one parameter; "
            "lookup_capability has the depth.",
            _object({"agent": agent, "category": _said(", ".join(CATEGORIES))}),
            LIST,
        ),
        _tool(
            "get_sources",
            "Get sources",
            "Which pages vouch for what is said of an agent or a capability?",
            _object({"agent": agent, "capability": any_words}),
            SOURCES,
        ),
        _tool(
            "mcp_list",
            "List this gateway's MCP servers",
            "The MCP servers of this gateway: what is connected now, with its tools. Ask this first.",
            _object({}),
            INVENTORY,
        ),
        _tool(
            "mcp_list_catalog",
            "List known MCP servers",
            "Well-known MCP servers and whether each is connected here. Known is not usable: execution_available says "
            "what is, next_action what to do. With a source of registry:… nobody vouches for it.",
            _object({"query": _said("What it is for, or a name"), "limit": _between(1, MOST_ROWS, default=20)}),
            CATALOG,
        ),
        _tool(
            "mcp_request_capability",
            "Ask a person for an MCP server",
            "Ask a person to connect an MCP server, after mcp_list and mcp_list_catalog. It connects and runs nothing; "
            "the answer is proof that the request was filed. For a need in free words use the gateway's "
            "request_capability, where it has that.",
            _request(),
            REQUESTED,
            WRITER,
        ),
    ]
    return deepcopy(tools)


def _tool(
    name: str, title: str, about: str, params: Mapping[str, Any], gives: Mapping[str, Any],
    hints: Mapping[str, bool] = READER,
) -> dict[str, Any]:  # fmt: skip
    return {
        "name": name, "title": title, "description": about,
        "inputSchema": params, "outputSchema": gives, "annotations": hints,
    }  # fmt: skip


def _request() -> dict[str, Any]:
    return _object(
        {
            "agent_id": _limited("agent_id", "Your name, as a label"),
            "mcp_name": _limited("mcp_name", "The server, like notion"),
            "rationale": _limited("rationale", "What the user needs it for"),
            "catalog_slug": _limited("catalog_slug", "Its slug in mcp_list_catalog"),
            "requested_tools": {**NAMES, "maxItems": approval_rules.MOST_TOOLS},
            "context": {"type": "object"},
            "expires_at_ms": {**COUNT, "description": "Unix milliseconds; default in 72 hours, at most 30 days"},
        },
        "agent_id", "mcp_name", "rationale",
    )  # fmt: skip


def _limited(name: str, about: str) -> dict[str, Any]:
    return {**_said(about), "maxLength": approval_rules.TEXT_LIMITS[name]}


def _said(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _some_of(description: str) -> dict[str, Any]:
    return {**NAMES, "minItems": 1, "description": description}


def _between(least: int, most: int, *, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default}


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**shape, "required": list(required)} if required else shape
