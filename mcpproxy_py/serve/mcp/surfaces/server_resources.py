"""Apps and skills of every server side by side, on the direct surface (SURF-10).

What a URI leads to is never taken from the URI alone. It says which server it is of, and that server has to have named
it: as the page of a tool, in a list of its own, or as lying in a skill of its own. What is not there for who asks is
answered like what does not exist, before anybody is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import anyio.to_thread

from mcpproxy_py.core import json_values
from mcpproxy_py.core.json_values import same
from mcpproxy_py.core.protocol.apps import pages_of
from mcpproxy_py.core.protocol.constants import INVALID_PARAMS
from mcpproxy_py.core.protocol.extensions import DIRECTORIES, SKILLS, UI, of_server
from mcpproxy_py.core.protocol.server_uris import folders_above, owner_of
from mcpproxy_py.core.protocol.uri_templates import may_expand_to
from mcpproxy_py.core.values import SEPARATOR, Server, Snapshot
from mcpproxy_py.errors import Code, RpcError, UpstreamFailure
from mcpproxy_py.gateway.recorder import Call
from mcpproxy_py.serve.mcp.request import CLAIM_LIMIT, McpRequest, WatchedResource
from mcpproxy_py.serve.mcp.surfaces import addressed_results, list_cursors
from mcpproxy_py.serve.mcp.surfaces.asks import (
    AskRunner,
    as_ours,
    linked_owner,
    read_linked,
    refused,
    relayed,
    unknown_resource,
)
from mcpproxy_py.serve.mcp.surfaces.resource_links import ResourceLinks, in_list
from mcpproxy_py.serve.mcp.surfaces.surface import own_params, text_param, unknown_method
from mcpproxy_py.upstream.session.session import Negotiated

LIST: Final = "skills/list"
LISTS: Final = "resources/list"
TEMPLATES: Final = "resources/templates/list"
GET: Final = "skills/get"
READ_DIRECTORY: Final = "resources/directory/read"
PATIENCE: Final = 10.0
"""Seconds for one server's page of a list."""
AT_ONCE: Final = 8
"""Servers that are asked side by side for one client."""
LOOKED_THROUGH: Final = 16
"""Pages of a server's skills, to find out whether something is in one of them."""
LEFT_OUT: Final = frozenset((Code.UPSTREAM_ERROR, Code.SERVER_UNAVAILABLE, Code.TIMEOUT))
"""Why a server is missing from a list. All else is the caller's to know."""


class ResourceUpstreams(Protocol):
    @property
    def snapshot(self) -> Snapshot: ...
    def handshake(self, server: str) -> Negotiated | None: ...
    async def listed(self, server: str, method: str) -> list[dict[str, Any]]: ...
    async def unwatch(self, server: str, uri: str) -> None: ...


