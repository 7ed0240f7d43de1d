"""The gate as an MCP server, both wire eras from one object. SDK objects end here.

The SDK keeps the protocol (sessions, versions, cancellation, streams). The gate's two answers are given in
a middleware that never calls on, so that what is relayed is not squeezed through the SDK's models.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpproxy_py import __version__
from mcpproxy_py.core.gatetools import INSTRUCTIONS
from mcpproxy_py.gateway import OnProgress
from mcpproxy_py.serve.gate import NAME, Gate, Peer, claimed_client, enveloped

PROGRESS_BACKLOG: Final = 256


def gate_server(gate: Gate, session_id: str | None = None) -> Server[Any]:
    """The gate, ready for a session manager or a stream. `session_id` names a stream that has none of its own."""
    server: Server[Any] = Server(
        NAME,
        title=NAME,
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=_unreached,
        on_call_tool=_unreached,
        get_tool_input_schema=gate.input_schema,
    )

    async def answer(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if ctx.request_id is None or not (modern or _has_shaken_hands(ctx)):
            return await call_next(ctx)
        if ctx.method == "tools/list":
            listed = gate.list_tools(ctx.params or {})
            return enveloped({**listed, **gate.list_hints()}) if modern else listed
        if ctx.method == "tools/call":
            async with _progress(ctx) as on_progress:
                result = await _result_or_error(gate, ctx, session_id, on_progress)
            if isinstance(result, Exception):
                raise result
            return enveloped(result) if modern else dict(result)
        return await call_next(ctx)

    server.middleware.append(answer)
    return server


def _has_shaken_hands(ctx: ServerRequestContext[Any]) -> bool:
    """Before the handshake there is nobody to answer: the SDK's own gate refuses, which we must not go around."""
    return ctx.session.client_params is not None


async def _result_or_error(
    gate: Gate, ctx: ServerRequestContext[Any], session_id: str | None, on_progress: OnProgress | None
) -> Mapping[str, Any] | Exception:
    """An error as a value: raised inside the progress task group it would arrive wrapped in a group."""
    try:
        return await gate.call(ctx.params or {}, _peer(ctx, session_id), on_progress)
    except Exception as error:
        return error


def _peer(ctx: ServerRequestContext[Any], session_id: str | None) -> Peer:
    """Who the guard says this is; a stream on our own socket belongs to the user who may open it."""
    said = ctx.session.client_params
    client = claimed_client(said.client_info.model_dump() if said is not None else None)
    if ctx.request is None:
        return Peer(client, "local", session_id, str(ctx.request_id))
    session = session_id or ctx.request.headers.get("mcp-session-id")
    return Peer(client, ctx.request.scope["state"]["principal"], session, str(ctx.request_id))


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


async def _unreached(ctx: Any, params: Any) -> NoReturn:
    raise AssertionError("answered in the middleware")
