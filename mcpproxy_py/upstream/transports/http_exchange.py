"""Reading the body of a response as it comes: one JSON message, a stream of events, or what explains a refusal."""

from __future__ import annotations

import zlib
from typing import Any, Final, Protocol

from mcpproxy_py._upstream_failure import bad_answer
from mcpproxy_py.messages import complaint, decode
from mcpproxy_py.upstream.transports.events import Event, EventParser
from mcpproxy_py.upstream.transports.http_clients import refusal
from mcpproxy_py.upstream.transports.http_pool import Head

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
_PLAIN: Final = frozenset({"", "identity"})
_INFLATED: Final = frozenset({"gzip", "x-gzip", "deflate"})
_EITHER_WRAPPER: Final = 47
"""Tells zlib to find out by itself whether it is gzip or deflate."""


class Ear(Protocol):
    """Who is told what a body says."""

    @property
    def limit(self) -> int: ...
    def message(self, message: Any) -> None: ...
    def error(self, message: dict[str, Any]) -> None: ...
    def text(self, data: bytes) -> None: ...
    def oversize(self, head: bytes, tail: bytes) -> None: ...
    def count(self, what: str) -> None: ...


class Body(Protocol):
    """Both raise `UpstreamFailure` when this is no answer; nothing more of it need be read then."""

    def feed(self, data: bytes) -> None: ...
    def end(self) -> None: ...


class JsonBody:
    def __init__(self, head: Head, ear: Ear) -> None:
        self._ear = ear
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > self._ear.limit:
            self._ear.count("oversize")
            raise bad_answer(f"it answered with more than {self._ear.limit} bytes")

    def end(self) -> None:
        try:
            message = decode(bytes(self._data))
        except ValueError as error:
            self._ear.count("garbage")
            raise bad_answer(complaint(error)) from None
        self._ear.message(message)


class EventBody:
    """`parser` is public for whoever has to fetch the rest of the stream, should it end early."""

    def __init__(self, head: Head, ear: Ear) -> None:
        self.parser = EventParser(ear.limit, self._take, ear.oversize)
        self._ear = ear
        self.feed = self.parser.feed

    def end(self) -> None:
        return

    def _take(self, event: Event) -> None:
        if event.kind == "message":
            self._ear.text(event.data)


class RefusalBody:
    """Many servers put a JSON-RPC error into a response that refuses, often with a null id; it says more than the
    status does."""

    def __init__(self, head: Head, ear: Ear) -> None:
        self._head, self._ear = head, ear
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > self._ear.limit:
            raise refusal(self._head)

    def end(self) -> None:
        try:
            message = decode(bytes(self._data))
        except ValueError:
            message = None
        if isinstance(message, dict) and isinstance(message.get("error"), dict):
            self._ear.error(message)
        raise refusal(self._head)  # means nothing any more if there was a message


class Inflated:
    """We ask for bodies as they are; some servers compress all the same."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._inflate = zlib.decompressobj(_EITHER_WRAPPER)

    def feed(self, data: bytes) -> None:
        while data:
            try:
                out = self._inflate.decompress(data, 1 << 16)  # a little data can be a lot of nothing
            except zlib.error:
                raise bad_answer("it answered with broken compression") from None
            self._body.feed(out)
            data = self._inflate.unconsumed_tail

    def end(self) -> None:
        self._body.end()


_READERS: Final = {JSON: JsonBody, EVENTS: EventBody}


def body_after(head: Head, ear: Ear) -> Body:
    """How to read what follows this head. Raises `UpstreamFailure` if it can be no answer."""
    kind = media_type(head)
    if head.status == 202:
        raise bad_answer("it accepted the request and will not answer it (HTTP 202)")
    if head.status >= 300 and kind != JSON:
        raise refusal(head)
    reader = RefusalBody if head.status >= 300 else _READERS.get(kind)
    if reader is None:
        raise bad_answer(f"it answered with content type {kind[:80]!r}, which is not MCP")
    return _decoded(reader(head, ear), head)


def _decoded(body: Body, head: Head) -> Body:
    coding = head.fields.get(b"content-encoding", b"").strip().lower().decode("latin-1")
    if coding in _PLAIN:
        return body
    if coding in _INFLATED:
        return Inflated(body)
    raise bad_answer(f"it compressed its answer with {coding[:40]!r}, which was not asked for")


def media_type(head: Head) -> str:
    return head.fields.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