class ServerResources:
    def __init__(self, asking: AskRunner, links: ResourceLinks, upstreams: ResourceUpstreams) -> None:
        self._asking = asking
        self._links = links
        self._upstreams = upstreams
        self.handlers = {LIST: self._list, GET: self._get, READ_DIRECTORY: self._read_directory}

    def extensions(self, there: Mapping[str, Server], has_pages: bool) -> dict[str, Any]:
        """What the surface declares of itself: what any of the servers that are there has. `has_pages`: a tool does."""
        declared: dict[str, Any] = {}
        if has_pages or self._with(there, UI):
            declared[UI] = {}
        if skilled := self._with(there, SKILLS):
            reads = any(settings.get(DIRECTORIES) is True for settings in skilled.values())
            declared[SKILLS] = {DIRECTORIES: True} if reads else {}
        return declared

    async def read(self, request: McpRequest) -> Mapping[str, Any]:
        """`resources/read`, from the server that the URI belongs to."""
        uri = text_param(request, "uri")
        server, own = await self.locate(request, uri)
        if own == uri:
            return await read_linked(self._asking, self._links, request, "direct", server)
        result = await self._relayed(request, server, own)
        return as_ours(addressed_results.contents(server, own, result))

    async def locate(self, request: McpRequest, uri: str) -> WatchedResource:
        """The server of this resource: the one that its address names, else the one that named it in a result or a
        listing, else the one whose template it expands. Raises `RpcError`, also where two servers claim it."""
        addressed = owner_of(uri)
        if addressed is not None:
            server, own = addressed
            if not await self._has_named(request, server, uri, own):
                raise unknown_resource(uri)
            return WatchedResource(server, own)
        await self._uncontested(request, uri)
        owner = await linked_owner(self._asking, self._links, request, uri, "direct")
        if owner is None:
            listing = await self.listing_servers(request, LISTS, "uri", uri, same)
            owner = listing[0] if listing else await self.template_owner(request, uri, may_expand_to)
        if owner is None:
            raise unknown_resource(uri)
        return WatchedResource(owner, uri)

    async def template_owner(self, request: McpRequest, uri: str, matches: Callable[[object, str], bool]) -> str | None:
        """The server that lists a template which `matches` this URI. Raises `RpcError` where two servers do."""
        owners = await self.listing_servers(request, TEMPLATES, "uriTemplate", uri, matches)
        if len(owners) > 1:
            raise await self._asking.ambiguous(request, "direct", uri, owners[0], owners[1])
        return owners[0] if owners else None

    async def listing_servers(
        self, request: McpRequest, method: str, key: str, uri: str, matches: Callable[[object, str], bool]
    ) -> list[str]:
        """The servers that list an entry whose `key` matches this URI, in the order of the configuration."""

        def is_listed(rows: list[dict[str, Any]]) -> bool:
            return any(matches(row.get(key), uri) for row in rows)

        found = await self.everywhere(request, method)
        return [server for server, rows in found if await anyio.to_thread.run_sync(is_listed, rows)]

    async def everywhere(
        self, request: McpRequest, method: str, prefix: str | None = None
    ) -> list[tuple[str, list[dict[str, Any]]]]:
        """This list of every connected server in the caller's scope, side by side. A server that fails or is slow is
        left out. With `prefix`, only servers whose names in front of a prompt could begin it."""
        there = self._asking.there(request)
        names = [server.name for server in there.values() if server.state == "connected"]
        names = [name for name in names if prefix is None or prefix.startswith(f"{name}{SEPARATOR}")]
        found = await asyncio.gather(*(self._listed(name, method) for name in names))
        there = self._asking.there(request)  # some may be out of scope by now
        return [row for row in zip(names, found, strict=True) if row[0] in there]

    async def _listed(self, server: str, method: str) -> list[dict[str, Any]]:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._upstreams.listed(server, method)
        except (UpstreamFailure, TimeoutError):
            return []

    async def _uncontested(self, request: McpRequest, uri: str) -> None:
        """A page by its server's own URI is read for whoever has learned it so, but never where another one's tools
        show a page of the same URI: whose is meant, nobody can say. Raises `RpcError`."""
        if not addressed_results.is_of_extensions(uri):
            return
        there = self._asking.there(request)
        owner = self._links.owner(request.peer.principal, uri, there)
        if owner is None or owner.rival is not None:
            return
        rival = next((each.name for each in there.values() if each.name != owner.server and _shows(each, uri)), None)
        if rival is not None:
            raise await self._asking.ambiguous(request, "direct", uri, owner.server, rival)

    # Skills.

    async def _list(self, request: McpRequest) -> Mapping[str, Any]:
        """A page holds the next page of each server, so that none makes the others wait, however long its own list."""
        skilled = self._with(self._asking.there(request), SKILLS)
        if not skilled:
            raise unknown_method(request)
        wanted, number = list_cursors.opened(request.params.get("cursor"), skilled)
        room = asyncio.Semaphore(AT_ONCE)
        pages = await asyncio.gather(*(self._page(request, each, cursor, room) for each, cursor in wanted.items()))
        rows: list[dict[str, Any]] = []
        following: dict[str, str] = {}
        for server, (found, cursor) in zip(wanted, pages, strict=True):
            rows += found
            if cursor is not None:
                following[server] = cursor
        more = list_cursors.closed(following, number)
        return {"skills": rows} if more is None else {"skills": rows, "nextCursor": more}

    async def _page(
        self, request: McpRequest, server: str, cursor: str | None, room: asyncio.Semaphore
    ) -> tuple[list[dict[str, Any]], str | None]:
        """One page of one server: an ask of its own, which nobody is asked back about. Raises `RpcError`."""
        params = {} if cursor is None else {"cursor": cursor}
        async with room:
            try:
                async with asyncio.timeout(PATIENCE):
                    reply = await self._asked_beside(request, server, params)
            except TimeoutError:
                return [], None
        if reply.refusal is not None:
            if reply.refusal.code in LEFT_OUT:
                return [], None
            raise refused(reply.refusal)
        said = json_values.as_array(reply.result.get("skills")) or []
        found = await addressed_results.rows(said, addressed_results.skill, server)
        await self._learn_skills(request, server, found)
        return found, list_cursors.after(cursor, reply.result.get("nextCursor"))

    async def _asked_beside(self, request: McpRequest, server: str, params: dict[str, Any]) -> Call:
        peer, gateway = request.peer, self._asking.gateway
        ask = gateway.new_ask(
            LIST, params, source="mcp", surface="direct", principal=peer.principal, client=peer.client,
            session_id=peer.session_id, request_id=str(request.id)[:CLAIM_LIMIT], server=server, method=LIST,
            access=peer.access,
        )  # fmt: skip
        return await gateway.call(ask)

    async def _get(self, request: McpRequest) -> Mapping[str, Any]:
        """Also of a skill that its server does not list; it answers for its own alone."""
        skilled = self._with(self._asking.there(request), SKILLS)
        if not skilled:
            raise unknown_method(request)
        uri = text_param(request, "uri")
        server, own = owner_of(uri) or ("", "")
        if server not in skilled:
            raise _unknown("skill", uri)
        result = await self._relayed(request, server, own)
        entry = addressed_results.skill(server, result.get("skill"))
        if entry is None or entry["uri"] != uri:
            raise _unknown("skill", uri)
        await self._learn_skills(request, server, [entry])
        return as_ours({**result, "skill": entry})

    async def _read_directory(self, request: McpRequest) -> Mapping[str, Any]:
        there = self._asking.there(request)
        skilled = self._with(there, SKILLS)
        if not any(settings.get(DIRECTORIES) is True for settings in skilled.values()):
            raise unknown_method(request)
        uri = text_param(request, "uri")
        server, own = owner_of(uri) or ("", "")
        if server not in skilled or not await self._has_named(request, server, uri, own):
            raise _unknown("directory", uri)
        result = await self._relayed(request, server, own)
        said = json_values.as_array(result.get("resources")) or []
        found = await addressed_results.rows(said, addressed_results.child, server)
        await self._links.learn(request.peer.principal, server, in_list(found), there, listed=True)
        return as_ours({**result, "resources": found})

    # Whose it is.

    def _with(self, there: Mapping[str, Server], extension: str) -> dict[str, Mapping[str, Any]]:
        """The connected servers that declare this extension, and their settings of it."""
        found: dict[str, Mapping[str, Any]] = {}
        for server in there.values():
            shaken = self._upstreams.handshake(server.name) if server.state == "connected" else None
            if shaken is not None and (settings := of_server(shaken.capabilities, extension)) is not None:
                found[server.name] = settings
        return found

    async def _has_named(self, request: McpRequest, server: str, uri: str, own: str) -> bool:
        there = self._asking.there(request)
        known = there.get(server)
        if known is None or known.state != "connected":
            return False
        if (
            _shows(known, own)
            or self._is_known(request, server, uri)
            or own in in_list(await self._listed(server, LISTS))
        ):
            return server in self._asking.there(request)
        if server in self._with(there, SKILLS):
            await self._look_through(request, server)
        return self._is_known(request, server, uri)

    def _is_known(self, request: McpRequest, server: str, uri: str) -> bool:
        """Whether it was named to who asks, or lies in a folder that was."""
        there, principal = self._asking.there(request), request.peer.principal
        owner_of_it = partial(self._links.owner, principal, there=there)
        named = (owner_of_it(each) for each in (uri, *folders_above(uri)))
        return any(owner is not None and owner.server == server for owner in named)

    async def _look_through(self, request: McpRequest, server: str) -> None:
        """Whoever asks may have seen it before this gateway began."""
        cursor: str | None = None
        room = asyncio.Semaphore(1)
        for _ in range(LOOKED_THROUGH):
            _, cursor = await self._page(request, server, cursor, room)
            if cursor is None:
                return

    async def _learn_skills(self, request: McpRequest, server: str, entries: list[dict[str, Any]]) -> None:
        folders = [root for each in entries if (root := addressed_results.root_of(each["uri"])) is not None]
        there = self._asking.there(request)
        await self._links.learn(request.peer.principal, server, [*folders, *in_list(entries)], there, listed=True)

    async def _relayed(self, request: McpRequest, server: str, own: str) -> Mapping[str, Any]:
        params = {**own_params(request), "uri": own}
        return relayed(await self._asking.call(request, "direct", own, params, server))


def _shows(server: Server, uri: str) -> bool:
    """Whether a tool of this server that may be called has this page."""
    return any(uri in pages_of(tool.wire) for tool in server.tools.values() if server.offers(tool.name))


def _unknown(what: str, uri: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Unknown {what}: no listing has named this URI here", {"uri": uri})
