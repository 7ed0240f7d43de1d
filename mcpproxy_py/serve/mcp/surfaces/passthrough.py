"""Passthrough, `/mcp/s/<server>`: one upstream as it is, still decided and recorded (SURF-3).

Within one era nothing changes. Across eras the bridge adds what the other wire requires: the modern envelope
around results, `ttlMs: 0` where a handshake server cannot say more, and watching a resource in the way its
server knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from mcpproxy_py.core.pins.parts import shown_page
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS, SERVER_INFO
from mcpproxy_py.core.protocol.headers import ParamHeader
from mcpproxy_py.core.protocol.methods import with_check
from mcpproxy_py.core.results.tokens import collect
from mcpproxy_py.core.values import Server, Snapshot
from mcpproxy_py.errors import RpcError, UpstreamFailure
from mcpproxy_py.gateway.recorder import Call
from mcpproxy_py.serve.mcp.request import ClientPeer, McpRequest, WatchedResource
from mcpproxy_py.serve.mcp.surfaces.asks import (
    SUBSCRIBE,
    UNSUBSCRIBE,
    AskRunner,
    passed_through,
    relayed,
    upstreams_own,
)
from mcpproxy_py.serve.mcp.surfaces.surface import (
    CachePolicy,
    Handler,
    ParamHeaderCache,
    SurfaceInfo,
    kept_privately,
    one_page,
    own_params,
    set_level,
    text_param,
    view_of,
)
from mcpproxy_py.serve.mcp.surfaces.tasks import TaskRequests
from mcpproxy_py.upstream.session.session import Negotiated
from mcpproxy_py.upstream.turns import in_turns

PROMPTS: Final = "prompts/list"
SUBJECTS: Final[Mapping[str, str]] = {
    "resources/read": "uri", "prompts/get": "name", "skills/get": "uri", "resources/directory/read": "uri",
}  # fmt: skip
RESOURCE_NOT_FOUND: Final = -32002
"""Handshake era; the modern one says INVALID_PARAMS and names the URI."""
SETTLE: Final = 2


class PassthroughUpstreams(Protocol):
    """What it needs of the upstreams besides calls."""

    @property
    def snapshot(self) -> Snapshot: ...
    async def ready(self, server: str) -> None: ...
    def handshake(self, server: str) -> Negotiated | None: ...
    async def unwatch(self, server: str, uri: str) -> None: ...
    async def listed(self, server: str, method: str) -> list[dict[str, Any]]: ...


class PassthroughSurface:
    kind = "passthrough"
    handlers: Mapping[str, Handler] = {}
    """None apart: every method takes the same way (`answer`)."""

    def __init__(
        self, server: str, asking: AskRunner, upstreams: PassthroughUpstreams, filtered: Callable[[], bool]
    ) -> None:
        """`filtered`: whether a token decides what a caller sees, so that nobody may share what another keeps."""
        self.server = server
        self._filtered = filtered
        self.topic = f"server/{server}"
        self._asking = asking
        self._upstreams = upstreams
        self._mirrored = ParamHeaderCache()
        self._task_requests = TaskRequests(asking)
        self._handlers: Mapping[str, Handler] = {
            "tools/call": self._call,
            "tools/list": self._list_tools,
            SUBSCRIBE: self._subscribe,
            UNSUBSCRIBE: self._unsubscribe,
            "logging/setLevel": self._set_level,
            **dict.fromkeys(with_check("passthrough", "page"), self._look),
            **dict.fromkeys(with_check("passthrough", "task"), self._ask_about_task),
        }

    async def welcome(self, access: Access | None) -> SurfaceInfo:
        found = await self._connected(access)
        # The experimental tasks of 2025-11-25 cannot begin through the gateway, see the table of methods.
        capabilities = {name: said for name, said in found.capabilities.items() if name != "tasks"}
        return SurfaceInfo(found.server_info, capabilities, found.instructions)

    async def answer(self, exchange: McpRequest) -> Mapping[str, Any]:
        filtered = exchange.peer.access is not None
        try:
            if filtered:
                self._known(exchange.peer.access)
            result = await self._handlers.get(exchange.method, self._relay)(exchange)
            if "cacheScope" not in result:
                return result
            if result["cacheScope"] == "public" and not filtered and not self._filtered():
                return result
            return kept_privately(result)
        except RpcError as error:
            raise self._in_words_of(exchange.peer, error) from None

    def _in_words_of(self, peer: ClientPeer, error: RpcError) -> RpcError:
        """The same error as the client's era numbers it; the eras differ in one."""
        found = self._upstreams.handshake(self.server)
        if found is None or peer.modern == (found.stamp.era == "modern"):
            return error
        named = isinstance(error.data, dict) and "uri" in error.data
        if peer.modern and error.code == RESOURCE_NOT_FOUND:
            return RpcError(INVALID_PARAMS, error.message, error.data)
        if not peer.modern and error.code == INVALID_PARAMS and named:
            return RpcError(RESOURCE_NOT_FOUND, error.message, error.data)
        return error

    @property
    def own_meta(self) -> Mapping[str, Any]:
        found = self._upstreams.handshake(self.server)
        return {SERVER_INFO: dict(found.server_info) if found else {}}

    def cache(self, method: str) -> CachePolicy:
        return CachePolicy()

    has_param_headers = True

    def mirrors(self, tool: str, access: Access | None) -> tuple[ParamHeader, ...]:
        snapshot = self._upstreams.snapshot
        if access is not None:
            snapshot = access.view(snapshot)
        server = snapshot.servers.get(self.server)
        return self._mirrored.of(server.tools.get(tool) if server else None)

    # Tools.

    async def _call(self, exchange: McpRequest) -> Mapping[str, Any]:
        name, arguments = text_param(exchange, "name"), exchange.params.get("arguments", {})
        reply = await self._asking.call(exchange, "passthrough", name, arguments, self.server)
        if isinstance(reply, Call) and reply.refusal is not None and (own := upstreams_own(reply.refusal)) is not None:
            raise own
        return passed_through(reply)

    async def _list_tools(self, exchange: McpRequest) -> Mapping[str, Any]:
        """From the last known listing, so that it does not vary with the connection (SURF-9)."""
        access = exchange.peer.access
        view: Snapshot | None = None
        while view is not (view := view_of(self._upstreams.snapshot, access)):  # it may have changed meanwhile
            await in_turns(view.choosing())
        if not self._known(access).tools:
            await self._connected(access)
        server = self._known(access)
        rows = await in_turns(collect(dict(tool.wire) for tool in server.tools.values() if server.offers(tool.name)))
        return {**server.listing_extras, **one_page(exchange, "tools", rows)}

    # Everything else.

    async def _relay(self, exchange: McpRequest) -> Mapping[str, Any]:
        subject = exchange.params.get(SUBJECTS.get(exchange.method, ""))
        about = subject if isinstance(subject, str) else exchange.method
        reply = await self._asking.call(exchange, "passthrough", about, own_params(exchange), self.server)
        return relayed(reply)

    async def _ask_about_task(self, exchange: McpRequest) -> Mapping[str, Any]:
        known = self._known(exchange.peer.access).tasks is not None
        return await self._task_requests.passed_through(exchange, self.server, known)

    async def _look(self, exchange: McpRequest) -> Mapping[str, Any]:
        """An ask like any other, of which nothing goes on but which page is wanted."""
        cursor = exchange.params.get("cursor")
        params = {} if cursor is None else {"cursor": text_param(exchange, "cursor")}
        result = relayed(await self._asking.call(exchange, "passthrough", exchange.method, params, self.server))
        return await self._in_force(result) if exchange.method == PROMPTS else result

    async def _in_force(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """A page of prompts with those that are approved, as they were approved (SEC-3). What else is pinned on such a
        page has no approval, so it is left out."""
        said = result.get("prompts")
        if not isinstance(said, list) or not said:
            return shown_page({"prompts": []}, result)
        try:
            approved = {row.get("name"): row for row in await self._upstreams.listed(self.server, PROMPTS)}
        except UpstreamFailure as failure:
            raise _error_of(failure) from None
        names = [row.get("name") for row in said if isinstance(row, dict)]
        return shown_page({"prompts": [approved[name] for name in names if name in approved]}, result)

    async def _set_level(self, exchange: McpRequest) -> Mapping[str, Any]:
        """Each session has its own level. A modern server is told it with each request, an older one as it is said."""
        await set_level(exchange)
        return await self._relay(exchange)

    # Watching resources.

    async def _subscribe(self, exchange: McpRequest) -> Mapping[str, Any]:
        resource = WatchedResource(self.server, text_param(exchange, "uri"))
        assert exchange.back is not None
        if resource in exchange.back.subscribed:
            return {}
        result = await self._asking.watch(exchange, "passthrough", resource)
        exchange.back.subscribed[resource] = resource.uri
        return result

    async def _unsubscribe(self, exchange: McpRequest) -> Mapping[str, Any]:
        resource = WatchedResource(self.server, text_param(exchange, "uri"))
        assert exchange.back is not None
        if exchange.back.subscribed.pop(resource, None) is None:
            return {}
        return await self._asking.unwatch(exchange, "passthrough", resource)

    async def watch(self, exchange: McpRequest, uri: str) -> WatchedResource:
        resource = WatchedResource(self.server, uri)
        await self._asking.watch(exchange, "passthrough", resource)
        return resource

    async def unwatch(self, peer: ClientPeer, resource: WatchedResource) -> None:
        self._asking.gateway.shares.subscriptions.give_back(peer.principal)
        await self._upstreams.unwatch(*resource)

    # Its server.

    def _known(self, access: Access | None) -> Server:
        server = view_of(self._upstreams.snapshot, access).servers.get(self.server)
        if server is None or server.state == "disabled":
            raise RpcError(INTERNAL_ERROR, f"Server '{self.server}' is disabled")
        return server

    async def _connected(self, access: Access | None) -> Negotiated:
        """Waits, once and bounded, for a connection that is under way (UP-2)."""
        for attempt in range(SETTLE):
            if access is not None:
                self._known(access)
            if (found := self._upstreams.handshake(self.server)) is not None:
                return found
            self._known(access)
            if attempt == 0:
                await self._upstreams.ready(self.server)
        server = self._known(access)
        why = f": {server.error}" if server.error else ""
        raise RpcError(INTERNAL_ERROR, f"Server '{self.server}' {server.condition}{why}")


def _error_of(failure: UpstreamFailure) -> RpcError:
    code = failure.data.get("code")
    if isinstance(code, int) and not isinstance(code, bool):
        return RpcError(code, failure.message, failure.data.get("data"))
    return RpcError(INTERNAL_ERROR, failure.message)
