"""A tool as the direct surface shows it: its own wire object under another name, with the hints that count."""

from __future__ import annotations

from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.rungs import has_own_intent
from mcpproxy_py.core.policy.surface_tools import HINTS
from mcpproxy_py.core.policy.tool_class import class_of, effective
from mcpproxy_py.core.values import OPERATIONS, Operation, Policy, Tool

PASSIVE_INTENT: Final = {
    "type": "string",
    "description": "Optional: what you want to achieve with this call, in a sentence. It is recorded, not checked.",
}


def shown_directly(tool: Tool, policy: Policy) -> dict[str, Any]:
    """A fresh object; the upstream's own is left alone."""
    shown = {**tool.wire, "name": tool.direct_name}
    if not has_own_intent(tool):
        shown["inputSchema"] = _with_intent(tool.wire.get("inputSchema"))
    if (counted := _other_class(tool, policy)) is not None:
        shown["annotations"] = {**tool.annotations, **HINTS[counted]}
    return shown


def _with_intent(schema: object) -> dict[str, Any]:
    """Never required: what was callable without it stays callable without it (MISS-2)."""
    own = json_values.as_object(schema) or {"type": "object"}
    return {
        **own,
        "properties": {**(json_values.as_object(own.get("properties")) or {}), "intent": dict(PASSIVE_INTENT)},
    }


def _other_class(tool: Tool, policy: Policy) -> Operation | None:
    """The class that hints must show, where it is not what the server's own hints say: after an override, where
    they are not believed, and where the operator said what unannotated tools count as (SURF-2, GATE-8)."""
    highest, origin = class_of(tool, None)
    counted = effective(tool, highest, policy)
    if counted == tool.declared and origin != "untrusted":
        return None
    if counted == "unknown":
        return "write" if tool.annotations else None
    return OPERATIONS[OPERATIONS.index(counted)]
