"""What all MCP surfaces have in common: what they say of themselves, and how their answers are dressed.

A surface takes requests as JSON objects and gives results as JSON objects; sessions, streams and eras are the
business of `serve.mcp`. A result goes out as the object that came in (UP-6); only what the other era's wire
requires is added.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mcpproxy_py import __version__
from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.protocol.constants import INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_INFO
from mcpproxy_py.core.protocol.headers import ParamHeader, mirrors
from mcpproxy_py.core.protocol.request_state import ROUND_KEYS, WHAT
from mcpproxy_py.core.values import Snapshot, Tool
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp.request import LEVELS, ClientPeer, McpRequest, WatchedResource

NAME: Final = "mcpproxy"
IDENTITY: Final[Mapping[str, Any]] = {"name": NAME, "title": NAME, "version": __version__}
OWN_META: Final[Mapping[str, Any]] = {SERVER_INFO: IDENTITY}
LIST_TTL_MS: Final = 300_000
UNKNOWN_TTL_MS: Final = 0
Handler = Callable[[McpRequest], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class SurfaceInfo:
    """What a server says of itself at the start, in either era."""

    server_info: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    instructions: str | None = None

    def as_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"capabilities": dict(self.capabilities)}
        return said if self.instructions is None else {**said, "instructions": self.instructions}


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """For how long, and for whom, a list may be kept."""

    ttl_ms: int = UNKNOWN_TTL_MS
    scope: str = "private"


def kept_privately(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """For whom it was meant, however widely its server would share it (SURF-9)."""
    return {**result, "cacheScope": "private"}


class Surface(Protocol):
    kind: str  # as the table of methods names it
    topic: str
    """What listeners of this surface are told of (`serve.mcp.subscriptions`)."""
    handlers: Mapping[str, Handler]
    """By method, what is no part of the protocol's own bookkeeping. They give the result, and raise `RpcError`."""

    async def welcome(self, access: Access | None, /) -> SurfaceInfo:
        """For who has this access; `None`: everything. Raises `RpcError` where there is nobody to speak for."""
        ...

    def answer(self, request: McpRequest, /) -> Awaitable[Mapping[str, Any]]:
        """The result of a request whose method has no handler. Raises `RpcError`, also before it is awaited."""
        ...

    @property
    def own_meta(self) -> Mapping[str, Any]:
        """What each result's `_meta` says of who answers, in the modern era."""
        ...

    def cache(self, method: str) -> CachePolicy:
        """For a method whose result may be kept."""
        ...

    has_param_headers: bool
    """Whether any tool here may want arguments repeated as headers."""

    def mirrors(self, tool: str, access: Access | None, /) -> tuple[ParamHeader, ...]:
        """Which arguments of a tool its calls repeat as headers; of one that is not there for who asks, none."""
        ...

    async def watch(self, request: McpRequest, /, uri: str) -> WatchedResource:
        """Subscribe to changes of a resource for this client. Raises `RpcError`."""
        ...

    async def unwatch(self, peer: ClientPeer, resource: WatchedResource) -> None:
        """Its client is gone. Raises `UpstreamFailure`."""
        ...


class TableSurface:
    """Of the surfaces that are the gateway's own: a table of methods, and resources that are read but not watched."""

    handlers: Mapping[str, Handler]

    has_param_headers = False
    own_meta = OWN_META

    def mirrors(self, tool: str, access: Access | None) -> tuple[ParamHeader, ...]:
        return ()

    def answer(self, request: McpRequest) -> Awaitable[Mapping[str, Any]]:
        raise unknown_method(request)

    def cache(self, method: str) -> CachePolicy:
        """For a method whose result may be kept."""
        return CachePolicy()

    async def watch(self, request: McpRequest, uri: str) -> WatchedResource:
        raise RpcError(INVALID_PARAMS, "Resources cannot be subscribed to here; use their server's own surface")

    async def unwatch(self, peer: ClientPeer, resource: WatchedResource) -> None:
        """Nothing is watched."""


class ParamHeaderCache:
    """Which arguments of each tool its calls repeat as headers: found out once, since it takes a walk through its
    schema, and again when the server lists another tool under that name."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Tool, tuple[ParamHeader, ...]]] = {}

    def of(self, tool: Tool | None) -> tuple[ParamHeader, ...]:
        if tool is None:
            return ()
        known = self._known.get(tool.full_name)
        if known is None or known[0] is not tool:
            known = self._known[tool.full_name] = tool, mirrors(tool.wire.get("inputSchema"))
        return known[1]


def view_of(snapshot: Snapshot, access: Access | None) -> Snapshot:
    """What of it there is for who has this access."""
    return snapshot if access is None else access.view(snapshot)


async def set_level(request: McpRequest) -> Mapping[str, Any]:
    """`logging/setLevel`: from here on, the session gets log messages of this level and above. Stateless clients say
    their level with each request. Raises `RpcError`."""
    level = text_param(request, "level")
    if level not in LEVELS:
        raise RpcError(INVALID_PARAMS, f"Unknown log level; use one of {', '.join(LEVELS)}")
    assert request.back is not None
    request.back.log_level = level
    return {}


def one_page(request: McpRequest, key: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    if request.params.get("cursor") is not None:
        raise RpcError(INVALID_PARAMS, "Unknown cursor: this list has one page")
    return {key: rows}


def own_params(request: McpRequest) -> dict[str, Any]:
    """A request's parameters as they go on, without what belongs to this conversation."""
    left = ("_meta", *ROUND_KEYS) if request.method in WHAT else ("_meta",)
    return {key: value for key, value in request.params.items() if key not in left}


def text_param(request: McpRequest, name: str) -> str:
    value = request.params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"params.{name} must be a string, not {json_values.kind(value)}")
    return value


def unknown_method(request: McpRequest) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, f"Method not found: {json_values.quoted(request.method)}")
