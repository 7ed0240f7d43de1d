"""The seven tools as wire objects (CAT-1, CAT-4). Every word is paid for by each agent that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcpproxy_py.core import wishes
from mcpproxy_py.core.catalog.values import CATEGORIES
from mcpproxy_py.providers.catalog import shapes

READER: Final = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
WRITER: Final = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
MOST_ROWS: Final = 200


def definitions(agents: Iterable[str]) -> list[dict[str, Any]]:
    """All seven, fresh on every call. `agents` are named in the descriptions, because a model has to know them."""
    ids = ", ".join(agents)
    return [
        _reader("lookup_capability", "What can one coding agent do for one capability, and how is it set up?",
                _object({"agent": _said(f"Agent ID: {ids}"), "capability": _said("Capability, in any words")},
                        "agent", "capability"), shapes.LOOKUP),
        _reader("compare_capability", "How does one capability differ across coding agents?",
                _object({"capability": _said("Capability, in any words"),
                         "agents": {**shapes.NAMES, "minItems": 1, "description": "Only these agent IDs (default: all)"}},
                        "capability"), shapes.COMPARE),
        _reader("list_capabilities", "Which capabilities does an agent have, or which are in a category? "
                "Give at least one parameter; lookup_capability has the depth.",
                _object({"agent": _said("Agent ID"), "category": _said(", ".join(CATEGORIES))}), shapes.LIST),
        _reader("get_sources", "Which pages vouch for what is said of an agent or a capability?",
                _object({"agent": _said("Agent ID"), "capability": _said("Capability, in any words")}), shapes.SOURCES),
        _reader("mcp_list", "The MCP servers of this gateway: what is connected now, with its tools. Ask this first.",
                _object({}), shapes.INVENTORY),
        _reader("mcp_list_catalog", "Well-known MCP servers and whether each is connected here. Known is not usable: "
                "execution_available says what is, next_action what to do.",
                _object({"query": _said("What it is for, or a name"),
                         "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": 20}}), shapes.CATALOG),
        {
            "name": "mcp_request_capability",
            "title": "Ask a person for an MCP server",
            "description": "Ask a person to connect an MCP server, after mcp_list and mcp_list_catalog. It connects "
            "and runs nothing; the answer is proof that the request was filed. For a wish in free words use the "
            "gateway's request_capability.",
            "inputSchema": _request_schema(),
            "outputSchema": shapes.REQUESTED,
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
    limits = wishes.TEXT_LIMITS
    return _object(
        {
            "agent_id": {**_said("Your name, as a label"), "maxLength": limits["agent_id"]},
            "mcp_name": {**_said("The server, like notion"), "maxLength": limits["mcp_name"]},
            "rationale": {**_said("What the user needs it for"), "maxLength": limits["rationale"]},
            "catalog_slug": {**_said("Its slug in mcp_list_catalog"), "maxLength": limits["catalog_slug"]},
            "requested_tools": {**shapes.NAMES, "maxItems": wishes.MOST_TOOLS},
            "context": {"type": "object"},
            "expires_at_ms": {**shapes.COUNT, "description": "Unix milliseconds; default in 72 hours, at most 30 days"},
        },
        "agent_id", "mcp_name", "rationale",
    )  # fmt: skip


def _said(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**shape, "required": list(required)} if required else shape
