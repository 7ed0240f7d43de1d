"""The five tools an agent sees at `/mcp`, and the five sentences that tell it how to use them (SURF-1).

Every word here is paid for by each agent on each turn, so a test holds the whole list under 1,200 tokens.
"""

from __future__ import annotations

from typing import Any, Final

from mcpproxy_py.core.policy import localtools
from mcpproxy_py.core.policy.declaration import MAX_REASON
from mcpproxy_py.core.values import OPERATIONS, SENSITIVITIES, VARIANT_OF, Operation

INSTRUCTIONS: Final = (
    "This gateway reaches many MCP servers through a few tools. "
    "Find a tool with retrieve_tools, then call it by its server:tool name with the variant its call_with names. "
    "Declare in intent.operation_type what you mean to do; it must equal the variant: "
    "read looks, write changes, destructive deletes or cannot be undone. "
    "If a call is refused, its message says what to call instead: do that only if it is what you mean. "
    "If no tool fits what the user needs, say so once with request_capability."
)

USAGE: Final = (
    "Use call_tool_read for read-only operations, call_tool_write for modifications, call_tool_destructive for "
    "deletions. Intent must match tool variant. Each result's call_with names the variant to use."
)

PURPOSE: Final[dict[Operation, str]] = {
    "read": "Call an upstream tool that only reads.",
    "write": "Call an upstream tool that creates or changes something.",
    "destructive": "Call an upstream tool that deletes or cannot be undone.",
}

HINTS: Final[dict[Operation, dict[str, bool]]] = {
    "read": {"readOnlyHint": True, "destructiveHint": False},
    "write": {"readOnlyHint": False, "destructiveHint": False},
    "destructive": {"readOnlyHint": False, "destructiveHint": True},
}

REQUEST_CAPABILITY: Final = (
    "Report something the user needs that no tool does, or that a better suited tool would do, even when you can "
    "work around it. It runs nothing and only tells the maintainers what to add: use it freely, then go on. "
    "To ask a person for a certain MCP server, use catalog:mcp_request_capability."
)

ACKNOWLEDGEMENT: Final = (
    "Noted, thank you: the people who maintain this gateway will see that this was missing. "
    "Nothing was run. Please go on with the tools that are available."
)

RETRIEVE_OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "tools": {"type": "array", "items": {"type": "object", "required": ["name", "score", "server", "call_with"]}},
        "usage_instructions": {"type": "string"},
        "total": {"type": "integer"},
    },
    "required": ["tools", "usage_instructions", "total"],
}


def definitions(*, schema: str = "nested", wishes: bool = True, wish_text: str | None = None) -> list[dict[str, Any]]:
    """The gate's tools as wire objects, fresh on every call so that no caller can corrupt another's."""
    tools = [_retrieve_tools(), *(_variant(operation, schema) for operation in OPERATIONS)]
    return [*tools, _request_capability(wish_text)] if wishes else tools


def _retrieve_tools() -> dict[str, Any]:
    return {
        "name": "retrieve_tools",
        "description": "Search the tools of all connected servers. Start here.",
        "inputSchema": localtools.input_schema("retrieve_tools"),
        "outputSchema": {**RETRIEVE_OUTPUT},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def _variant(operation: Operation, schema: str) -> dict[str, Any]:
    intent = _flat_intent(operation) if schema == "flat" else _nested_intent(operation)
    required = ["name", "intent_operation_type" if schema == "flat" else "intent"]
    return {
        "name": VARIANT_OF[operation],
        "description": f"{PURPOSE[operation]} intent.operation_type must be '{operation}'.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "server:tool from retrieve_tools"},
                "args": {"type": "object"},
                "args_json": {"type": "string", "description": "args as JSON text"},
                **intent,
            },
            "required": required,
        },
        "annotations": dict(HINTS[operation]),
    }


def _intent_fields(operation: Operation) -> dict[str, dict[str, Any]]:
    return {
        "operation_type": {"type": "string", "enum": [operation]},
        "data_sensitivity": {"type": "string", "enum": list(SENSITIVITIES)},
        "reason": {"type": "string", "maxLength": MAX_REASON},
    }


def _nested_intent(operation: Operation) -> dict[str, Any]:
    fields = _intent_fields(operation)
    return {"intent": {"type": "object", "properties": fields, "required": ["operation_type"]}}


def _flat_intent(operation: Operation) -> dict[str, Any]:
    return {f"intent_{field}": schema for field, schema in _intent_fields(operation).items()}


def _request_capability(text: str | None) -> dict[str, Any]:
    return {
        "name": "request_capability",
        "description": text or REQUEST_CAPABILITY,
        "inputSchema": localtools.input_schema("request_capability"),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }
