"""What stands behind one surface's path, whichever way its clients come: who is in, what is kept for them, and from one
request to its outcome, what belongs to the protocol and what to the surface."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

from mcpproxy_py import jsonrpc
from mcpproxy_py.core import json_values
from mcpproxy_py.core.deadlines import Deadlines
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.protocol.constants import HANDSHAKE, INTERNAL_ERROR, INVALID_PARAMS, LATEST_HANDSHAKE, MODERN
from mcpproxy_py.core.protocol.methods import refused_at
from mcpproxy_py.errors import Code, GatewayError, RpcError, UpstreamFailure
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.gateway.shares import Share
from mcpproxy_py.serve.mcp.event_streams import ReplayBudget
from mcpproxy_py.serve.mcp.request import McpRequest
from mcpproxy_py.serve.mcp.sessions import ClientSession, ClientSessions
from mcpproxy_py.serve.mcp.subscriptions import SubscriptionHub
from mcpproxy_py.serve.mcp.surfaces.surface import Handler, Surface, unknown_method

log = logging.getLogger(__name__)

DISCOVER: Final = "server/discover"
LISTEN: Final = "subscriptions/listen"
Outcome = dict[str, Any]
"""One key: `result` or `error`."""


class ClientsOf(Protocol):
    """What the upstreams need to know of clients beside their requests, by the key of a `ClientChannel`."""

    def forget(self, key: str) -> None: ...
    def roots_changed(self, key: str) -> None: ...


class McpEndpoint:
    def __init__(
        self, surface: Surface, hub: SubscriptionHub, kept: ReplayBudget, max_sessions: int, upstreams: ClientsOf,
        share: Share | None = None,
    ) -> None:  # fmt: skip
        """`share` is what each principal may have of the sessions."""
        self.surface = surface
        self.hub = hub
        self.kept = kept
        self.sessions = ClientSessions(max_sessions, share)
        """Of HTTP; whoever comes over a pipe has its own."""
        loop = asyncio.get_running_loop()
        self.slow = Deadlines(loop.time, loop.call_at)
        """Requests that are not answered at once, which few are."""
        self.closed = asyncio.Event()
        """For whoever holds a stream open here: set when the surface is gone."""
        self._upstreams = upstreams
        own: Mapping[str, Handler] = {**surface.handlers, DISCOVER: self._discovered, "ping": _pong}
        self.modern = own | dict.fromkeys(refused_at(surface.kind, "stateless"), _unknown)
        """By method, in the modern era; the surface itself (`answer`) takes all others."""
        self.handshake = own | dict.fromkeys(refused_at(surface.kind, "session-based"), _unknown)

    async def _discovered(self, request: McpRequest) -> Mapping[str, Any]:
        return {"supportedVersions": list(MODERN), **(await self.surface.welcome(request.peer.access)).as_json()}

    def close(self) -> None:
        """The surface is gone: its sessions end, and their ids with them."""
        self.sessions.close()
        self.closed.set()

    def attend(self, session: ClientSession) -> None:
        """From now on it hears of changes; when it ends, it lets go of all that was there for it."""
        session.on_close.append(self.hub.add(session))
        session.on_close.append(lambda: _unwatch_all(self.surface, session))
        session.on_close.append(lambda: self._upstreams.forget(session.peer.key))

    def notice(self, session: ClientSession, message: Mapping[str, Any]) -> None:
        """What a client of the handshake era says unasked. Raises `RpcError`."""
        if message["method"] == "notifications/cancelled":
            session.cancel(jsonrpc.params_of(message).get("requestId"))
        elif message["method"] == "notifications/roots/list_changed":
            self._upstreams.roots_changed(session.peer.key)


async def _unknown(request: McpRequest) -> Mapping[str, Any]:
    raise unknown_method(request)


async def _pong(request: McpRequest) -> Mapping[str, Any]:
    return {}


def _unwatch_all(surface: Surface, session: ClientSession) -> None:
    async def unwatch() -> None:
        for resource in list(session.subscribed):
            with contextlib.suppress(UpstreamFailure):
                await surface.unwatch(session.peer, resource)

    if session.subscribed:
        session.leaving = asyncio.ensure_future(unwatch())


def failed(request: McpRequest, error: Exception) -> Outcome:
    """Raises what is to be answered with a challenge of HTTP: the guard knows how."""
    if isinstance(error, GatewayError) and error.code is Code.INSUFFICIENT_SCOPE:
        request.abandon()
        raise error
    if isinstance(error, RpcError):
        return {"error": {**error.as_json(), "message": MASKER.mask_text(error.message)}}
    log.error("%s failed inside the gateway", json_values.quoted(request.method), exc_info=error)
    return {"error": RpcError(INTERNAL_ERROR, "The gateway failed on this request; its log says why").as_json()}


async def initialized(surface: Surface, version: str, access: Access) -> dict[str, Any]:
    """The answer to `initialize`. Raises `RpcError`."""
    welcome = await surface.welcome(None if access.everything else access)
    return {"protocolVersion": version, "serverInfo": dict(welcome.server_info), **welcome.as_json()}


def negotiated(params: Mapping[str, Any]) -> str:
    """The revision a client gets: the one it offers, or the newest that has a handshake. Raises `RpcError`."""
    offered = params.get("protocolVersion")
    if not isinstance(offered, str):
        raise RpcError(INVALID_PARAMS, "initialize needs params.protocolVersion, a string")
    return offered if offered in HANDSHAKE else LATEST_HANDSHAKE
