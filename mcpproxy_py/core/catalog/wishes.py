"""What an agent may ask of a person, checked and bounded field by field (CAT-6)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.catalog.refused import NotAnswered
from mcpproxy_py.core.catalog.servers import key

MOST_TOOLS: Final = 50
MAX_CONTEXT: Final = 8_000
TEXT_LIMITS: Final[Mapping[str, int]] = {"agent_id": 128, "mcp_name": 128, "rationale": 2_000, "catalog_slug": 128}
MAX_TOOL_NAME: Final = 256


@dataclass(frozen=True, slots=True)
class Wish:
    """What an agent asks for, checked. `subject` is what makes two wishes the same."""

    agent_id: str
    mcp_name: str
    rationale: str
    catalog_slug: str | None = None
    requested_tools: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    expires_at_ms: int | None = None

    @property
    def subject(self) -> str:
        """The server alone: a denied wish must not come back by naming another tool, agent or reason."""
        return key(self.catalog_slug or self.mcp_name)


def retargeted(wished: Wish, slug: str | None, server: str | None) -> Wish:
    """The wish under the slug of its catalog entry or the name of its configured server, where it has one: two
    spellings of one server are one subject."""
    return replace(wished, catalog_slug=slug, mcp_name=wished.mcp_name if slug or server is None else server)


def parse_wish(arguments: Mapping[str, Any]) -> Wish:
    """The arguments of `mcp_request_capability` as a wish. Raises `NotAnswered` with what is wrong."""
    texts = {name: _text(arguments, name) for name in TEXT_LIMITS}
    for name in ("agent_id", "mcp_name", "rationale"):
        if texts[name] is None:
            raise NotAnswered(f"{name} is required and must not be empty")
    if not key(texts["mcp_name"] or ""):
        raise NotAnswered("mcp_name must name a server with letters or digits, like notion")
    return Wish(
        agent_id=texts["agent_id"] or "",
        mcp_name=texts["mcp_name"] or "",
        rationale=texts["rationale"] or "",
        catalog_slug=texts["catalog_slug"],
        requested_tools=_tools(arguments.get("requested_tools")),
        context=_context(arguments.get("context")),
        expires_at_ms=_whole(arguments.get("expires_at_ms")),
    )


def _text(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise NotAnswered(f"{name} must be a string, not {json_values.kind(value)}")
    if flaw := json_values.flaw(value):
        raise NotAnswered(f"{name}: {flaw}")
    text = value.strip()
    if len(text) > TEXT_LIMITS[name]:
        raise NotAnswered(f"{name} is {len(text)} characters long; at most {TEXT_LIMITS[name]} are allowed")
    return text or None


def _tools(value: Any) -> tuple[str, ...]:
    names = [] if value is None else json_values.as_array(value)
    if names is None:
        raise NotAnswered(f"requested_tools must be an array of tool names, not {json_values.kind(value)}")
    if len(names) > MOST_TOOLS:
        raise NotAnswered(f"requested_tools has {len(names)} entries; at most {MOST_TOOLS} are allowed")
    return tuple(dict.fromkeys(_tool(name) for name in names))


def _tool(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_TOOL_NAME or not name.isprintable():
        raise NotAnswered(f"requested_tools: '{json_values.quoted(name)}' is not the name of a tool")
    return name.strip()


def _context(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    context = json_values.as_object(value)
    if context is None:
        raise NotAnswered(f"context must be an object, not {json_values.kind(value)}")
    if flaw := json_values.flaw(context):
        raise NotAnswered(f"context: {flaw}")
    size = len(json.dumps(context, ensure_ascii=False))
    if size > MAX_CONTEXT:
        raise NotAnswered(f"context is {size} characters of JSON; at most {MAX_CONTEXT} are allowed")
    return context


def _whole(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise NotAnswered(f"expires_at_ms must be a whole number of milliseconds since 1970, not {json_values.kind(value)}")
