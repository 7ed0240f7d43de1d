"""Answers of the gateway's own, as MCP tool results.

A person's yes before a call: what they are asked, and what counts as one (SEC-4).

The person decides by what they see, so the arguments are shown as they will be sent, and what an agent says of them is
called its words. Everything but a plain yes is a no.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.values import VARIANT_OF, Refusal, Relay, Route

WARNING_KEY: Final = "mcpproxy/warning"
REFUSAL_KEY: Final = "mcpproxy/refusal"
CONFIRM_KEY: Final = "mcpproxy/confirm"
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


METHOD: Final = "elicitation/create"
YES: Final = "allow"
MOST_SHOWN: Final = 4000
"""Characters of the arguments. A person does not read more; they are told that there is more."""
_REASON: Final = 1000
_NO: Final[Mapping[str, str]] = {
    "accept": "the person did not allow it",
    "decline": "the person declined",
    "cancel": "the person put the question away",
}


def takes_forms(capabilities: Mapping[str, Any]) -> bool:
    """Whether this client can show a person the question. One that declares nothing closer takes forms."""
    declared = json_values.as_object(capabilities.get("elicitation"))
    return declared is not None and (not declared or "form" in declared)


def question(to: Route | Relay) -> dict[str, Any]:
    """`to` is what was decided, and so exactly what will be sent."""
    arguments = json_values.text_of(to.args if isinstance(to, Route) else to.params)
    more = len(arguments) - MOST_SHOWN
    what = f"Tool: {to.full_name}"
    if isinstance(to, Relay):
        what = f"Request: {json_values.quoted(to.method, _REASON)} to the server {to.server}"
    lines = [
        f"Allow this {to.risk} call?",
        what,
        f"Arguments: {json_values.quoted(arguments, MOST_SHOWN)}" + (f" ({more} more characters)" if more > 0 else ""),
    ]
    if isinstance(to, Route) and to.intent.reason:
        lines.append(f"The agent's words: {json_values.quoted(to.intent.reason, _REASON)}")
    field = {"type": "boolean", "title": "Allow it", "default": False}
    schema = {"type": "object", "properties": {YES: field}, "required": [YES]}
    mark = {CONFIRM_KEY: {"tool": to.full_name, "class": to.risk}}
    return {"message": "\n".join(lines), "requestedSchema": schema, "_meta": mark}


def objection(said: Mapping[str, Any]) -> str | None:
    """Why this answer is no yes; `None` where it is one."""
    content = json_values.as_object(said.get("content")) or {}
    if said.get("action") == "accept" and content.get(YES) is True:
        return None
    action = said.get("action")
    return _NO.get(action if isinstance(action, str) else "", "the answer was no answer")
