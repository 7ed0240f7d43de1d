"""The gate as an MCP server, both wire eras from one object. SDK objects end here.

The SDK keeps the protocol (sessions, versions, cancellation, streams); what a tool list or a tool call
answers is ours and goes out as the plain JSON object it came in as. That is why both are answered in a
middleware that never calls on: a handler's result would be squeezed through the SDK's models, which drop
what they do not know (UP-6). Whoever answers here owes the modern wire its envelope: `resultType`, the
cache hints and the server's identity stamp.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpproxy_py import __version__
from mcpproxy_py.core import jsonvalue
from mcpproxy_py.core.gatetools import INSTRUCTIONS, definitions
from mcpproxy_py.core.values import Client, Refusal
from mcpproxy_py.gateway import Gateway, OnProgress

NAME: Final = "mcpproxy"
LIST_TTL_MS: Final = 300_000
PROGRESS_BACKLOG: Final = 256
CLAIM_LIMIT: Final = 128
"""How much of a client's claimed name we keep."""


@dataclass(frozen=True, slots=True)
class Face:
    """What of the gate is configuration: how intent is advertised, and whether wishes are taken."""

    schema: str = "nested"
    wishes: bool = True
    wish_text: str | None = None
    private: bool = False
    """Whether a token filters what a caller sees; then nobody may share a cached list."""

    def tools(self) -> list[dict[str, Any]]:
        return definitions(schema=self.schema, wishes=self.wishes, wish_text=self.wish_text)


def gate_server(gateway: Gateway, face: Callable[[], Face], session_id: str | None = None) -> Server[Any]:
    """The gate, ready for a session manager or a stream. `session_id` names a stream that has none of its own."""
    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title="mcpproxy",
        instructions=INSTRUCTIONS,
        on_list_tools=_unreached,
        on_call_tool=_unreached,
        get_tool_input_schema=lambda name: _input_schema(face(), name),
    )

    async def answer(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or not _negotiated(ctx):
            return await call_next(ctx)
        if ctx.method == "tools/list":
            return _stamped(server, ctx, _tool_list(ctx, face()))
        if ctx.method == "tools/call":
            return _stamped(server, ctx, await _call(gateway, ctx, session_id))
        return await call_next(ctx)

    server.middleware.append(answer)
    return server


def _negotiated(ctx: ServerRequestContext[Any]) -> bool:
    """Before the handshake there is nobody to answer: the SDK's own gate refuses, which we must not go around."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is not None


def _tool_list(ctx: ServerRequestContext[Any], face: Face) -> dict[str, Any]:
    if (ctx.params or {}).get("cursor") is not None:
        raise MCPError(INVALID_PARAMS, "Unknown cursor: the tool list has one page")
    listed: dict[str, Any] = {"tools": face.tools()}
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        listed |= {"ttlMs": LIST_TTL_MS, "cacheScope": "private" if face.private else "public"}
    return listed


async def _call(gateway: Gateway, ctx: ServerRequestContext[Any], session_id: str | None) -> Mapping[str, Any]:
    params = ctx.params or {}
    name = params.get("name")
    if not isinstance(name, str):
        raise MCPError(INVALID_PARAMS, f"params.name must be a string, not {jsonvalue.kind(name)}")
    ask = gateway.new_ask(
        name,
        params.get("arguments", {}),
        source="mcp",
        surface="gate",
        principal=_principal(ctx),
        client=_client(ctx),
        session_id=session_id or _header(ctx, "mcp-session-id"),
        request_id=str(ctx.request_id)[:CLAIM_LIMIT],
    )
    async with _progress(ctx) as on_progress:
        reply = await gateway.call(ask, on_progress)
    if isinstance(reply.refusal, Refusal) and reply.refusal.rule == "unknown_outer_tool":
        raise MCPError(INVALID_PARAMS, reply.refusal.message)
    return reply.result


def _stamped(server: Server[Any], ctx: ServerRequestContext[Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope the modern wire requires of whoever answers; handshake results go out as they are."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return dict(result)
    meta = result.get("_meta")
    kept = meta if isinstance(meta, Mapping) else {}
    stamp = {SERVER_INFO_META_KEY: server.server_info_stamp}
    return {**result, "resultType": "complete", "_meta": {**kept, **stamp}}


@asynccontextmanager
async def _progress(ctx: ServerRequestContext[Any]) -> AsyncIterator[OnProgress | None]:
    """A way back for progress, where the client asked for it; all of it has gone out before the result does.

    A client that does not read loses steps of its progress bar, never its result.
    """
    meta = (ctx.params or {}).get("_meta")
    if not isinstance(meta, Mapping) or "progressToken" not in meta:
        yield None
        return
    steps, received = anyio.create_memory_object_stream[Mapping[str, Any]](PROGRESS_BACKLOG)

    def note(step: Mapping[str, Any]) -> None:
        with contextlib.suppress(anyio.WouldBlock, anyio.BrokenResourceError):
            steps.send_nowait(step)

    async def pass_on() -> None:
        async with received:
            async for step in received:
                await ctx.session.report_progress(step["progress"], step.get("total"), step.get("message"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pass_on)
        with steps:
            yield note


def _client(ctx: ServerRequestContext[Any]) -> Client:
    params = ctx.session.client_params
    info = params.client_info if params is not None else None
    if info is None:
        return Client()
    return Client(jsonvalue.quoted(info.name, CLAIM_LIMIT), jsonvalue.quoted(info.version, CLAIM_LIMIT))


def _principal(ctx: ServerRequestContext[Any]) -> str:
    """Who the guard says this is; a stream on our own socket belongs to the user who may open it."""
    return ctx.request.scope["state"]["principal"] if ctx.request is not None else "local"


def _header(ctx: ServerRequestContext[Any], name: str) -> str | None:
    return ctx.request.headers.get(name) if ctx.request is not None else None


def _input_schema(face: Face, name: str) -> Mapping[str, Any] | None:
    return next((tool["inputSchema"] for tool in face.tools() if tool["name"] == name), None)


async def _unreached(ctx: Any, params: Any) -> NoReturn:
    raise AssertionError("answered in the middleware")
