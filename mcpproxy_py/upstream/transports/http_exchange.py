"""Reading the body of a response as it comes: one JSON message, a stream of events, or what explains a refusal.

Server-sent events, bounded: one event too large is dropped, and the stream goes on.

One request over HTTP and what comes of it, whichever client carries it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import httpx2

from mcpproxy_py.core.json_size import SMALL
from mcpproxy_py.errors import Code, UpstreamFailure, bad_answer, lost
from mcpproxy_py.jsonrpc import LineSplitter, complaint, decode
from mcpproxy_py.upstream.session.rpc import PendingRequest
from mcpproxy_py.upstream.transports.http_pool import ResponseHead

FIELD_NAME_ROOM: Final = 64
"""What `data: ` and the like may add to a line that holds a message of the largest size."""
MAX_RETRY_SECONDS: Final = 30.0


class ServerSentEvent(NamedTuple):
    kind: str
    data: bytes


class SseParser:
    """Bytes in; complete events out, in order. `last_id` and `retry` are what to reconnect with."""

    def __init__(
        self, limit: int, on_event: Callable[[ServerSentEvent], None], on_oversize: Callable[[bytes, bytes], None]
    ):
        self.last_id: str | None = None
        self.retry = 1.0
        self._limit = limit
        self._on_event = on_event
        self._on_oversize = on_oversize
        self._lines = LineSplitter(limit + FIELD_NAME_ROOM, self._line, self._line_oversize)
        self._dropped = False
        self._reset()

    def feed(self, data: bytes) -> None:
        self._lines.feed(data)

    def _reset(self) -> None:
        self._kind = "message"
        self._data: list[bytes] = []
        self._size = 0

    def _line(self, line: bytes) -> None:
        line = line.removesuffix(b"\r")
        if not line:
            if self._data or self._dropped or self._kind != "message":
                self._dispatch()
            return
        name, _, value = line.partition(b":")
        self._field(name, value.removeprefix(b" "))

    def _dispatch(self) -> None:
        data, kind, dropped = b"\n".join(self._data), self._kind, self._dropped
        self._dropped = False
        self._reset()
        if data and not dropped:
            self._on_event(ServerSentEvent(kind, data))

    def _field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._kind = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self.last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = min(int(value) / 1000, MAX_RETRY_SECONDS)

    def _add(self, value: bytes) -> None:
        self._size += len(value) + 1  # with the end of the line, of which an empty one has nothing else
        if self._size <= self._limit + 1:
            self._data.append(value)
        elif not self._dropped:
            self._dropped = True
            head, self._data = b"".join(self._data) or value, []
            self._on_oversize(head[:512], b"")

    def _line_oversize(self, head: bytes, tail: bytes) -> None:
        self._dropped = True
        self._on_oversize(head.partition(b":")[2], tail)


JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"


class BodyListener(Protocol):
    """Who is told what a body says."""

    @property
    def limit(self) -> int: ...
    def message(self, message: Any, size: int) -> None: ...
    def large(self, text: bytes) -> None: ...
    def error(self, message: dict[str, Any]) -> None: ...
    def text(self, data: bytes) -> None: ...
    def oversize(self, head: bytes, tail: bytes) -> None: ...
    def count(self, what: str) -> None: ...


class ResponseBody(Protocol):
    """Both raise `UpstreamFailure` when this is no answer; nothing more of it need be read then."""

    def feed(self, data: bytes) -> None: ...
    def end(self) -> None: ...


class JsonBody:
    def __init__(self, head: ResponseHead, listener: BodyListener) -> None:
        self._listener = listener
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > self._listener.limit:
            self._listener.count("oversize")
            raise bad_answer(f"it answered with more than {self._listener.limit} bytes")

    def end(self) -> None:
        text = bytes(self._data)
        if len(text) > SMALL:
            self._listener.large(text)
            return
        try:
            message = decode(text)
        except ValueError as error:
            self._listener.count("garbage")
            raise bad_answer(complaint(error)) from None
        self._listener.message(message, len(text))


class EventBody:
    """`parser` is public for whoever has to fetch the rest of the stream, should it end early."""

    def __init__(self, head: ResponseHead, listener: BodyListener) -> None:
        self.parser = SseParser(listener.limit, self._take, listener.oversize)
        self._listener = listener
        self.feed = self.parser.feed

    def end(self) -> None:
        return

    def _take(self, event: ServerSentEvent) -> None:
        if event.kind == "message":
            self._listener.text(event.data)


class RefusalBody:
    """Many servers put a JSON-RPC error into a response that refuses, often with a null id; it says more than the
    status does."""

    def __init__(self, head: ResponseHead, listener: BodyListener) -> None:
        self._head, self._listener = head, listener
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > SMALL:
            raise refusal(self._head)

    def end(self) -> None:
        try:
            message = decode(bytes(self._data))
        except ValueError:
            message = None
        if isinstance(message, dict) and isinstance(message.get("error"), dict):
            self._listener.error(message)
        raise refusal(self._head)  # means nothing any more if there was a message


_READERS: Final = {JSON: JsonBody, EVENTS: EventBody}


def body_after(head: ResponseHead, listener: BodyListener) -> ResponseBody:
    """How to read what follows this head. Raises `UpstreamFailure` if it can be no answer."""
    kind = media_type(head)
    if coding := compression(head):
        raise bad_answer(f"it compressed its answer with {coding[:40]!r}, which was not asked for")
    if head.status == 202:
        raise bad_answer("it accepted the request and will not answer it (HTTP 202)")
    if head.status >= 300 and kind != JSON:
        raise refusal(head)
    reader = RefusalBody if head.status >= 300 else _READERS.get(kind)
    if reader is None:
        raise bad_answer(f"it answered with content type {kind[:80]!r}, which is not MCP")
    return reader(head, listener)


def compression(head: ResponseHead) -> str:
    """The coding of the body, where it has one. We ask for none, and take none: of all that a peer can send, only this
    becomes a thousand times as much work as it has bytes."""
    coding = head.fields.get(b"content-encoding", b"").strip().lower().decode("latin-1")
    return "" if coding == "identity" else coding


def media_type(head: ResponseHead) -> str:
    return head.fields.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")


logger = logging.getLogger(__name__)

DRAIN: Final = 1.0
"""How long an answered stream may take to end, so that its connection can be used again."""


class ExchangeOwner(Protocol):
    """Whose exchange it is: the connection, which knows who waits and what belongs to whom."""

    @property
    def limit(self) -> int: ...
    def count(self, what: str) -> None: ...
    def oversize(self, head: bytes, tail: bytes) -> None: ...
    def is_settled(self, request_id: int) -> bool: ...
    def opened(self, exchange: HttpExchange, head: ResponseHead) -> bool: ...
    def message_in(self, exchange: HttpExchange, message: Any, size: int) -> None: ...
    def large_in(self, exchange: HttpExchange, text: bytes) -> None: ...
    def text_in(self, exchange: HttpExchange, data: bytes) -> None: ...
    async def room(self, exchange: HttpExchange) -> None: ...
    def failed(self, exchange: HttpExchange, failure: UpstreamFailure) -> None: ...
    def ended(self, exchange: HttpExchange) -> None: ...
    def shut(self, why: str) -> None: ...


class HttpExchange:
    """Hears a response (as its `Receiver`) and what its body says (as its `BodyListener`). Whatever is wrong with it
    fails this request and no other. `hang_up`, `source` and all from `plain` to `carried` are for who carries it."""

    def __init__(self, host: ExchangeOwner, pending: PendingRequest) -> None:
        self.pending, self.request_id = pending, pending.id
        self.hang_up: Callable[[], None] = _nothing
        self.source: Callable[[bool], None] = _ignored
        self._held = False
        self.plain = False
        self.auth_version = 0
        self.asked_who = False
        """Whether the server turned it away once for who it is from."""
        self.carried = 0
        """How often it was given to somebody else to carry."""
        self.limit, self.count, self.oversize = host.limit, host.count, host.oversize
        self._host = host
        self._body: ResponseBody | None = None
        self._drain: asyncio.TimerHandle | None = None
        self._over = False

    @property
    def events(self) -> SseParser | None:
        """The stream that answers it, if one does."""
        return self._body.parser if isinstance(self._body, EventBody) else None

    @property
    def headers(self) -> Mapping[str, str]:
        """Those of the message, as it was sent."""
        return self.pending.headers

    def hold(self, hold: bool) -> None:
        """Nothing more of it is wanted for now, or it may go on."""
        if hold != self._held:
            self._held = hold
            self.source(hold)

    async def room(self) -> None:
        """Until it may go on, where nobody can stop its source."""
        while self._held:
            await self._host.room(self)

    # As a receiver.

    def head(self, head: ResponseHead) -> None:
        if self._host.opened(self, head):
            self._guarded(self._begin, head)

    def body(self, data: bytes) -> None:
        if self._body is None:
            return
        self._guarded(self._body.feed, data)
        if self._drain is None and self._host.is_settled(self.request_id) and not self._over:
            self._drain = asyncio.get_running_loop().call_later(DRAIN, self.hang_up)

    def end(self) -> None:
        self.hold(False)
        self.hang_up, self.source = _nothing, _ignored  # what it came by may carry another already
        if self._body is not None:
            self._guarded(self._body.end)
        self._finish()

    def broken(self, why: str) -> None:
        if self.events is not None and self.events.last_id is not None:
            self.end()  # the rest can be fetched
        else:
            self.fail(lost(why, sent=self.pending.sent))

    # As a `BodyListener`.

    def message(self, message: Any, size: int) -> None:
        self._host.message_in(self, message, size)

    def large(self, text: bytes) -> None:
        self._host.large_in(self, text)

    def unreadable(self, why: str) -> None:
        self.count("garbage")
        self.fail(bad_answer(why))

    def error(self, message: dict[str, Any]) -> None:
        self.message({**message, "id": self.request_id}, 0)

    def text(self, data: bytes) -> None:
        self._host.text_in(self, data)

    # Endings.

    def fail(self, failure: UpstreamFailure) -> None:
        self._host.failed(self, failure)
        self.hang_up()
        self._finish()

    def withheld(self) -> None:
        """It was not sent, and whoever waits for it knows why."""
        self.hang_up = _nothing
        self._finish()

    def unreachable(self, error: Exception) -> None:
        """Nothing answers there at all, so this is the end of the conversation too."""
        self.fail(unsent(error))
        self._host.shut(unreachable(error))

    def _begin(self, head: ResponseHead) -> None:
        self._body = body_after(head, self)

    def _guarded(self, act: Callable[..., None], *args: Any) -> None:
        try:
            act(*args)
        except UpstreamFailure as failure:
            self.fail(failure)
        except Exception as error:
            logger.exception("an exchange over HTTP failed")
            self.fail(lost(f"the exchange failed ({type(error).__name__})", sent=True))

    def _finish(self) -> None:
        if self._over:
            return
        self._over = True
        if self._drain is not None:
            self._drain.cancel()
        self._host.ended(self)


def _nothing() -> None:
    return


def _ignored(hold: bool) -> None:
    return


_HINTS: Final[Mapping[int, str]] = {
    401: "it requires authorization: set a header, or log in",
    403: "it does not allow this",
    404: "there is nothing at this URL",
    405: "this URL does not accept MCP messages",
    429: "it gets too many requests",
}


def refusal(head: ResponseHead) -> UpstreamFailure:
    """What an HTTP status that is no answer means. Names no query and no credentials: those can be secrets."""
    status = head.status
    if 300 <= status < 400 and (location := _location(head)):
        return bad_answer(f"it redirects to {location}, which is not followed; use that as the url if it is right")
    hint = _HINTS.get(status)
    return bad_answer(f"it answered with HTTP status {status}" + (f" ({hint})" if hint else ""), {"status": status})


def _location(head: ResponseHead) -> str:
    try:
        location = httpx2.URL(head.fields.get(b"location", b"").decode("ascii"))
    except (httpx2.InvalidURL, UnicodeDecodeError):
        return ""
    return str(location.copy_with(userinfo=b"", query=None, fragment=None))


def unreachable(error: Exception) -> str:
    return f"cannot connect: {error}" if str(error) else f"cannot connect: {type(error).__name__}"


def unsent(error: Exception) -> UpstreamFailure:
    return UpstreamFailure(Code.SERVER_UNAVAILABLE, unreachable(error), sent=False)
