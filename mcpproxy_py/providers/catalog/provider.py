"""The built-in upstream `catalog`: seven tools over the catalog, this gateway's servers and the requests.

The catalog as an upstream: made in a worker thread when the supervisor first connects to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import anyio
import anyio.to_thread
import jsonschema_rs

from mcpproxy_py.core import json_values
from mcpproxy_py.core.catalog import approval_rules, capabilities, overlay
from mcpproxy_py.core.catalog.approval_rules import CapabilityWish, NotAccepted, Submitted, parse_wish, retargeted
from mcpproxy_py.core.catalog.model import Catalog, Connector, Matching, NotAnswered, ServerEntry, unknown
from mcpproxy_py.core.policy import declaration, tool_results
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.core.values import Caller
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.providers.catalog.data_files import DataError
from mcpproxy_py.providers.catalog.definitions import definitions
from mcpproxy_py.providers.catalog.load import connect_command
from mcpproxy_py.providers.registry.places import NAME

Answer = Mapping[str, Any]


class CatalogContext(Protocol):
    """Who asks, as the gateway authenticated it."""

    @property
    def caller(self) -> Caller: ...


class Requests(Protocol):
    """Where requests are kept. It applies `core.approvals.submit` to what it has, in one transaction."""

    async def submit(self, wish: CapabilityWish, principal: str) -> Submitted | NotAccepted: ...


class Registries(Protocol):
    """What is on this machine of the configured registries: an agent makes nobody go out."""

    async def offered(self, words: str, shipped: Mapping[str, ServerEntry]) -> tuple[list[ServerEntry], list[Answer]]:
        """Entries with these words, and what each registry's answer is worth."""
        ...

    async def entry(self, slug: str, shipped: Mapping[str, ServerEntry]) -> ServerEntry | None: ...


class CatalogProvider:
    """`tools()` and `call()` are all an upstream needs."""

    def __init__(
        self, catalog: Catalog, connectors: Callable[[Access | None], Sequence[Connector]], requests: Requests,
        registries: Registries | None = None,
    ) -> None:  # fmt: skip
        """`connectors` gives the servers that who has this access may know of, as they are at this moment."""
        self._registries = registries
        self._catalog = catalog
        self._connectors = connectors
        self._requests = requests
        self._tools = definitions(catalog.agents)
        self._checks = {tool["name"]: _check(tool["inputSchema"]) for tool in self._tools}
        self._answers: Mapping[str, Callable[[dict[str, Any], CatalogContext], Awaitable[Answer]]] = {
            **{name: self._about_agents(name) for name in _ABOUT_AGENTS},
            "mcp_list": self._mcp_list,
            "mcp_list_catalog": self._mcp_list_catalog,
            "mcp_request_capability": self._mcp_request_capability,
        }

    def tools(self) -> list[dict[str, Any]]:
        return definitions(self._catalog.agents)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CatalogContext) -> dict[str, Any]:
        """The result of `tools/call`. What is wrong with the call is a tool error in words."""
        answer = self._answers.get(name)
        try:
            if answer is None:
                raise unknown("tool", name, self._answers)
            given = {key: value for key, value in arguments.items() if value is not None}
            self._checks[name](given)
            return tool_results.structured(await answer(given, context))
        except NotAnswered as why:
            return {**tool_results.text(str(why)), "isError": True}

    def command_for(self, wish: CapabilityWish) -> str | None:
        """With which a person would grant this wish now, where the catalog or the configuration knows."""
        if wish.catalog_slug not in self._catalog.servers and NAME.fullmatch(wish.catalog_slug or ""):
            return f"mcpproxy catalog add {wish.catalog_slug}"
        try:
            entry, server = self._target(wish, self._connectors(None))
        except NotAnswered:
            return None  # the entry it named is gone
        if server is None:
            return connect_command(entry) if entry else None
        return None if server.enabled else f"mcpproxy upstream enable {server.name}"

    def _about_agents(self, name: str) -> Callable[[dict[str, Any], CatalogContext], Awaitable[Answer]]:
        async def answer(given: dict[str, Any], context: CatalogContext) -> Answer:
            return _ABOUT_AGENTS[name](self._catalog, **given)

        return answer

    async def _mcp_list(self, given: dict[str, Any], context: CatalogContext) -> Answer:
        return overlay.mcp_list(self._connectors(context.caller.access))

    async def _mcp_list_catalog(self, given: dict[str, Any], context: CatalogContext) -> Answer:
        configured, query = self._connectors(context.caller.access), given.get("query")
        if self._registries is None or query is None:
            return overlay.mcp_list_catalog(self._catalog.servers, configured, **given)
        entries, heard = await self._registries.offered(query, self._catalog.servers)
        answer = overlay.mcp_list_catalog(self._catalog.servers, configured, **given, listed=entries)
        return {**answer, "registries": heard} if heard else answer

    async def _mcp_request_capability(self, given: dict[str, Any], context: CatalogContext) -> Answer:
        wish = parse_wish(given)
        listed = await self._registries.entry(wish.catalog_slug, self._catalog.servers) if self._registries and \
            wish.catalog_slug and wish.catalog_slug not in self._catalog.servers else None  # fmt: skip
        entry, server = self._target(wish, self._connectors(context.caller.access), listed)
        found = overlay.classify(entry, server, wish.requested_tools)
        answer: dict[str, Any] = {"ok": True, "approval": None, "requested_by": {"kind": "agent"}}
        if not found.rule.approval_needed:
            return {**answer, "classification": found.as_json(), "note": USE_IT}
        filed = await self._requests.submit(_named(wish, entry, server), context.caller.principal)
        if isinstance(filed, NotAccepted):
            raise NotAnswered(filed.message)
        request = filed.request
        answer |= {"approval": request.as_json(), "classification": found.as_json(), "note": _note(filed)}
        command = connect_command(entry) if entry and server is None and request.status == "approved" else None
        return {**answer, "connect_command": command} if command else answer

    def _target(
        self, wish: CapabilityWish, configured: Sequence[Connector], listed: ServerEntry | None = None
    ) -> tuple[ServerEntry | None, Connector | None]:
        """The catalog entry and the configured server a wish is about. `listed` is what a registry has of its slug."""
        matching = Matching(self._catalog.servers, configured)
        by_name = matching.entry(wish.mcp_name)
        if wish.catalog_slug is None:
            return by_name, matching.connector(wish.mcp_name)
        entry = self._catalog.servers.get(wish.catalog_slug, listed)
        if entry is None:
            raise _no_slug(wish.catalog_slug, self._catalog)
        if by_name is not None and by_name.slug != entry.slug:
            raise NotAnswered(f"mcp_name is {by_name.slug}, but catalog_slug is {entry.slug}: ask for one server")
        return entry, matching.connector(entry.slug)


