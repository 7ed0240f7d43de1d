"""Notice that a file changed: by looking, because that works on every file system and in every container."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from mcpproxy_py.settings import Loaded, fingerprint

LOOK_EVERY: Final = 1.0


async def watch(loaded: Loaded, changed: Callable[[], Awaitable[None]]) -> None:
    """Calls `changed` after each change of this file since it was read, its appearing and its vanishing included."""
    seen = loaded.seen
    while True:
        await anyio.sleep(LOOK_EVERY)
        now = fingerprint(loaded.path)
        if now != seen:
            seen = now
            await changed()
