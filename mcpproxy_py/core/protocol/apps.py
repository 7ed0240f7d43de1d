"""MCP Apps (`io.modelcontextprotocol/ui`): what a tool's `_meta` says of the page that hosts show for it (SURF-10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol.server_uris import addressed
from mcpproxy_py.core.values import UNDECLARING, Surface

META: Final = "_meta"
KEY: Final = "ui"
PAGE: Final = "resourceUri"
OTHER_KEYS: Final = ("ui/resourceUri", "openai/outputTemplate")
"""The older spelling, and that of the Apps SDK, which hosts still act on."""
APP_ONLY: Final = "its server offers it to the page of its app only, not to models"


def is_app_only(tool: Mapping[str, Any]) -> bool:
    """Whether models must not see this tool, as its server says itself."""
    if META not in tool:
        return False
    about = json_values.as_object((json_values.as_object(tool[META]) or {}).get(KEY))
    visibility = json_values.as_array(about.get("visibility")) if about else None
    return visibility is not None and "model" not in visibility


def is_shown_at(surface: Surface, tool: Mapping[str, Any]) -> bool:
    """The gate is what a model sees. On direct and passthrough a host stands between, which needs them for the page."""
    return surface in UNDECLARING or not is_app_only(tool)


def pages_of(tool: Mapping[str, Any]) -> Iterator[str]:
    """The URIs of the pages that hosts may show for this tool, as its server wrote them."""
    meta = json_values.as_object(tool.get(META))
    if meta is None:
        return
    about = json_values.as_object(meta.get(KEY)) or {}
    for said in (about.get(PAGE), *(meta.get(key) for key in OTHER_KEYS)):
        if isinstance(said, str):
            yield said


def with_pages_of(server: str, meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """This `_meta` with the pages addressed at their server, where any are named. A page that cannot be addressed is
    not named: a host would look for it elsewhere."""
    about = json_values.as_object(meta.get(KEY))
    named = PAGE in about if about is not None else False
    if not named and not any(key in meta for key in OTHER_KEYS):
        return meta
    found = {key: value for key, value in meta.items() if key not in OTHER_KEYS}
    for key in OTHER_KEYS:
        if (page := _page(server, meta.get(key))) is not None:
            found[key] = page
    if about is not None and named:
        rest = {key: value for key, value in about.items() if key != PAGE}
        page = _page(server, about[PAGE])
        found[KEY] = rest if page is None else {**about, PAGE: page}
    return found


def result_with_pages(server: str, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of a tool of this server, which may name its page as well."""
    meta = json_values.as_object(result.get(META))
    return {**result, META: with_pages_of(server, meta)} if meta else result


def _page(server: str, uri: object) -> str | None:
    return addressed(server, uri) if isinstance(uri, str) else None
