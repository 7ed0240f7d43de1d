"""What gateways that share a database tell each other, and what each does when it hears of it (ACT-6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

import anyio

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.gateway.admin import FROZEN
from mcpproxy_py.store.cluster.event_bus import RESYNC

log = logging.getLogger(__name__)

AGAIN: Final = 1.0
LIST_CHANGED: Final = "list_changed"
TAKEN_UP: Final = "taken_up"
LOGIN: Final = "oauth_login"
"""What the store says when a login was saved or dropped."""


class SharedStore(Protocol):
    """What this needs of the store room."""

    def on_event(self, listener: Callable[[str, Any], None]) -> Callable[[], None]: ...


class FollowsFreeze(Protocol):
    async def __call__(self, *, may_thaw: bool) -> None: ...


async def follow_freeze(store: SharedStore, follow: FollowsFreeze) -> None:
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
                await follow(may_thaw=may_thaw)
            except StoreUnavailable as error:
                log.warning("cannot read whether the gateways are frozen: %s", error.message)
                thaws.append(may_thaw)
                heard.set()
                await anyio.sleep(AGAIN)
    finally:
        end()


class ClusterChannel(Protocol):
    """What this needs of the store room to talk with other gateways."""

    def on_event(self, listener: Callable[[str, Any], None]) -> Callable[[], None]: ...
    def publish_elsewhere(self, kind: str, payload: Any = None) -> None: ...


class ClusterServers(Protocol):
    """What this needs of the upstream room."""

    def list_changed_elsewhere(self, server: str, method: str) -> bool: ...
    def look_again(self) -> None: ...


class ClusterSync:
    """A client may be answered by any gateway of a database, so what one of them learns in between requests the others
    have to know: that a server says its lists changed (UP-4), that a call goes on elsewhere (SURF-6)."""

    def __init__(self, bus: ClusterChannel) -> None:
        self._bus = bus

    def tell_list_changed(self, server: str, method: str) -> None:
        self._bus.publish_elsewhere(LIST_CHANGED, [server, method])

    def tell_taken_up(self, ask_id: str) -> None:
        self._bus.publish_elsewhere(TAKEN_UP, ask_id)

    def listen(
        self, servers: ClusterServers, said_elsewhere: Callable[[str, str], None],
        taken_up_elsewhere: Callable[[str], None], login_changed: Callable[[str | None], None],
    ) -> Callable[[], None]:  # fmt: skip
        """From now on; gives what ends it. All is done on the loop of the caller."""
        loop = asyncio.get_running_loop()

        def act(kind: str, payload: Any) -> None:
            match payload:
                case [str(server), str(method)] if kind == LIST_CHANGED:
                    if servers.list_changed_elsewhere(server, method):
                        said_elsewhere(server, method)
                case str(ask_id) if kind == TAKEN_UP:
                    taken_up_elsewhere(ask_id)
                case str(server) if kind == LOGIN:
                    login_changed(server)
                case _ if kind == RESYNC:
                    servers.look_again()
                    login_changed(None)
                case _:
                    log.warning("ignored an unknown notification of another gateway (another version?): %s", kind)

        def hear(kind: str, payload: Any) -> None:
            if kind in (LIST_CHANGED, TAKEN_UP, LOGIN, RESYNC):
                loop.call_soon_threadsafe(act, kind, payload)

        return self._bus.on_event(hear)
