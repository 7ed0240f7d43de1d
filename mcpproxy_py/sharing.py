"""What this gateway does when another one that shares its database throws a switch (ACT-6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

import anyio

from mcpproxy_py.admin import FROZEN
from mcpproxy_py.store.bell import RESYNC
from mcpproxy_py.store.failure import StoreUnavailable

log = logging.getLogger(__name__)

AGAIN: Final = 1.0


class Shared(Protocol):
    """What this needs of the store room."""

    def on_event(self, listener: Callable[[str, Any], None]) -> Callable[[], None]: ...
    async def switch(self, name: str) -> Any: ...


async def follow_freeze(store: Shared, apply: Callable[[bool], None]) -> None:
    """Endless. A thaw only takes hold here when somebody is heard to thaw: after a time without the database, what
    it says may be older than a freeze of ours that could not be written."""
    heard, loop = asyncio.Event(), asyncio.get_running_loop()
    thaws: list[bool] = []

    def listen(kind: str, payload: Any) -> None:
        if kind == RESYNC or (kind == "switch" and payload == FROZEN):
            thaws.append(kind != RESYNC)
            loop.call_soon_threadsafe(heard.set)

    end = store.on_event(listen)
    try:
        while True:
            await heard.wait()
            heard.clear()
            may_thaw, thaws = any(thaws), []
            try:
                frozen = bool(await store.switch(FROZEN))
            except StoreUnavailable as error:
                log.warning("cannot see whether another gateway froze: %s", error.message)
                thaws.append(may_thaw)
                heard.set()
                await anyio.sleep(AGAIN)
                continue
            if frozen or may_thaw:
                apply(frozen)
    finally:
        end()
