"""Where spans go. A thread of the SDK's sends them; a queue that is full drops them, so no call ever waits for this."""

from __future__ import annotations

from threading import Thread
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from mcpproxy_py import __version__
from mcpproxy_py.errors import Code, GatewayError

LAST_WORDS: Final = 3.0
"""Seconds that the end of the gateway waits for a collector to take the last spans."""


class Export:
    def __init__(self) -> None:
        try:
            # What the operator says of this service comes last, so that it counts.
            own = Resource({"service.name": "mcpproxy", "service.version": __version__})
            self._provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        except ValueError as error:
            raise GatewayError(Code.CONFIG_INVALID, f"the OTEL_* variables cannot be used: {error}") from None
        self.tracer = self._provider.get_tracer("mcpproxy", __version__)

    def close(self) -> None:
        """The SDK would try again and again, for up to half a minute, at a collector that is not there."""
        closing = Thread(target=self._provider.shutdown, name="mcpproxy-last-spans", daemon=True)
        closing.start()
        closing.join(LAST_WORDS)
