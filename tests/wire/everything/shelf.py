"""Resources, prompts and completions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from . import apps, skills
from .calls import Call, elicit, form, wanted
from .content import IMAGE, PICTURE, embedded

RESOURCE_NOT_FOUND = -32002
"""What the handshake revisions say; the modern one says that the params are invalid."""
WATCHED = "test://watched-resource"
TEMPLATE = "test://template/{id}/data"
RESOURCES = [
    {"uri": "test://static-text", "name": "static-text", "title": "Text", "mimeType": "text/plain", "x-kept": 1},
    {"uri": "test://static-binary", "name": "static-binary", "title": "Picture", "mimeType": "image/png"},
    {"uri": WATCHED, "name": "watched", "title": "Watched", "mimeType": "text/plain"},
    *apps.RESOURCES,
    *skills.RESOURCES,
]
TEMPLATES = [{"uriTemplate": TEMPLATE, "name": "template", "title": "By id", "mimeType": "application/json"}]
CONTENTS: dict[str, dict[str, Any]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "The words of a text that never changes."},
    "test://static-binary": {"mimeType": "image/png", "blob": PICTURE},
    WATCHED: {"mimeType": "text/plain", "text": "Nothing yet"},
    **apps.CONTENTS,
    **skills.CONTENTS,
}


async def read(call: Call) -> dict[str, Any]:
    uri = call.params.get("uri")
    if not isinstance(uri, str):
        raise MCPError(INVALID_PARAMS, "uri must be a string")
    return {"contents": [{"uri": uri, **_contents(uri, call.modern)}]}


def _contents(uri: str, modern: bool) -> Mapping[str, Any]:
    if found := re.fullmatch(r"test://template/([^/]+)/data", uri):
        return {"mimeType": "application/json", "text": json.dumps({"id": found[1], "data": f"Data for {found[1]}"})}
    if uri not in CONTENTS:
        code = INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
        raise MCPError(code, f"There is no resource {uri}", {"uri": uri})
    return CONTENTS[uri]


def _argument(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"The {name}", "required": True}


PROMPTS = [
    {"name": "test_simple_prompt", "description": "One sentence"},
    {
        "name": "test_prompt_with_arguments",
        "description": "A sentence with two arguments",
        "arguments": [_argument("arg1"), _argument("arg2")],
    },
    {
        "name": "test_prompt_with_embedded_resource",
        "description": "A document and what to do with it",
        "arguments": [_argument("resourceUri")],
    },
    {"name": "test_prompt_with_image", "description": "A picture and what to do with it"},
    {"name": "test_input_required_result_prompt", "description": "Asks before it answers"},
]


def _said(*contents: str | Mapping[str, Any]) -> dict[str, Any]:
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in contents]
    return {"messages": [{"role": "user", "content": part} for part in parts]}


async def prompt(call: Call) -> dict[str, Any]:
    name, arguments = call.params.get("name"), call.arguments
    match name:
        case "test_simple_prompt":
            return _said("A simple prompt.")
        case "test_prompt_with_arguments":
            return _said(f"arg1 is {arguments.get('arg1')}, arg2 is {arguments.get('arg2')}")
        case "test_prompt_with_embedded_resource":
            return _said(embedded(str(arguments.get("resourceUri")), "An embedded document."), "Read this.")
        case "test_prompt_with_image":
            return _said(IMAGE, "Look at this.")
        case "test_input_required_result_prompt":
            return _asked(call)
        case _:
            raise MCPError(INVALID_PARAMS, f"There is no prompt {name}")


def _asked(call: Call) -> dict[str, Any]:
    filled = form(call.answers.get("user_context"))
    if filled is None:
        return wanted({"user_context": elicit("What context should the prompt use?", context="string")})
    return _said(f"In the context of {filled.get('context')}")


async def complete(call: Call) -> dict[str, Any]:
    typed = str((call.params.get("argument") or {}).get("value", ""))
    values = [word for word in ("paris", "park", "party", "testing") if word.startswith(typed)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}
