"""Direct, `/mcp/direct`: every visible upstream tool under its own name, for hosts that do their own permissioning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.json_values import same
from mcpproxy_py.core.policy.rungs import named_directly
from mcpproxy_py.core.policy.scope import Access, Scope, narrowed
from mcpproxy_py.core.policy.surface_tools import instructions, shown_directly
from mcpproxy_py.core.protocol.apps import pages_of, result_with_pages
from mcpproxy_py.core.protocol.constants import INVALID_PARAMS
from mcpproxy_py.core.protocol.extensions import EXTENSIONS
from mcpproxy_py.core.protocol.headers import ParamHeader
from mcpproxy_py.core.protocol.methods import with_check
from mcpproxy_py.core.protocol.tasks import TASKS
from mcpproxy_py.core.results.tokens import collect
from mcpproxy_py.core.values import Snapshot, Tool, direct_name
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp.request import ClientPeer, McpRequest, WatchedResource
from mcpproxy_py.serve.mcp.surfaces import addressed_results, surface
from mcpproxy_py.serve.mcp.surfaces.asks import (
    AskRunner,
    as_ours,
    call_linking,
    called_directly,
    relayed,
)
from mcpproxy_py.serve.mcp.surfaces.gate import GateOptions
from mcpproxy_py.serve.mcp.surfaces.resource_links import ResourceLinks, in_list, in_prompt
from mcpproxy_py.serve.mcp.surfaces.server_resources import ResourceUpstreams, ServerResources
from mcpproxy_py.serve.mcp.surfaces.surface import (
    IDENTITY,
    LIST_TTL_MS,
    CachePolicy,
    Handler,
    ParamHeaderCache,
    SurfaceInfo,
    TableSurface,
    one_page,
    set_level,
    text_param,
    view_of,
)
from mcpproxy_py.serve.mcp.surfaces.tasks import TaskRequests
from mcpproxy_py.upstream.turns import in_turns

CAPABILITIES: Final[Mapping[str, Any]] = {
    "tools": {"listChanged": True}, "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True}, "completions": {}, "logging": {},
    "extensions": {TASKS: {}},
}  # fmt: skip
INSTRUCTIONS: Final = (
    "This gateway reaches many MCP servers; their tools are here as server__tool. "
    "If no tool fits what the user needs, say so once with request_capability."
)
WISH: Final = "request_capability"
MOST_LISTS: Final = 8
"""Of tools, for different scopes, that are kept."""


class DirectSurface(TableSurface):
    kind = topic = "direct"

    def __init__(
        self,
        asking: AskRunner,
        links: ResourceLinks,
        upstreams: ResourceUpstreams,
        gate_options: Callable[[], GateOptions],
    ) -> None:
        self._asking = asking
        self._links = links
        self._upstreams = upstreams
        self._gate_options = gate_options
        self._resources = ServerResources(asking, links, upstreams)
        self._mirrored = ParamHeaderCache()
        self._task_requests = TaskRequests(asking)
        self._making = asyncio.Lock()
        self._shown: dict[Scope | None, tuple[Snapshot, GateOptions, list[dict[str, Any]], bool]] = {}
        self.handlers: Mapping[str, Handler] = {
            "tools/call": self._call,
            "tools/list": self._list_tools,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._resources.read,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "completion/complete": self._complete,
            "logging/setLevel": set_level,
            **self._resources.handlers,
            **dict.fromkeys(with_check("direct", "task"), self._ask_about_task),
        }

    async def welcome(self, access: Access | None) -> SurfaceInfo:
        in_reach = self._gate_options().seen_with(access).servers
        there = view_of(self._upstreams.snapshot, access).servers
        _, has_pages = await self._tools(access)
        known = {**CAPABILITIES.get(EXTENSIONS, {}), **self._resources.extensions(there, has_pages)}
        capabilities = {**CAPABILITIES, EXTENSIONS: known} if known else CAPABILITIES
        return SurfaceInfo(IDENTITY, capabilities, instructions(INSTRUCTIONS, in_reach))

    def cache(self, method: str) -> CachePolicy:
        return CachePolicy(LIST_TTL_MS) if method == "tools/list" else CachePolicy()

    has_param_headers = True

    def mirrors(self, tool: str, access: Access | None) -> tuple[ParamHeader, ...]:
        snapshot = self._upstreams.snapshot
        if access is not None:
            snapshot = access.view(snapshot)
        server, name = named_directly(tool, snapshot) or ("", "")
        found = snapshot.servers.get(server)
        return self._mirrored.of(found.tools.get(name) if found else None)

    # Tools.

    async def _call(self, request: McpRequest) -> Mapping[str, Any]:
        result = await call_linking(self._asking, self._links, "direct", called_directly, request)
        return self._with_own_pages(request, result) if result.get("_meta") else result

    def _with_own_pages(self, request: McpRequest, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """A page that a result names is its server's, as one that its tool names is."""
        there = view_of(self._upstreams.snapshot, request.peer.access)
        server, _ = named_directly(request.params["name"], there) or ("", "")
        return result_with_pages(server, result) if server in there.servers else result

    async def _ask_about_task(self, request: McpRequest) -> Mapping[str, Any]:
        return await self._task_requests.directly(request, self._links)

    async def _list_tools(self, request: McpRequest) -> Mapping[str, Any]:
        tools, _ = await self._tools(request.peer.access)
        return one_page(request, "tools", tools)

    async def _tools(self, access: Access | None) -> tuple[list[dict[str, Any]], bool]:
        """All of them, and whether one has a page. Made once for each snapshot, and one after the other: a list of
        thousands is asked for by every client that connects. Of scopes, the lists of the latest few are kept."""
        async with self._making:
            snapshot, gate_options = self._upstreams.snapshot, self._gate_options()
            scope = None if access is None else access.scope
            known = self._shown.pop(scope, None)
            if known is None or known[0] is not snapshot or known[1] is not gate_options:
                view = snapshot if scope is None else narrowed(snapshot, scope)
                await in_turns(view.choosing())
                tools = [
                    *_wish(view, gate_options),
                    *await in_turns(collect(_shown(view, gate_options.host_confirm))),
                ]
                known = snapshot, gate_options, tools, any(any(pages_of(tool)) for tool in tools)
                while len(self._shown) >= MOST_LISTS:
                    del self._shown[next(iter(self._shown))]
            self._shown[scope] = known
            return known[2:]

    # Prompts and resources of everybody.

    async def _list_prompts(self, request: McpRequest) -> Mapping[str, Any]:
        found = await self._resources.everywhere(request, "prompts/list")
        rows = ({**row, "name": direct_name(server, row["name"])} for server, row in _with_names(found))
        return one_page(request, "prompts", await in_turns(collect(rows)))

    async def _get_prompt(self, request: McpRequest) -> Mapping[str, Any]:
        server, name = await self._prompt(request, text_param(request, "name"))
        params = {**surface.own_params(request), "name": name}
        result = relayed(await self._asking.call(request, "direct", name, params, server))
        there = self._asking.there(request)
        await self._links.learn(request.peer.principal, server, in_prompt(result), there)
        return as_ours(result)

    async def _prompt(self, request: McpRequest, outer: str) -> tuple[str, str]:
        """The server of a prompt, and its own name for it. Raises `RpcError`."""
        found = _with_names(await self._resources.everywhere(request, "prompts/list", prefix=outer))
        names = ((direct_name(server, row["name"]), server, row["name"]) for server, row in found)
        for each, server, name in await in_turns(collect(names)):
            if each == outer:
                return server, name
        raise RpcError(INVALID_PARAMS, f"Unknown prompt: {json_values.quoted(outer)}")

    async def _complete(self, request: McpRequest) -> Mapping[str, Any]:
        """`completion/complete` for an argument of a prompt, or of a template, from the server that lists it."""
        params = surface.own_params(request)
        reference = json_values.as_object(params.get("ref")) or {}
        if isinstance(outer := reference.get("name"), str):
            server, name = await self._prompt(request, outer)
            params["ref"] = {**reference, "name": name}
        elif isinstance(name := reference.get("uri"), str):
            owner = await self._resources.template_owner(request, name, same)
            server = owner or (await self._resources.locate(request, name)).server
        else:
            raise RpcError(INVALID_PARAMS, "params.ref must name a prompt or a resource")
        return as_ours(relayed(await self._asking.call(request, "direct", name, params, server)))

    async def _subscribe(self, request: McpRequest) -> Mapping[str, Any]:
        uri = text_param(request, "uri")
        assert request.back is not None
        if uri not in request.back.subscribed.values():
            request.back.subscribed[await self.watch(request, uri)] = uri
        return {}

    async def _unsubscribe(self, request: McpRequest) -> Mapping[str, Any]:
        uri = text_param(request, "uri")
        assert request.back is not None
        for resource in [each for each, shown in request.back.subscribed.items() if shown == uri]:
            del request.back.subscribed[resource]
            await self._asking.unwatch(request, "direct", resource)
        return {}

    async def watch(self, request: McpRequest, uri: str) -> WatchedResource:
        resource = await self._resources.locate(request, uri)
        await self._asking.watch(request, "direct", resource)
        return resource

    async def unwatch(self, peer: ClientPeer, resource: WatchedResource) -> None:
        self._asking.gateway.shares.subscriptions.give_back(peer.principal)
        await self._upstreams.unwatch(*resource)

    async def _list_resources(self, request: McpRequest) -> Mapping[str, Any]:
        """A URI comes once, whatever a server lists: of two that have it, the first in the configuration is read. Those
        of apps and skills say whose they are."""
        rows: dict[Any, dict[str, Any]] = {}
        for server, found in await self._resources.everywhere(request, "resources/list"):
            there = self._asking.there(request)
            await self._links.learn(request.peer.principal, server, in_list(found), there, listed=True)
            for row in await addressed_results.rows(found, addressed_results.listed_row, server):
                rows.setdefault(row.get("uri") if isinstance(row.get("uri"), str) else id(row), row)
        return one_page(request, "resources", list(rows.values()))

    async def _list_templates(self, request: McpRequest) -> Mapping[str, Any]:
        found = await self._resources.everywhere(request, "resources/templates/list")
        return one_page(request, "resourceTemplates", [row for _, rows in found for row in rows])


def _wish(snapshot: Snapshot, gate_options: GateOptions) -> Iterable[dict[str, Any]]:
    return (tool for tool in gate_options.tools() if tool["name"] == WISH and snapshot.policy.offers_requests)


def _with_names(found: Iterable[tuple[str, list[dict[str, Any]]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((server, row) for server, rows in found for row in rows if isinstance(row.get("name"), str))


def _shown(snapshot: Snapshot, host_confirm: bool) -> Iterable[dict[str, Any]]:
    """In the order of the configuration and of each server's own list. A name that two tools have is nobody's."""
    taken: dict[str, Tool | None] = {}
    for server in snapshot.servers.values():
        if server.state == "disabled":
            continue
        for tool in server.tools.values():
            if server.offers(tool.name):
                taken[tool.direct_name] = None if tool.direct_name in taken else tool
    return (shown_directly(tool, snapshot.policy, host_confirm) for tool in taken.values() if tool is not None)
