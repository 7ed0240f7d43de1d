"""The table of tools: a definition exactly as it goes out, and the function behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .calls import Handler

TOOLS: dict[str, tuple[dict[str, Any], Handler]] = {}
READ = {"readOnlyHint": True}


def schema(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """An input schema; a property that is only a word is that type."""
    spelled = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()}
    return {"type": "object", "properties": spelled, **({"required": [*required]} if required else {})}


def tool(
    description: str,
    input_schema: Mapping[str, Any] | None = None,
    annotations: Mapping[str, Any] | None = READ,
    **more: Any,
) -> Callable[[Handler], Handler]:
    """Register a function under its own name. What else is given goes into the definition as it is."""

    def register(handler: Handler) -> Handler:
        name = handler.__name__  # type: ignore[attr-defined]
        definition = {"name": name, "description": description, "inputSchema": dict(input_schema or schema()), **more}
        TOOLS[name] = ({**definition, "annotations": dict(annotations)} if annotations else definition, handler)
        return handler

    return register
