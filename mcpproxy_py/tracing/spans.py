"""One span, and the context that goes from one process to the next.

A span never holds what somebody wrote: no arguments, no results, no messages of errors, no URIs, and no session ids,
which open a session to whoever has them. What it names comes from closed sets or from the servers' own listings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.core.protocol._core_headers import TRACE_CONTEXT
from mcpproxy_py.errors import RpcError

ERROR_TYPE: Final = "error.type"
METHOD: Final = "mcp.method.name"
TOOL_ERROR: Final = "tool_error"
"""OpenTelemetry's word for a result that says `isError`."""
METHODS: Final = frozenset({
    "tools/call", "tools/list", "prompts/get", "prompts/list", "resources/list", "resources/read",
    "resources/subscribe", "resources/templates/list", "resources/unsubscribe", "completion/complete",
    "logging/setLevel", "tasks/get", "tasks/list", "tasks/result", "tasks/update", "tasks/cancel",
})  # fmt: skip
MOST: Final = 512
"""Characters of a context that is believed; the standard wants at least so many passed on."""

_W3C: Final = TraceContextTextMapPropagator()


def method_name(method: str) -> str:
    """Clients may ask for anything; the names of spans are a closed set."""
    return method if method in METHODS else "_OTHER"


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
    """The current span, to stand in a `_meta` in the place of the one it came with (SEP-414)."""
    carrier: dict[str, str | None] = dict.fromkeys(TRACE_CONTEXT)
    _W3C.inject(carrier)
    return carrier
