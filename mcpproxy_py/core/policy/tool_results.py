"""Answers of the gateway's own, as MCP tool results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.values import VARIANT_OF, Refusal

WARNING_KEY: Final = "mcpproxy/warning"
REFUSAL_KEY: Final = "mcpproxy/refusal"
CONFIRM_KEY: Final = "mcpproxy/confirm"
CUT_KEY: Final = "mcpproxy/cut"
"""Keys that only we write: `own_meta` takes them out of whatever comes from outside."""


def refused(refusal: Refusal) -> dict[str, Any]:
    """A refusal the model can mend: the message to read, and the same in parts for a program (GATE-5). A server may
    give a result that looks like it, but for our mark."""
    return {
        "content": [{"type": "text", "text": _text(refusal)}],
        "structuredContent": refusal_json(refusal),
        "isError": True,
        "_meta": {REFUSAL_KEY: {"code": refusal.code.value, "rule": refusal.rule}},
    }


def mark(refusal: Refusal) -> dict[str, Any]:
    """The same mark for an error's data."""
    return {REFUSAL_KEY: {"code": refusal.code.value, "rule": refusal.rule}}


def refusal_json(refusal: Refusal) -> dict[str, Any]:
    return {
        "code": refusal.code.value,
        "message": refusal.message,
        "tool": refusal.name,
        "variant": VARIANT_OF[refusal.variant] if refusal.variant else None,
        "rule": refusal.rule,
        "remedy": refusal.remedy,
        **refusal.details,
    }


def _text(refusal: Refusal) -> str:
    """The exact message; a schema that would help the model mend its arguments comes below it."""
    schema = refusal.details.get("inputSchema")
    if schema is None:
        return refusal.message
    return f"{refusal.message}\nIts inputSchema: {json.dumps(schema, ensure_ascii=False, default=str)}"


def text(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}]}


def structured(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same value twice: for programs, and as text for hosts that pass only text to the model."""
    shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return {"content": [{"type": "text", "text": shown}], "structuredContent": dict(value)}


def with_warning(result: Mapping[str, Any], warning: str) -> dict[str, Any]:
    """The upstream's result with our warning in its `_meta`; the upstream's own object is left alone."""
    meta = json_values.as_object(result.get("_meta")) or {}
    return {**result, "_meta": {**meta, WARNING_KEY: warning}}
