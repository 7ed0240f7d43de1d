"""The shapes of the catalog's answers, as the `outputSchema` of each tool.

What may still grow is left open; what the documented shapes promise is required.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.catalog import approval_rules, gap
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
_NEXT: Final = {"type": "string", "enum": list(gap.NEXT_ACTIONS)}
CATALOG: Final = _shape(
    {
        "servers": _rows(
            {"slug": _MAYBE_TEXT, "name": _TEXT, "server_name": _MAYBE_TEXT,
             "connection_status": {"type": "string", "enum": list(CONNECTION_STATUSES)},
             "execution_available": _FLAG, "next_action": _NEXT},
            "slug", "name", "server_name", "connection_status", "execution_available", "next_action",
        ),
        "omitted": COUNT,
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
            {"state": {"type": "string", "enum": list(gap.STATES)}, "gap": {"type": "string", "enum": list(gap.GAPS)},
             "available_tools": NAMES, "next_action": _NEXT, "approval_needed": _FLAG, "reason": _TEXT},
            "state", "gap", "available_tools", "next_action", "approval_needed", "reason",
        ),
        "note": _TEXT,
        "connect_command": _TEXT,
    },
    "ok", "approval", "requested_by", "classification", "note",
)  # fmt: skip
