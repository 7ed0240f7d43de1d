"""What stands behind one surface's path, whichever way its clients come: who is in, and what is kept for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from mcpproxy_py.core.deadlines import Deadlines
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp import messages
from mcpproxy_py.serve.mcp.hub import Hub
from mcpproxy_py.serve.mcp.kept import Kept
from mcpproxy_py.serve.mcp.sessions import Session, Sessions
from mcpproxy_py.serve.surfaces.surface import Surface


class ClientsOf(Protocol):
    """What the upstreams need to know of clients beside their requests, by the key of a `Talk`."""

    def forget(self, key: str) -> None: ...
    def roots_changed(self, key: str) -> None: ...


class Door:
    def __init__(self, surface: Surface, hub: Hub, kept: Kept, max_sessions: int, upstreams: ClientsOf) -> None:
        self.surface = surface
        self.hub = hub
        self.kept = kept
        self.sessions = Sessions(max_sessions)
        """Of HTTP; whoever comes over a pipe has its own."""
        loop = asyncio.get_running_loop()
        self.slow = Deadlines(loop.time, loop.call_at)
        """Requests that are not answered at once, which few are."""
        self.closed = asyncio.Event()
        """For whoever holds a stream open here: set when the surface is gone."""
        self._upstreams = upstreams

    def close(self) -> None:
        """The surface is gone: its sessions end, and their ids with them."""
        self.sessions.close()
        self.closed.set()

    def attend(self, session: Session) -> None:
        """From now on it hears of changes; when it ends, it lets go of all that was there for it."""
        session.on_close.append(self.hub.add(session))
        session.on_close.append(lambda: _unwatch_all(self.surface, session))
        session.on_close.append(lambda: self._upstreams.forget(session.peer.key))

    def notice(self, session: Session, message: Mapping[str, Any]) -> None:
        """What a client of the handshake era says unasked. Raises `RpcError`."""
        if message["method"] == "notifications/cancelled":
            session.cancel(messages.params_of(message).get("requestId"))
        elif message["method"] == "notifications/roots/list_changed":
            self._upstreams.roots_changed(session.peer.key)


def _unwatch_all(surface: Surface, session: Session) -> None:
    async def unwatch() -> None:
        for uri in list(session.subscribed):
            try:
                await surface.unwatch(session.peer, uri)
            except RpcError:
                continue

    if session.subscribed:
        session.leaving = asyncio.ensure_future(unwatch())
