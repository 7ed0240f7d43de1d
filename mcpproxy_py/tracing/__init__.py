"""Traces: every ask as a tree of OpenTelemetry spans, from the edge over the gate to the server.

Off until an exporter is configured. Then nothing of OpenTelemetry is imported, and the parts of the gateway are used as
they are: what traces wraps them (`Traced`), so that a gateway without it does not even ask whether it is on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio.to_thread

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.gateway import Gateway
from mcpproxy_py.serve.http.request import Handler
from mcpproxy_py.serve.mcp.surfaces.surface import Surface
from mcpproxy_py.settings.environment import exports_traces


class Tracing(Protocol):
    on: bool

    def gateway(self, *parts: Any) -> Gateway:
        """Takes what `Gateway` takes."""
        ...

    def surface(self, surface: Surface) -> Surface: ...
    def edge(self, handler: Handler) -> Handler: ...


class Untraced:
    """Every part as it is."""

    on = False

    def gateway(self, *parts: Any) -> Gateway:
        return Gateway(*parts)

    def surface(self, surface: Surface) -> Surface:
        return surface

    def edge(self, handler: Handler) -> Handler:
        return handler


@asynccontextmanager
async def tracing() -> AsyncIterator[Tracing]:
    """For as long as the gateway runs. Raises `GatewayError(CONFIG_INVALID)` for an exporter that cannot be had."""
    if not exports_traces():
        yield Untraced()
        return
    try:
        from mcpproxy_py.tracing.spans import Export
        from mcpproxy_py.tracing.traced import Traced
    except ImportError as missing:
        raise GatewayError(
            Code.CONFIG_INVALID,
            f"the OTEL_* variables turn tracing on, and {missing.name or missing} is not installed. Install it, or set "
            "OTEL_TRACES_EXPORTER=none:\n  pip install 'mcpproxy-py[otel]'",
        ) from None
    export = Export()
    try:
        yield Traced(export.tracer)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(export.close)
