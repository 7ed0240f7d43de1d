"""The protocol's extensions that surfaces can serve to the end (SURF-10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.values import Surface

EXTENSIONS: Final = "extensions"
"""Where clients and servers declare them, among their capabilities."""
UI: Final = "io.modelcontextprotocol/ui"
SKILLS: Final = "io.modelcontextprotocol/skills"
DIRECTORIES: Final = "directoryRead"
"""Of a server with skills: that it lists directories as well."""
TASKS: Final = "io.modelcontextprotocol/tasks"
PAGE: Final = "text/html;profile=mcp-app"
"""What pages of apps are; another type would be free text of a client's."""


def _page_types(said: Mapping[str, Any]) -> dict[str, Any]:
    kinds = json_values.as_array(said.get("mimeTypes"))
    return {} if kinds is None else {"mimeTypes": [PAGE] if PAGE in kinds else []}


def _nothing(said: Mapping[str, Any]) -> dict[str, Any]:
    return {}


FORWARDED: Final[Mapping[Surface, Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]]] = {
    "direct": {UI: _page_types, SKILLS: _nothing},
    "passthrough": {TASKS: _nothing, UI: _page_types, SKILLS: _nothing},
}
"""Which of a client's extensions a server hears of, and what of their settings: no more than the protocol defines. At
any other surface: of none. At direct the gateway knows itself which servers have tasks."""


def forwarded(declared: object, surface: Surface) -> dict[str, Any]:
    known, said = FORWARDED.get(surface, {}), json_values.as_object(declared) or {}
    return {
        name: settings(given)
        for name, settings in known.items()
        if (given := json_values.as_object(said.get(name))) is not None
    }


def of_server(capabilities: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The settings with which a server declares this extension; `None` where it does not."""
    return json_values.as_object((json_values.as_object(capabilities.get(EXTENSIONS)) or {}).get(name))
