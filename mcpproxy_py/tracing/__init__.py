"""Traces: every ask as a tree of OpenTelemetry spans, from the edge over the gate to the server.

Off until an exporter is configured. Then nothing of OpenTelemetry is imported, and the parts of the gateway are used as
they are: what traces wraps them (`Traced`), so that a gateway without it does not even ask whether it is on.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import anyio.to_thread

from mcpproxy_py.gateway.gateway import Gateway
from mcpproxy_py.serve.http.request import Handler
from mcpproxy_py.serve.mcp.surfaces.surface import Surface
from mcpproxy_py.settings.environment import trace_export

if TYPE_CHECKING:
    from mcpproxy_py.tracing.spans import Export

log = logging.getLogger(__name__)


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
    """For as long as the gateway runs. Variables that cannot be used may be meant for other programs: a warning says
    so, and nothing is traced."""
    wanted = trace_export()
    export = _export() if wanted.on else wanted.problem
    if export is None or isinstance(export, str):
        if export is not None:
            log.warning("no traces: %s. OTEL_TRACES_EXPORTER=none turns this warning off", export)
        yield Untraced()
        return
    from mcpproxy_py.tracing.traced import Traced

    try:
        yield Traced(export.tracer)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(export.close)


def _export() -> Export | str:
    """Or why there cannot be one."""
    try:
        from mcpproxy_py.tracing.spans import Export

        return Export()
    except ImportError as missing:
        needs = "pip install 'mcpproxy-py[otel]'"
        return f"the OTEL_* variables ask for them, and {missing.name or missing} is not installed ({needs})"
    except Exception as error:  # of whatever kind: the SDK reads these variables in many places
        return f"the OTEL_* variables cannot be used: {error}"
