"""The gate, `/mcp`: six tools before all others (SURF-1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Final

from mcpproxy_py.core.policy.scope import Access, Scope
from mcpproxy_py.core.policy.server_line import server_line
from mcpproxy_py.core.policy.surface_tools import INSTRUCTIONS, definitions, instructions
from mcpproxy_py.core.values import Operation
from mcpproxy_py.serve.mcp.request import McpRequest
from mcpproxy_py.serve.mcp.surfaces.asks import AskRunner, call_linking, gated, linked_owner, read_linked
from mcpproxy_py.serve.mcp.surfaces.resource_links import ResourceLinks
from mcpproxy_py.serve.mcp.surfaces.surface import (
    IDENTITY,
    LIST_TTL_MS,
    CachePolicy,
    Handler,
    SurfaceInfo,
    TableSurface,
    one_page,
    set_level,
    text_param,
)

CAPABILITIES: Final[Mapping[str, Any]] = {
    "tools": {"listChanged": True}, "resources": {}, "prompts": {}, "logging": {},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What of the gate is configuration: how intent is advertised, whether wishes are taken, and what is in reach."""

    schema: str = "nested"
    offers_requests: bool = True
    request_capability_text: str | None = None
    private: bool = False
    """Whether a token filters what a caller sees; then nobody may share a cached list."""
    in_reach: tuple[str, ...] = ()
    """The servers that agents are told of."""
    host_confirm: bool = False
    """Whether hosts are told to ask their user before a destructive call."""
    ceiling: Operation = "destructive"
    """Above which there is nothing for who asks."""
    reads_on: bool = True
    """Whether any result is cut, and read on."""

    servers: str = field(init=False)
    """The line that names the servers in reach."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "servers", server_line(self.in_reach))

    def seen_with(self, access: Access | None) -> GateOptions:
        """As they are for who has this access."""
        scope = None if access is None else access.scope
        return self if access is None or scope is None else within_scope(self, scope)

    def tools(self) -> list[dict[str, Any]]:
        return definitions(
            schema=self.schema,
            offers_requests=self.offers_requests,
            request_capability_text=self.request_capability_text,
            servers=self.servers,
            host_confirm=self.host_confirm,
            ceiling=self.ceiling,
            reads_on=self.reads_on,
        )


@lru_cache(maxsize=1024)
def within_scope(options: GateOptions, scope: Scope) -> GateOptions:
    in_reach = tuple(name for name in options.in_reach if scope.has_server(name))
    return replace(options, private=True, in_reach=in_reach, ceiling=scope.ceiling)


class GateSurface(TableSurface):
    kind = topic = "gate"

    def __init__(self, asking: AskRunner, links: ResourceLinks, gate_options: Callable[[], GateOptions]) -> None:
        self._asking = asking
        self._links = links
        self._gate_options = gate_options
        self.handlers: Mapping[str, Handler] = {
            "tools/call": partial(call_linking, asking, links, "gate", gated),
            "tools/list": self._list_tools,
            "resources/read": self._read,
            "resources/list": self._list_nothing("resources"),
            "resources/templates/list": self._list_nothing("resourceTemplates"),
            "prompts/list": self._list_nothing("prompts"),
            "logging/setLevel": set_level,
        }

    async def welcome(self, access: Access | None) -> SurfaceInfo:
        in_reach = self._gate_options().seen_with(access).servers
        return SurfaceInfo(IDENTITY, CAPABILITIES, instructions(INSTRUCTIONS, in_reach))

    def cache(self, method: str) -> CachePolicy:
        if method == "resources/read":
            return CachePolicy()
        return CachePolicy(LIST_TTL_MS, "private" if self._gate_options().private else "public")

    async def _list_tools(self, request: McpRequest) -> Mapping[str, Any]:
        options = self._gate_options()
        if (access := request.peer.access) is not None:
            options = options.seen_with(access)
        return one_page(request, "tools", options.tools())

    async def _read(self, request: McpRequest) -> Mapping[str, Any]:
        uri = text_param(request, "uri")
        owner = await linked_owner(self._asking, self._links, request, uri, "gate")
        return await read_linked(self._asking, self._links, request, "gate", owner)

    def _list_nothing(self, key: str) -> Handler:
        async def listed(request: McpRequest) -> Mapping[str, Any]:
            return one_page(request, key, [])

        return listed
