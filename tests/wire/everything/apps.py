"""An app (`io.modelcontextprotocol/ui`): a page, the tool that shows it, and one that only the page may call."""

from __future__ import annotations

from typing import Any

from .calls import Call, text
from .registry import schema, tool

EXTENSION = "io.modelcontextprotocol/ui"
PAGE = "ui://everything/clock"
ABOUT = {
    "csp": {"connectDomains": ["https://time.example"], "resourceDomains": []},
    "permissions": {"clipboardWrite": {}},
    "prefersBorder": False,
}
MIME = "text/html;profile=mcp-app"
RESOURCES = [{"uri": PAGE, "name": "clock", "mimeType": MIME, "_meta": {"ui": {"prefersBorder": True}}}]
CONTENTS: dict[str, dict[str, Any]] = {
    PAGE: {"mimeType": MIME, "text": "<!DOCTYPE html><title>Clock</title>", "_meta": {"ui": ABOUT}}
}


@tool("Shows a clock", _meta={"ui": {"resourceUri": PAGE}})
async def show_clock(call: Call) -> dict[str, Any]:
    return text("It is noon.")


@tool(
    "Sets the clock, for its page",
    schema(("hour",), hour="integer"),
    {"readOnlyHint": False, "destructiveHint": False},
    _meta={"ui": {"resourceUri": PAGE, "visibility": ["app"]}},
)
async def set_clock(call: Call) -> dict[str, Any]:
    return text(f"It is {call.arguments.get('hour')} now.")
