"""Who hears of what changes at a server, beside the answers to requests (UP-4).

Subscribers are sessions of the handshake era and `subscriptions/listen` streams of the modern one. What a server says
goes to the surfaces it concerns; which subscriber wants it, each knows itself.

A `subscriptions/listen` stream acknowledges first what it will tell of, marks every message with the request's id, and
ends when the client hangs up, falls too far behind, or the gateway ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpproxy_py import jsonrpc
from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.scope import Access, Scope
from mcpproxy_py.core.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS, SUBSCRIPTION_ID
from mcpproxy_py.errors import RpcError, UpstreamFailure
from mcpproxy_py.gateway.shares import Share
from mcpproxy_py.serve.mcp.request import McpRequest, WatchedResource

if TYPE_CHECKING:
    from mcpproxy_py.serve.mcp.endpoint import McpEndpoint

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
MAX_URIS: Final = 1000
COALESCE: Final = 0.05
"""Seconds: ten servers that connect at once change the list of all tools once."""
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
LIST_CHANGED: Final[Mapping[str, str]] = {
    TOOLS_CHANGED: "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
UPDATED: Final = "notifications/resources/updated"


GATE_TOPIC: Final = "gate"
Concerns = Callable[[Scope], bool]
"""Whether what is told is about anything in this scope."""


class Subscriber(Protocol):
    topic: str

    @property
    def access(self) -> Access | None:
        """What there is for whoever listens; `None`: everything."""
        ...

    def hear(self, method: str, params: Mapping[str, Any], server: str = "", /) -> None:
        """On the event loop; does not block and does not raise. `server` sent it, where that matters."""
        ...


def shown_uri(watched: Mapping[WatchedResource, str], server: str, params: Mapping[str, Any]) -> str | None:
    """The URI that a client knows an updated resource by, if it watches that resource of that server."""
    uri = params.get("uri")
    return watched.get(WatchedResource(server, uri)) if isinstance(uri, str) else None


class SubscriptionHub:
    def __init__(self, max_streams: int, share: Share | None = None) -> None:
        """`max_streams`: at all surfaces together; `share` is what each principal may have of them. Sessions are
        bounded where they are kept."""
        self._max_streams = max_streams
        self._share = share
        self._streams = 0
        self._listeners: dict[str, dict[Subscriber, Scope | None]] = {}
        """By topic, with the scope that each was last known to have."""
        self._due: dict[tuple[str, str], dict[Hashable, Concerns | None]] = {}

    def add(self, listener: Subscriber) -> Callable[[], None]:
        """Gives the way to leave again."""
        there = self._listeners.setdefault(listener.topic, {})
        there[listener] = _scope(listener)
        return lambda: self._remove(listener)

    @contextmanager
    def open_stream(self, principal: str) -> Iterator[None]:
        """For as long as a stream lasts on which a client listens. Raises `RpcError` where there are too many."""
        if self._streams >= self._max_streams:
            raise RpcError(INTERNAL_ERROR, "Too many subscriptions are open")
        with nullcontext() if self._share is None else self._share.held(principal):
            self._streams += 1
            try:
                yield
            finally:
                self._streams -= 1

    @contextmanager
    def listening(self, stream: Subscriber, principal: str) -> Iterator[None]:
        """The same for one of the modern era, which hears what happens."""
        with self.open_stream(principal):
            leave = self.add(stream)
            try:
                yield
            finally:
                leave()

    def _remove(self, listener: Subscriber) -> None:
        there = self._listeners.get(listener.topic, {})
        there.pop(listener, None)
        if not there:
            self._listeners.pop(listener.topic, None)

    def tell(
        self, topic: str, method: str, params: Mapping[str, Any], concerns: Concerns | None = None, server: str = ""
    ) -> None:
        """Without `concerns`, to every listener of the topic."""
        for listener in list(self._listeners.get(topic, ())):
            if concerns is None or (scope := _scope(listener)) is None or concerns(scope):
                listener.hear(method, params, server)

    def tell_changed(self, topic: str, method: str, concerns: Concerns | None = None, about: Hashable = None) -> None:
        """The same, once for everything that happens within a moment. What is `about` the same thing is asked about by
        the first `concerns` of the moment, when it is over."""
        if topic not in self._listeners:
            return
        due = self._due.get((topic, method))
        if due is None:
            due = self._due[topic, method] = {}
            asyncio.get_running_loop().call_later(COALESCE, self._tell_due, topic, method)
        due.setdefault(about, concerns)

    def _tell_due(self, topic: str, method: str) -> None:
        due = [*self._due.pop((topic, method)).values()]
        in_scope: dict[Scope, list[Subscriber]] = {}
        for listener in list(self._listeners.get(topic, ())):
            if (scope := _scope(listener)) is None or None in due:
                listener.hear(method, {})
            else:
                in_scope.setdefault(scope, []).append(listener)
        self._tell_in_scopes(topic, method, [each for each in due if each is not None], [*in_scope.items()])

    def _tell_in_scopes(
        self, topic: str, method: str, due: list[Concerns], left: list[tuple[Scope, list[Subscriber]]]
    ) -> None:
        """One scope in each turn of the loop: to find out what changed in it takes a look at all of its tools."""
        if not left:
            return
        scope, listeners = left.pop()
        asyncio.get_running_loop().call_soon(self._tell_in_scopes, topic, method, due, left)
        if any(concerns(scope) for concerns in due):
            for listener in listeners:
                if listener in self._listeners.get(topic, ()):
                    listener.hear(method, {})

    def scopes_changed(self) -> None:
        """Tokens or profiles are others now. Whoever has another scope than before has to list everything again."""
        for topic, there in list(self._listeners.items()):
            for listener, known in list(there.items()):
                if (now := _scope(listener)) != known:
                    there[listener] = now
                    for method in (TOOLS_CHANGED,) if topic == GATE_TOPIC else LIST_CHANGED:
                        listener.hear(method, {})


def _scope(listener: Subscriber) -> Scope | None:
    return None if listener.access is None else listener.access.scope


class ListenStream:
    """One stream of the modern era, as the hub sees it."""

    def __init__(self, topic: str, request: McpRequest, wanted: Mapping[str, Any]) -> None:
        self.topic = topic
        self.access = request.peer.access
        self._request = request
        self._kinds = frozenset(method for method, flag in LIST_CHANGED.items() if wanted.get(flag) is True)
        self.uris: tuple[str, ...] = tuple(dict.fromkeys(wanted.get("resourceSubscriptions", ())))
        self.watched: dict[WatchedResource, str] = {}

    def acknowledge(self) -> None:
        honoured: dict[str, Any] = {LIST_CHANGED[method]: True for method in sorted(self._kinds)}
        if self.watched:
            honoured["resourceSubscriptions"] = list(self.watched.values())
        self._say(ACKNOWLEDGED, {"notifications": honoured})

    def hear(self, method: str, params: Mapping[str, Any], server: str = "") -> None:
        if method == UPDATED:
            shown = shown_uri(self.watched, server, params)
            if shown is not None:
                self._say(method, {**params, "uri": shown})
        elif method in self._kinds:
            self._say(method, params)

    def _say(self, method: str, params: Mapping[str, Any]) -> None:
        meta = {**(json_values.as_object(params.get("_meta")) or {}), SUBSCRIPTION_ID: self._request.id}
        self._request.put(jsonrpc.notification(method, {**params, "_meta": meta}))


async def listen(endpoint: McpEndpoint, request: McpRequest) -> None:
    """Over HTTP: the answer is the stream, until the client hangs up or the surface is gone."""
    request.listens()
    try:
        await heard(endpoint, request)
        await request.end()
    except RpcError as error:
        await request.finish(jsonrpc.refusal(error, request.id), 503 if error.code == INTERNAL_ERROR else 400)
    except asyncio.CancelledError:
        request.abandon()
        if not request.client_left:
            raise
        if (task := asyncio.current_task()) is not None:
            task.uncancel()


async def heard(endpoint: McpEndpoint, request: McpRequest) -> None:
    """Listen until cancelled, or until the surface is gone. Resources that cannot be watched are left out of the
    acknowledgement (MCP 2026-07-28, SubscriptionsAcknowledged). Raises `RpcError` for an invalid filter, or one
    listener too many."""
    surface = endpoint.surface
    listener = ListenStream(surface.topic, request, _wanted(request))
    watched: list[WatchedResource] = []
    with endpoint.hub.listening(listener, request.peer.principal):
        try:
            for uri in listener.uris:
                with contextlib.suppress(RpcError):
                    resource = await surface.watch(request, uri)
                    watched.append(resource)
                    listener.watched[resource] = uri
            listener.acknowledge()
            await endpoint.closed.wait()
        finally:
            for resource in watched:
                with contextlib.suppress(UpstreamFailure):
                    await asyncio.shield(surface.unwatch(request.peer, resource))


def _wanted(request: McpRequest) -> Mapping[str, Any]:
    """The filter. Raises `RpcError`."""
    asked = json_values.as_object(request.params.get("notifications"))
    if asked is None:
        raise RpcError(INVALID_PARAMS, "subscriptions/listen needs params.notifications, an object")
    uris = asked.get("resourceSubscriptions", [])
    if not isinstance(uris, list) or len(uris) > MAX_URIS or not all(isinstance(uri, str) for uri in uris):
        raise RpcError(INVALID_PARAMS, f"resourceSubscriptions must be a list of at most {MAX_URIS} URIs")
    return asked
