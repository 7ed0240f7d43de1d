"""One span, and the context that goes from one process to the next.

A span never holds what somebody wrote: no arguments, no results, no messages of errors, no URIs, and no session ids,
which open a session to whoever has them. What it names comes from closed sets or from the servers' own listings.

Where spans go. A thread of the SDK's sends them; a queue that is full drops them, so no call ever waits for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mcpproxy_py import __version__
from mcpproxy_py.core.protocol.headers import TRACE_CONTEXT, TRACE_PARENT
from mcpproxy_py.core.protocol.methods import RISKS
from mcpproxy_py.errors import RpcError, UpstreamFailure

ERROR_TYPE: Final = "error.type"
METHOD: Final = "mcp.method.name"
TOOL_ERROR: Final = "tool_error"
"""OpenTelemetry's word for a result that says `isError`."""
MOST: Final = 512
"""Characters of a context that is believed; the standard wants at least so many passed on."""

_W3C: Final = TraceContextTextMapPropagator()


def method_name(method: str) -> str:
    """Clients may ask for anything; the names of spans are a closed set."""
    return method if method in RISKS else "_OTHER"


@contextmanager
def spanned(
    tracer: Tracer, name: str, kind: SpanKind, attributes: Mapping[str, Any], context: Context | None = None,
    links: list[Link] | None = None,
) -> Iterator[Span]:  # fmt: skip
    """The current span within. What ends it badly is named by its kind: the words of an exception may be anybody's."""
    with tracer.start_as_current_span(
        name, context, kind, attributes, links, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            fail(span, _kind_of(error))
            raise


def fail(span: Span, kind: str) -> None:
    span.set_attribute(ERROR_TYPE, kind)
    span.set_status(StatusCode.ERROR)


def fail_if_it_says_so(span: Span, result: Mapping[str, Any]) -> None:
    if result.get("isError") is True:
        fail(span, TOOL_ERROR)


def _kind_of(error: BaseException) -> str:
    if isinstance(error, UpstreamFailure):
        return error.code.value
    if isinstance(error, RpcError):
        return str(error.code)
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__


def told_by(carrier: Mapping[str, Any]) -> Context:
    """The context that somebody sent along; without one, or with nonsense, that of whoever calls this."""
    said = {key: carrier.get(key) for key in TRACE_CONTEXT}
    kept = {key: value for key, value in said.items() if isinstance(value, str) and len(value) <= MOST}
    return _W3C.extract(kept, get_current())


def carried() -> dict[str, str | None]:
    """The current span, to stand in a `_meta` in the place of the one it came with (SEP-414). Servers never hear of its
    `tracestate`, which came with a request."""
    carrier: dict[str, str | None] = {}
    _W3C.inject(carrier)
    return {TRACE_PARENT: carrier.get(TRACE_PARENT)}


LAST_WORDS: Final = 3.0
"""Seconds that the end of the gateway waits for a collector to take the last spans."""


class Export:
    def __init__(self) -> None:
        """Raises whatever the SDK raises for variables that it cannot use."""
        # What the operator says of this service comes last, so that it counts.
        own = Resource({"service.name": "mcpproxy", "service.version": __version__})
        self._provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracer = self._provider.get_tracer("mcpproxy", __version__)

    def close(self) -> None:
        """The SDK would try again and again, for up to half a minute, at a collector that is not there."""
        closing = Thread(target=self._provider.shutdown, name="mcpproxy-last-spans", daemon=True)
        closing.start()
        closing.join(LAST_WORDS)
