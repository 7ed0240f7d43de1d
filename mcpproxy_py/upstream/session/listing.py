"""Reading what a server lists, page by page, as raw objects."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from mcpproxy_py._upstream_failure import bad_answer

logger = logging.getLogger(__name__)

MAX_PAGES: Final = 1000
MAX_ENTRIES: Final = 20_000
Page = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class Listed(NamedTuple):
    entries: list[dict[str, Any]]
    extras: dict[str, Any]
    """What else the first page said: `_meta`, `ttlMs` and the like."""


async def read_all(server: str, method: str, kind: str, page: Page) -> Listed:
    """Every entry under the key `kind`, following `nextCursor`. A server whose pages never end gets a warning and what
    was read so far.

    Raises what `page` raises, and `UpstreamFailure` when the answer holds no list.
    """
    first = result = await page({})
    extras = {key: value for key, value in first.items() if key not in (kind, "nextCursor")}
    entries = _entries_of(first, method, kind)
    seen: set[str] = set()
    while isinstance(cursor := result.get("nextCursor"), str):
        if cursor in seen or len(seen) + 1 >= MAX_PAGES or len(entries) >= MAX_ENTRIES:
            logger.warning("%s: what it answers to %s does not end; using the first %d", server, method,
                           min(len(entries), MAX_ENTRIES))  # fmt: skip
            break
        seen.add(cursor)
        result = await page({"cursor": cursor})
        entries.extend(_entries_of(result, method, kind))
    return Listed(entries[:MAX_ENTRIES], extras)


def _entries_of(result: Mapping[str, Any], method: str, kind: str) -> list[dict[str, Any]]:
    entries = result.get(kind)
    if not isinstance(entries, list):
        raise bad_answer(f"it answered {method} without a list of {kind}")
    return [entry if isinstance(entry, dict) else {} for entry in entries]
