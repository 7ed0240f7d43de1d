"""Reading a server's whole list of tools, as raw objects."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mcpproxy_py.upstream.failure import bad_answer

logger = logging.getLogger(__name__)

MAX_PAGES: Final = 1000
MAX_TOOLS: Final = 20_000
Page = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


async def list_tools(server: str, page: Page) -> list[dict[str, Any]]:
    """Every tool, following `nextCursor`. A server whose pages never end gets a warning and what was read so far.

    Raises what `page` raises, and `UpstreamFailure` when the answer holds no list.
    """
    tools: list[dict[str, Any]] = []
    seen: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        result = await page(params)
        tools.extend(_tools_of(result))
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str):
            return tools[:MAX_TOOLS]
        if cursor in seen or len(tools) >= MAX_TOOLS:
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    logger.warning("%s: its list of tools does not end; using the first %d", server, min(len(tools), MAX_TOOLS))
    return tools[:MAX_TOOLS]


def _tools_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools = result.get("tools")
    if not isinstance(tools, list):
        raise bad_answer("it answered tools/list without a list of tools")
    return [tool if isinstance(tool, dict) else {} for tool in tools]
