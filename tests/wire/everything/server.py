"""The server itself: the SDK carries the messages, and every answer is a plain object from the tables here."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, SERVER_INFO_META_KEY

from . import tools  # noqa: F401 (first in the registry: the suite calls the first tool with no arguments)

# isort: split
from . import apps, asking, cells, shelf, skills, tasks  # noqa: F401 (they fill the registry)
from .calls import Call, Handler, is_modern, run, text
from .registry import TOOLS, schema, tool

IDENTITY = {"name": "everything", "version": "1.0.0"}
CACHEABLE = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read",
             "skills/list", "skills/get")  # fmt: skip
BAD_CURSOR = "Unknown cursor"


class _Advertised(Server[Any]):
    """The SDK's manager gives no options, and then a handshake client is told that no list ever changes."""

    def create_initialization_options(self, *given: Any, **named: Any) -> InitializationOptions:
        return super().create_initialization_options(NotificationOptions(True, True, True), *given[1:], **named)


class Everything:
    """One server with its state: which tools there are now, and who wants to hear of changes."""

    def __init__(self, page: int = 0) -> None:
        self.page = page
        self.bus = InMemorySubscriptionBus()
        self.sessions: dict[str, ServerSession] = {}
        self.watchers: dict[str, set[str]] = {}
        self.extra: dict[str, Handler] = {}
        self.methods: dict[str, Callable[[ServerRequestContext[Any]], Awaitable[dict[str, Any]]]] = {
            "tools/list": lambda ctx: self._listed(ctx, "tools", self._definitions()),
            "prompts/list": lambda ctx: self._listed(ctx, "prompts", shelf.PROMPTS),
            "resources/list": lambda ctx: self._listed(ctx, "resources", shelf.RESOURCES),
            "resources/templates/list": lambda ctx: self._listed(ctx, "resourceTemplates", shelf.TEMPLATES),
            "tools/call": self._call_tool,
            "prompts/get": lambda ctx: run(shelf.prompt, ctx),
            "resources/read": lambda ctx: run(shelf.read, ctx),
            "completion/complete": lambda ctx: run(shelf.complete, ctx),
            "skills/list": lambda ctx: self._listed(ctx, "skills", skills.ENTRIES),
            "skills/get": lambda ctx: run(skills.get, ctx),
            "resources/directory/read": lambda ctx: run(skills.read_directory, ctx),
        }
        self.modern_methods = tasks.METHODS
        self.handshake_methods = {
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "logging/setLevel": self._nothing,
        }

    def build(self) -> Server[Any]:
        server = _Advertised(
            IDENTITY["name"],
            version=IDENTITY["version"],
            instructions="Everything a client may meet.",
            get_tool_input_schema=self._input_schema,
            on_list_tools=_unreached,
            on_call_tool=_unreached,
            on_list_prompts=_unreached,
            on_get_prompt=_unreached,
            on_list_resources=_unreached,
            on_list_resource_templates=_unreached,
            on_read_resource=_unreached,
            on_subscribe_resource=_unreached,
            on_unsubscribe_resource=_unreached,
            on_set_logging_level=_unreached,
            on_completion=_unreached,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        server.middleware.append(self._answer)
        server.extensions = {tasks.EXTENSION: {}, apps.EXTENSION: {}, skills.EXTENSION: skills.SETTINGS}
        return server

    async def _answer(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        modern = is_modern(ctx)
        if ctx.request_id is None:
            if ctx.method == "notifications/initialized":
                self.sessions[_session_of(ctx)] = ctx.session
            return await call_next(ctx)
        known = {**self.methods, **(self.modern_methods if modern else self.handshake_methods)}
        if ctx.method not in known or not (modern or ctx.session.client_params):
            return await call_next(ctx)
        return _dressed(ctx, await known[ctx.method](ctx))

    async def _listed(
        self, ctx: ServerRequestContext[Any], key: str, items: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        cursor = (ctx.params or {}).get("cursor")
        if cursor is None:
            begin = 0
        elif self.page and isinstance(cursor, str) and cursor.isdigit() and int(cursor) < len(items):
            begin = int(cursor)
        else:
            raise MCPError(INVALID_PARAMS, BAD_CURSOR)
        end = begin + self.page if self.page else len(items)
        return {key: list(items[begin:end]), **({"nextCursor": str(end)} if end < len(items) else {})}

    def _definitions(self) -> list[dict[str, Any]]:
        return [definition for definition, _ in TOOLS.values()] + [_grown(name) for name in self.extra]

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        return TOOLS[name][0]["inputSchema"] if name in TOOLS else None

    async def _call_tool(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        name = (ctx.params or {}).get("name")
        if name in TOOLS:
            changed = CHANGES.get(name)
            if changed is not None:
                await changed(self, (ctx.params or {}).get("arguments") or {})
            return await run(TOOLS[name][1], ctx)
        if name in self.extra:
            return await run(self.extra[name], ctx)
        raise MCPError(INVALID_PARAMS, f"There is no tool {name}")

    async def _subscribe(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        self.watchers.setdefault(_session_of(ctx), set()).add(_uri(ctx))
        return {}

    async def _unsubscribe(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        self.watchers.get(_session_of(ctx), set()).discard(_uri(ctx))
        return {}

    async def _nothing(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        return {}

    async def tools_changed(self) -> None:
        await self.bus.publish(ToolsListChanged())
        await self._tell(lambda key, session: session.send_tool_list_changed())

    async def prompts_changed(self) -> None:
        await self.bus.publish(PromptsListChanged())
        await self._tell(lambda key, session: session.send_prompt_list_changed())

    async def resource_updated(self, uri: str) -> None:
        await self.bus.publish(ResourceUpdated(uri))
        await self._tell(
            lambda key, session: session.send_resource_updated(uri) if uri in self.watchers.get(key, ()) else None
        )

    async def _tell(self, tell: Callable[[str, ServerSession], Awaitable[None] | None]) -> None:
        for key, session in [*self.sessions.items()]:
            with contextlib.suppress(Exception):  # a session that is gone hears nothing
                if (told := tell(key, session)) is not None:
                    await told


def _session_of(ctx: ServerRequestContext[Any]) -> str:
    return ctx.request.headers.get("mcp-session-id", "") if ctx.request is not None else "stdio"


def _uri(ctx: ServerRequestContext[Any]) -> str:
    uri = (ctx.params or {}).get("uri")
    if not isinstance(uri, str):
        raise MCPError(INVALID_PARAMS, "uri must be a string")
    return uri


def _dressed(ctx: ServerRequestContext[Any], result: dict[str, Any]) -> dict[str, Any]:
    """What the modern wire wants beside the result itself."""
    if not is_modern(ctx):
        return result
    hints = {"ttlMs": 60_000, "cacheScope": "public"} if ctx.method in CACHEABLE and "contents" not in result else {}
    if "contents" in result:
        hints = {"ttlMs": 0, "cacheScope": "private"}
    meta = {**result.get("_meta", {}), SERVER_INFO_META_KEY: IDENTITY}
    return {"resultType": "complete", **hints, **result, "_meta": meta}


async def _unreached(ctx: Any, params: Any) -> NoReturn:
    raise AssertionError("answered in the middleware")


def _grown(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"A tool that was added: {name}", "inputSchema": schema()}


NAMED = schema(("name",), name="string")


@tool("Adds a tool and says that the list changed", NAMED)
async def grow(call: Call) -> dict[str, Any]:
    return text(f"there is {call.arguments.get('name')}")


@tool("Takes a tool away again and says that the list changed", NAMED)
async def shrink(call: Call) -> dict[str, Any]:
    return text(f"there is no {call.arguments.get('name')}")


@tool("Rewrites the watched resource and says so", schema(("words",), words="string"))
async def touch(call: Call) -> dict[str, Any]:
    return text("rewritten")


@tool("Says that the list of tools changed")
async def test_trigger_tool_change(call: Call) -> dict[str, Any]:
    return text("said")


@tool("Says that the list of prompts changed")
async def test_trigger_prompt_change(call: Call) -> dict[str, Any]:
    return text("said")


async def _grow(server: Everything, arguments: Mapping[str, Any]) -> None:
    async def added(call: Call) -> dict[str, Any]:
        return text("new here")

    server.extra[str(arguments.get("name"))] = added
    await server.tools_changed()


async def _shrink(server: Everything, arguments: Mapping[str, Any]) -> None:
    server.extra.pop(str(arguments.get("name")), None)
    await server.tools_changed()


async def _touch(server: Everything, arguments: Mapping[str, Any]) -> None:
    shelf.CONTENTS[shelf.WATCHED] = {"mimeType": "text/plain", "text": str(arguments.get("words"))}
    await server.resource_updated(shelf.WATCHED)


CHANGES: dict[Any, Callable[[Everything, Mapping[str, Any]], Awaitable[None]]] = {
    "grow": _grow,
    "shrink": _shrink,
    "touch": _touch,
    "test_trigger_tool_change": lambda server, arguments: server.tools_changed(),
    "test_trigger_prompt_change": lambda server, arguments: server.prompts_changed(),
}
"""What a tool does to the server itself, before it answers."""
