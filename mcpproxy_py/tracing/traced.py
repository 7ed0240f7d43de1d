"""The parts of a gateway, each with a span around what it does: edge, gate, write-ahead, server."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import lru_cache, partial
from typing import Any, Final, cast

from opentelemetry import context as contexts
from opentelemetry.trace import Link, SpanKind, Tracer, get_current_span

from mcpproxy_py.core.protocol.client_channel import ClientChannel
from mcpproxy_py.core.protocol.headers import TRACE_CONTEXT
from mcpproxy_py.core.values import Ask, Decision, Refusal, Relay, Route, Snapshot, Status
from mcpproxy_py.gateway.gateway import Gateway
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.gateway.recorder import Call, CallCounters, EventLog, class_of, variant_of
from mcpproxy_py.gateway.upstreams import Upstreams
from mcpproxy_py.serve.http.request import Handler, HttpRequest
from mcpproxy_py.serve.mcp.request import McpRequest
from mcpproxy_py.serve.mcp.surfaces.surface import Handler as SurfaceHandler
from mcpproxy_py.serve.mcp.surfaces.surface import Surface
from mcpproxy_py.tracing.spans import METHOD, carried, fail, fail_if_it_says_so, method_name, spanned, told_by
from mcpproxy_py.upstream.permit import Permit

FAILED: Final = frozenset({"error", "timeout"})
"""A refusal is no failure of the gateway's; it did its work."""
TRANSPORTS: Final = {"stdio": "pipe", "http": "tcp", "sse": "tcp"}
_HEADERS: Final = {key.encode(): key for key in TRACE_CONTEXT}


masked: Final = lru_cache(1024)(MASKER.mask_text)
"""Names are a server's own words."""


class Traced:
    on = True

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def gateway(self, *parts: Any) -> Gateway:
        return TracedGateway(self._tracer, *parts)

    def surface(self, surface: Surface) -> Surface:
        return cast(Surface, TracedSurface(self._tracer, surface))

    def edge(self, handler: Handler) -> Handler:
        """What a request's headers say of the trace it belongs to is the context of everything within."""

        async def edge(request: HttpRequest) -> None:
            said = {_HEADERS[name]: value.decode("latin-1") for name, value in request.head.headers if name in _HEADERS}
            token = contexts.attach(told_by(said))
            try:
                await handler(request)
            finally:
                contexts.detach(token)

        return edge


class TracedSurface:
    """A surface whose every answer is a span: the edge of the trace, as far as it is ours."""

    def __init__(self, tracer: Tracer, surface: Surface) -> None:
        self._tracer = tracer
        self._surface = surface
        self.handlers = {method: partial(self._spanned, handler) for method, handler in surface.handlers.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._surface, name)

    def answer(self, request: McpRequest) -> Awaitable[Mapping[str, Any]]:
        return self._spanned(self._surface.answer, request)

    async def _spanned(self, handler: SurfaceHandler, request: McpRequest) -> Mapping[str, Any]:
        """The request's own `_meta` says whose child it is, and then what HTTP said is a link: one exchange of HTTP may
        carry several requests."""
        method, around = method_name(request.method), get_current_span().get_span_context()
        context = told_by(request.meta or {})
        parent = get_current_span(context).get_span_context()
        links = [Link(around)] if around.is_valid and parent != around else None
        about = {METHOD: method, "mcp.protocol.version": request.peer.version}
        with spanned(self._tracer, method, SpanKind.SERVER, about, context, links) as span:
            result = await handler(request)
            fail_if_it_says_so(span, result)
            return result


class TracedGateway(Gateway):
    def __init__(self, tracer: Tracer, upstreams: Upstreams, journal: EventLog, *rest: Any) -> None:
        parts = TracedUpstreams(tracer, upstreams), TracedRecord(tracer, journal)
        super().__init__(*parts, *rest, tally=TracedTally())
        self._tracer = tracer

    async def call(self, ask: Ask, channel: ClientChannel | None = None) -> Call:
        kind = SpanKind.INTERNAL if ask.source == "mcp" else SpanKind.SERVER
        about = {"mcpproxy.ask": ask.id, "mcpproxy.surface": ask.surface, "mcpproxy.source": ask.source}
        with spanned(self._tracer, f"gate {variant_of(ask)}", kind, about) as span:
            ask = ask._replace(meta={**(ask.meta or {}), **{key: said for key, said in carried().items() if said}})
            reply = await super().call(ask, channel)
            if reply.status == "pending":
                span.set_attribute("mcpproxy.outcome", reply.status)
            return reply


class TracedTally(CallCounters):
    """Where an ask is counted its span learns what became of it: both are told the same, on every path."""

    def count(self, ask: Ask, decision: Decision, rule: str, outcome: Status) -> None:
        super().count(ask, decision, rule, outcome)
        span = get_current_span()
        if span.is_recording():
            span.set_attributes({"mcpproxy.rule": rule, "mcpproxy.outcome": outcome, **_about(ask, decision)})
            if outcome in FAILED:
                fail(span, rule if outcome == "error" else outcome)


def _about(ask: Ask, decision: Decision) -> dict[str, str]:
    about = {"mcpproxy.variant": variant_of(ask), "mcpproxy.class": class_of(decision)}
    if isinstance(decision, Route | Relay):
        about |= {"mcpproxy.risk": decision.risk, "mcpproxy.server": masked(decision.server)}
    tool = decision.tool if isinstance(decision, Route | Refusal) else None
    if tool is None:
        return about
    return {**about, "mcpproxy.server": masked(tool.server), "gen_ai.tool.name": masked(tool.name)}


class TracedUpstreams:
    def __init__(self, tracer: Tracer, upstreams: Upstreams) -> None:
        self._tracer = tracer
        self._upstreams = upstreams
        self.ready = upstreams.ready
        self.check = upstreams.check

    @property
    def snapshot(self) -> Snapshot:
        return self._upstreams.snapshot

    async def request(self, server: str, permit: Permit) -> dict[str, Any]:
        name, about = self._described(server, permit)
        with spanned(self._tracer, name, SpanKind.CLIENT, about) as span:
            permit.within(carried())
            result = await self._upstreams.request(server, permit)
            fail_if_it_says_so(span, result)
            return result

    def _described(self, server: str, permit: Permit) -> tuple[str, dict[str, str]]:
        name, there, tool = method_name(permit.method), self.snapshot.servers.get(server), permit.tool
        about = {METHOD: name, "mcpproxy.server": masked(server)}
        if there is not None and there.transport in TRANSPORTS:
            about["network.transport"] = TRANSPORTS[there.transport]
        if there is not None and there.protocol_version is not None:
            about["mcp.protocol.version"] = there.protocol_version
        if there is None or tool is None or tool not in there.tools:
            return name, about
        shown = masked(tool)
        return f"{name} {shown}", {**about, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": shown}


class TracedRecord:
    """How long the disk takes is part of every call above read."""

    def __init__(self, tracer: Tracer, journal: EventLog) -> None:
        self._tracer = tracer
        self._journal = journal
        self.append = journal.append
        self.acknowledged = journal.acknowledged
        self.acknowledges = getattr(journal, "acknowledges", True)

    async def synced(self) -> None:
        with spanned(self._tracer, "record sync", SpanKind.INTERNAL, {}):
            await self._journal.synced()
