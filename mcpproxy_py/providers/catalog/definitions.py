"""The seven tools as wire objects (CAT-1, CAT-4). Every word is paid for by each agent that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcpproxy_py.core import approvals, gap
from mcpproxy_py.core.catalog.overlay import CONNECTION_STATUSES
from mcpproxy_py.core.catalog.values import CATEGORIES

READER: Final = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
WRITER: Final = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
MOST_ROWS: Final = 200

_TEXT: Final = {"type": "string"}
_MAYBE_TEXT: Final = {"type": ["string", "null"]}
_FLAG: Final = {"type": "boolean"}
_COUNT: Final = {"type": "integer"}
_NAMES: Final = {"type": "array", "items": _TEXT}


def definitions(agents: Iterable[str]) -> list[dict[str, Any]]:
    """All seven, fresh on every call. `agents` are named in the descriptions, because a model has to know them."""
    ids = ", ".join(agents)
    return [
        _reader("lookup_capability", "What can one coding agent do for one capability, and how is it set up?",
                _object({"agent": _said(f"Agent ID: {ids}"), "capability": _said("Capability, in any words")},
                        "agent", "capability"), _LOOKUP),
        _reader("compare_capability", "How does one capability differ across coding agents?",
                _object({"capability": _said("Capability, in any words"),
                         "agents": {**_NAMES, "minItems": 1, "description": "Only these agent IDs (default: all)"}},
                        "capability"), _COMPARE),
        _reader("list_capabilities", "Which capabilities does an agent have, or which are in a category? "
                "Give at least one parameter; lookup_capability has the depth.",
                _object({"agent": _said("Agent ID"), "category": _said(", ".join(CATEGORIES))}), _LIST),
        _reader("get_sources", "Which pages vouch for what is said of an agent or a capability?",
                _object({"agent": _said("Agent ID"), "capability": _said("Capability, in any words")}), _SOURCES),
        _reader("mcp_list", "The MCP servers this gateway has: what is connected now, with their tools. Ask this first.",
                _object({}), _INVENTORY),
        _reader("mcp_list_catalog", "Well-known MCP servers and whether each is connected here. Known is not usable: "
                "execution_available says what is, next_action what to do.",
                _object({"query": _said("What it is for, or a name"),
                         "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": 20}}), _CATALOG),
        {
            "name": "mcp_request_capability",
            "title": "Ask a person for an MCP server",
            "description": "Ask a person to connect an MCP server, after mcp_list and mcp_list_catalog. It connects and "
            "runs nothing; the answer is proof that the request was filed. For a wish in free words use "
            "request_capability of the gateway.",
            "inputSchema": _request_schema(),
            "outputSchema": _REQUESTED,
            "annotations": dict(WRITER),
        },
    ]  # fmt: skip


def _reader(name: str, description: str, params: dict[str, Any], gives: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "title": name.replace("_", " ").capitalize().replace("Mcp", "MCP"),
        "description": description,
        "inputSchema": params,
        "outputSchema": dict(gives),
        "annotations": dict(READER),
    }


def _request_schema() -> dict[str, Any]:
    limits = approvals.TEXT_LIMITS
    return _object(
        {
            "agent_id": {**_said("Your name, as a label"), "maxLength": limits["agent_id"]},
            "mcp_name": {**_said("The server, like notion"), "maxLength": limits["mcp_name"]},
            "rationale": {**_said("What the user needs it for"), "maxLength": limits["rationale"]},
            "catalog_slug": {**_said("Its slug in mcp_list_catalog"), "maxLength": limits["catalog_slug"]},
            "requested_tools": {**_NAMES, "maxItems": approvals.MOST_TOOLS},
            "context": {"type": "object"},
            "expires_at_ms": {**_COUNT, "description": "Unix milliseconds; default in 72 hours, at most 30 days"},
        },
        "agent_id", "mcp_name", "rationale",
    )  # fmt: skip


def _said(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**shape, "required": list(required)} if required else shape


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
    "properties": {"setup": _TEXT, "configFile": _TEXT, "startUrl": _TEXT, "gotchas": _NAMES},
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
     "capabilities": _NAMES}, "url", "verifiedDate",
)  # fmt: skip
_LOOKUP: Final = _or_matches(
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
_COMPARE: Final = _or_matches(
    {
        "capability": _TEXT,
        "comparison": _rows(
            {"agent": _TEXT, "available": _FLAG, "tier": _MAYBE_TEXT, "maturityLevel": _MAYBE_TEXT,
             "implementationNotes": _NOTES}, "agent", "available",
        ),
    },
    ("capability", "comparison"),
)  # fmt: skip
_LIST: Final = {
    "type": "object",
    "properties": {
        "agent": _TEXT,
        "category": _TEXT,
        "capabilities": _LISTED,
        "agents": _rows({"agent": _TEXT, "capabilities": _LISTED}, "agent", "capabilities"),
    },
    "anyOf": [{"required": ["agent", "capabilities"]}, {"required": ["category", "agents"]}],
}
_SOURCES: Final = _or_matches(
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
_INVENTORY: Final = _shape(
    {
        "inventory_version": _COUNT,
        "summary": _TEXT,
        "connected_server_names": _NAMES,
        "enabled_server_names": _NAMES,
        "registered_tool_count": _COUNT,
        "servers": _rows(
            {"name": _TEXT, "enabled": _FLAG, "connected": _FLAG, "last_error": _MAYBE_TEXT, "tool_count": _COUNT,
             "tools": _NAMES}, "name", "enabled", "connected", "last_error", "tool_count", "tools",
        ),
    },
    "inventory_version", "summary", "connected_server_names", "enabled_server_names", "registered_tool_count", "servers",
)  # fmt: skip
_OVERLAY_NAMES: Final = (
    "connected_server_names", "enabled_server_names", "connected_catalog_server_names",
    "connected_disabled_server_names", "cataloged_not_connected_server_names", "cataloged_disabled_server_names",
    "uncataloged_not_connected_server_names", "uncataloged_disabled_server_names",
)  # fmt: skip
_NEXT: Final = {"type": "string", "enum": list(gap.NEXT_ACTIONS)}
_CATALOG: Final = _shape(
    {
        "servers": _rows(
            {"slug": _MAYBE_TEXT, "name": _TEXT, "server_name": _MAYBE_TEXT,
             "connection_status": {"type": "string", "enum": list(CONNECTION_STATUSES)},
             "execution_available": _FLAG, "next_action": _NEXT},
            "slug", "name", "server_name", "connection_status", "execution_available", "next_action",
        ),
        "omitted": _COUNT,
        "overlay": _shape(
            {"inventory_version": _COUNT, **dict.fromkeys(_OVERLAY_NAMES, _NAMES),
             "uncataloged_connected_servers": _rows({"name": _TEXT}, "name"),
             "status_counts": _shape(dict.fromkeys(CONNECTION_STATUSES, _COUNT), *CONNECTION_STATUSES)},
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
        "status": {"type": "string", "enum": list(approvals.STATUSES)},
        "expires_at_ms": _COUNT,
        "reviewed_by": _MAYBE_TEXT,
        "reviewed_at_ms": {"type": ["integer", "null"]},
        "review_notes": _MAYBE_TEXT,
    },
}
_REQUESTED: Final = _shape(
    {
        "ok": _FLAG,
        "approval": _APPROVAL,
        "requested_by": _ACTOR,
        "classification": _shape(
            {"state": {"type": "string", "enum": list(gap.STATES)}, "gap": {"type": "string", "enum": list(gap.GAPS)},
             "available_tools": _NAMES, "next_action": _NEXT, "approval_needed": _FLAG, "reason": _TEXT},
            "state", "gap", "available_tools", "next_action", "approval_needed", "reason",
        ),
        "note": _TEXT,
        "connect_command": _TEXT,
    },
    "ok", "approval", "requested_by", "classification", "note",
)  # fmt: skip
