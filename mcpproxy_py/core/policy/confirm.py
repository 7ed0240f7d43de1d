"""A person's yes before a call: what they are asked, and what counts as one (SEC-4).

The person decides by what they see, so the arguments are shown as they will be sent, and what an agent says of them is
called its words. Everything but a plain yes is a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.values import Relay, Route

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
    return {"message": "\n".join(lines), "requestedSchema": schema}


def objection(said: Mapping[str, Any]) -> str | None:
    """Why this answer is no yes; `None` where it is one."""
    content = json_values.as_object(said.get("content")) or {}
    if said.get("action") == "accept" and content.get(YES) is True:
        return None
    action = said.get("action")
    return _NO.get(action if isinstance(action, str) else "", "the answer was no answer")
