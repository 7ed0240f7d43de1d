"""`subscriptions/listen`: the modern era's stream of what changes (UP-4).

It acknowledges first what it will tell of, marks every message with the request's id, and ends when the client
hangs up, falls too far behind, or the gateway ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core import jsonvalue
from mcpproxy_py.core.revisions import INTERNAL_ERROR, INVALID_PARAMS, SUBSCRIPTION_ID
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp import messages
from mcpproxy_py.serve.mcp.answer import Answer
from mcpproxy_py.serve.mcp.door import Door
from mcpproxy_py.serve.mcp.exchange import Exchange
from mcpproxy_py.serve.mcp.hub import LIST_CHANGED, UPDATED
from mcpproxy_py.serve.surfaces.surface import Surface

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
MAX_URIS: Final = 1000


class Listener:
    """One such stream, as the hub sees it."""

    def __init__(self, topic: str, exchange: Exchange, wanted: Mapping[str, Any]) -> None:
        self.topic = topic
        self._exchange = exchange
        self._kinds = frozenset(method for method, flag in LIST_CHANGED.items() if wanted.get(flag) is True)
        self.uris = tuple(wanted.get("resourceSubscriptions", ()))

    def acknowledge(self) -> None:
        honoured: dict[str, Any] = {LIST_CHANGED[method]: True for method in sorted(self._kinds)}
        if self.uris:
            honoured["resourceSubscriptions"] = list(self.uris)
        self._say(ACKNOWLEDGED, {"notifications": honoured})

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        if method in self._kinds or (method == UPDATED and params.get("uri") in self.uris):
            self._say(method, params)

    def _say(self, method: str, params: Mapping[str, Any]) -> None:
        meta = {**(jsonvalue.as_object(params.get("_meta")) or {}), SUBSCRIPTION_ID: self._exchange.id}
        self._exchange.put(messages.notification(method, {**params, "_meta": meta}))


async def listen(door: Door, exchange: Exchange, answer: Answer) -> None:
    """Over HTTP: the answer is the stream, until the client hangs up or the surface is gone."""
    try:
        await heard(door, exchange)
        await answer.end()
    except RpcError as error:
        await answer.finish(messages.refusal(error, exchange.id), 503 if error.code == INTERNAL_ERROR else 400)
    except asyncio.CancelledError:
        answer.abandon()
        if not answer.client_left:
            raise
        if (task := asyncio.current_task()) is not None:
            task.uncancel()


async def heard(door: Door, exchange: Exchange) -> None:
    """Listen until cancelled, or until the surface is gone. Raises `RpcError` for a filter that makes no sense, a
    resource that cannot be watched, or one listener too many."""
    surface = door.surface
    listener = Listener(surface.topic, exchange, _wanted(exchange))
    watched: list[str] = []
    with door.hub.listening(listener):
        try:
            for uri in listener.uris:
                await surface.watch(exchange, uri)
                watched.append(uri)
            listener.acknowledge()
            await door.closed.wait()
        finally:
            for uri in watched:
                await _unwatched(surface, exchange, uri)


async def _unwatched(surface: Surface, exchange: Exchange, uri: str) -> None:
    try:
        await asyncio.shield(surface.unwatch(exchange.peer, uri))
    except RpcError:
        return


def _wanted(exchange: Exchange) -> Mapping[str, Any]:
    """The filter. Raises `RpcError`."""
    asked = jsonvalue.as_object(exchange.params.get("notifications"))
    if asked is None:
        raise RpcError(INVALID_PARAMS, "subscriptions/listen needs params.notifications, an object")
    uris = asked.get("resourceSubscriptions", [])
    if not isinstance(uris, list) or len(uris) > MAX_URIS or not all(isinstance(uri, str) for uri in uris):
        raise RpcError(INVALID_PARAMS, f"resourceSubscriptions must be a list of at most {MAX_URIS} URIs")
    return asked
