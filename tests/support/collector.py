"""An OpenTelemetry collector for tests: OTLP over HTTP, read by the package's own classes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.gateway import until
from tests.support.threaded import threaded

KINDS = {Span.SPAN_KIND_INTERNAL: "internal", Span.SPAN_KIND_SERVER: "server", Span.SPAN_KIND_CLIENT: "client"}


@dataclass(frozen=True)
class Seen:
    """One span as it arrived."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    about: dict[str, Any]
    failed: bool
    links: list[str]
    events: list[str]
    state: str

    def is_parent_in(self, traceparent: str) -> bool:
        """Whatever its flags are: they say more than whether it is sampled."""
        return traceparent.startswith(f"00-{self.trace}-{self.id}-")


@dataclass
class Collector:
    """While `open` is not set it is one that is connected to and never answers."""

    url: str = ""
    spans: list[Seen] = field(default_factory=list[Seen])
    bodies: list[bytes] = field(default_factory=list[bytes])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    service: dict[str, Any] = field(default_factory=dict[str, Any])
    open: threading.Event = field(default_factory=threading.Event)

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        self.bodies.append(body)
        self.headers.append(headers)
        for resource in request.resource_spans:
            self.service |= _attributes(resource.resource.attributes)
            self.spans += [_seen(span) for scope in resource.scope_spans for span in scope.spans]

    def trace(self, trace: str, *, of: int) -> dict[str, Seen]:
        """The spans of one trace by name, once there are so many of them."""
        until(lambda: len(self._of(trace)) >= of, what=f"{of} spans of {trace}")
        found = self._of(trace)
        assert len(found) == of, [span.name for span in found]
        return {span.name: span for span in found}

    def named(self, name: str, *, of: int = 1) -> list[Seen]:
        until(lambda: len(self._named(name)) >= of, what=f"{of} spans named {name}")
        return self._named(name)

    def _of(self, trace: str) -> list[Seen]:
        return [span for span in self.spans if span.trace == trace]

    def _named(self, name: str) -> list[Seen]:
        return [span for span in self.spans if span.name == name]


def _seen(span: Any) -> Seen:
    return Seen(
        span.name, KINDS[span.kind], span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
        _attributes(span.attributes), span.status.code == Status.STATUS_CODE_ERROR,
        [link.trace_id.hex() for link in span.links], [event.name for event in span.events], span.trace_state,
    )  # fmt: skip


def _attributes(found: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in found}


@contextlib.contextmanager
def collector() -> Iterator[Collector]:
    here = Collector()
    here.open.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            here.open.wait(60)
            here.take(body, {name.lower(): value for name, value in self.headers.items()})
            with contextlib.suppress(OSError):
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    with threaded(Handler) as where:
        here.url = f"http://{where}"
        try:
            yield here
        finally:
            here.open.set()