USE_IT = "Nothing was filed: the server is connected and enabled. Call its tools."
_NOTES: Mapping[approval_rules.Status, str] = {
    "pending": "A person has to decide this. Nothing is connected and nothing may be assumed; go on without it.",
    "approved": "A person approved this, which changes nothing by itself: a person still has to connect the server. "
    "Look for it in mcp_list.",
    "denied": "A person said no. Do not ask again for the same server; go on without it.",
    "expired": "This request was not decided in time.",
}
_ABOUT_AGENTS: Mapping[str, Callable[..., Answer]] = {
    "lookup_capability": capabilities.lookup_capability,
    "compare_capability": capabilities.compare_capability,
    "list_capabilities": capabilities.list_capabilities,
    "get_sources": capabilities.get_sources,
}


def _note(filed: Submitted) -> str:
    note = _NOTES[filed.request.status]
    return note if filed.fresh else f"You asked for this before. {note}"


def _named(wish: CapabilityWish, entry: ServerEntry | None, server: Connector | None) -> CapabilityWish:
    """The wish under the name everybody else knows the server by, so that two spellings are one subject."""
    return retargeted(wish, entry.slug if entry else None, server.name if server else None)


def _no_slug(slug: str, catalog: Catalog) -> NotAnswered:
    near = nearest(slug, catalog.servers, 3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    shown = json_values.quoted(slug)
    return NotAnswered(f"No catalog entry has the slug '{shown}'.{hint} mcp_list_catalog finds the slugs; leave it out "
                       "for a server the catalog does not know.")  # fmt: skip


def _check(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], None]:
    """Raises `NotAnswered` for arguments that do not fit, the unknown ones first, with the nearest right name."""
    validator = jsonschema_rs.validator_for(dict(schema), mask="the value")
    known = tuple(schema["properties"])

    def check(given: Mapping[str, Any]) -> None:
        if problem := declaration.unknown_param(given, known):
            raise NotAnswered(f"{problem}. Parameters: {', '.join(known) or 'none'}")
        try:
            validator.validate(dict(given))
        except jsonschema_rs.ValidationError as error:  # the first: there may be one for each of a million items
            place = ".".join(map(str, error.instance_path))
            raise NotAnswered(f"{place + ': ' if place else ''}{error.message}") from None

    return check


SOON: Final = 1.0
"""Seconds after the start until names are resolved by their meaning, if nobody asks before."""


class ServedCatalog:
    """Fits the upstream room's `InProcessServer`. `make` reads the data files, so it blocks, and may raise `DataError`;
    it is called again after a failure, until the operator has mended the file. Told to, it makes one that resolves
    names by their meaning too, where the extra is installed: that is four fifths of the work, and waits for the first
    call, or until the first clients are served."""

    def __init__(self, make: Callable[[bool], CatalogProvider]) -> None:
        self._make = make
        self._provider: CatalogProvider | None = None
        self._by_meaning = False
        self._turn = anyio.Lock()

    async def run(self) -> None:
        await anyio.sleep(SOON)
        with suppress(GatewayError):  # the next call says it
            await self._made(by_meaning=True)

    async def list_tools(self) -> list[dict[str, Any]]:
        return (await self._made(by_meaning=False)).tools()

    async def call_tool(self, name: str, args: dict[str, Any], context: CatalogContext) -> dict[str, Any]:
        return await (await self._made(by_meaning=True)).call(name, args, context)

    def command_for(self, wish: CapabilityWish) -> str | None:
        """With which a person would grant this wish; none is known before the data was read."""
        return self._provider.command_for(wish) if self._provider else None

    async def _made(self, *, by_meaning: bool) -> CatalogProvider:
        async with self._turn:
            if self._provider is None or (by_meaning and not self._by_meaning):
                try:
                    self._provider = await anyio.to_thread.run_sync(self._make, by_meaning)
                except DataError as error:
                    message = f"the catalog's data cannot be used: {error}"
                    raise GatewayError(Code.SERVER_UNAVAILABLE, message) from None
                self._by_meaning = by_meaning
            return self._provider
