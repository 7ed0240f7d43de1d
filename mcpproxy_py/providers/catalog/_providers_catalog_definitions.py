"""The seven tools as wire objects (CAT-1, CAT-4). Every word is paid for by each agent that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

from mcpproxy_py.core.catalog import wishes
from mcpproxy_py.core.catalog.model import CATEGORIES
from mcpproxy_py.providers.catalog import definitions as catalog_definitions

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
            catalog_definitions.LOOKUP,
        ),
        _tool(
            "compare_capability",
            "Compare a capability",
            "How does one capability differ across coding agents?",
            _object({"capability": any_words, "agents": _some_of("Only these agent IDs; default all")}, "capability"),
            catalog_definitions.COMPARE,
        ),
        _tool(
            "list_capabilities",
            "List capabilities",
            "Which capabilities does an agent have, or which are in a category? Give at least one parameter; "
            "lookup_capability has the depth.",
            _object({"agent": agent, "category": _said(", ".join(CATEGORIES))}),
            catalog_definitions.LIST,
        ),
        _tool(
            "get_sources",
            "Get sources",
            "Which pages vouch for what is said of an agent or a capability?",
            _object({"agent": agent, "capability": any_words}),
            catalog_definitions.SOURCES,
        ),
        _tool(
            "mcp_list",
            "List this gateway's MCP servers",
            "The MCP servers of this gateway: what is connected now, with its tools. Ask this first.",
            _object({}),
            catalog_definitions.INVENTORY,
        ),
        _tool(
            "mcp_list_catalog",
            "List known MCP servers",
            "Well-known MCP servers and whether each is connected here. Known is not usable: execution_available says "
            "what is, next_action what to do.",
            _object({"query": _said("What it is for, or a name"), "limit": _between(1, MOST_ROWS, default=20)}),
            catalog_definitions.CATALOG,
        ),
        _tool(
            "mcp_request_capability",
            "Ask a person for an MCP server",
            "Ask a person to connect an MCP server, after mcp_list and mcp_list_catalog. It connects and runs nothing; "
            "the answer is proof that the request was filed. For a need in free words use the gateway's "
            "request_capability, where it has that.",
            _request(),
            catalog_definitions.REQUESTED,
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
            "requested_tools": {**catalog_definitions.NAMES, "maxItems": wishes.MOST_TOOLS},
            "context": {"type": "object"},
            "expires_at_ms": {**catalog_definitions.COUNT, "description": "Unix milliseconds; default in 72 hours, at most 30 days"},
        },
        "agent_id", "mcp_name", "rationale",
    )  # fmt: skip


def _limited(name: str, about: str) -> dict[str, Any]:
    return {**_said(about), "maxLength": wishes.TEXT_LIMITS[name]}


def _said(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _some_of(description: str) -> dict[str, Any]:
    return {**catalog_definitions.NAMES, "minItems": 1, "description": description}


def _between(least: int, most: int, *, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default}


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**shape, "required": list(required)} if required else shape
