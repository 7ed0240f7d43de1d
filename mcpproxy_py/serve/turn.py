"""One request on a connection and its answer, as the application is told of them (ASGI)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.types import ASGIApp, Message, Scope

from mcpproxy_py.serve.head import Head, Headers

log = logging.getLogger("mcpproxy.http")

MOST_UNREAD: Final = 64 * 1024
"""How much of a body may wait for the application, beyond which the client has to."""
STATUS_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
WITHOUT_BODY: Final = frozenset((204, 304))
FAILED: Final = b"Internal Server Error"
_TURN: Final = "mcpproxy.turn"


class Line:
    """What is left of the connection for its requests: writing, waiting until more can be written, and reading on."""

    def __init__(self, transport: asyncio.Transport, state: Mapping[str, Any]) -> None:
        """`state` is that of the application, for which ASGI has a place."""
        self._transport = transport
        self._state = state
        self._server, self._client = _address(transport, "sockname"), _address(transport, "peername")
        self._held = False
        self._free: asyncio.Future[None] | None = None
        self.gone = False

    def scope(self) -> dict[str, Any]:
        """What ASGI says of a connection."""
        return {"server": self._server, "client": self._client, "state": dict(self._state)}

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def room(self) -> None:
        """Until the client has read enough of what was written."""
        while self._free is not None and not self.gone:
            await asyncio.shield(self._free)

    @property
    def full(self) -> bool:
        return self._free is not None

    def pause(self) -> None:
        if self._free is None:
            self._free = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        free, self._free = self._free, None
        if free is not None and not free.done():
            free.set_result(None)

    def hold(self) -> None:
        """Nothing more is read for now."""
        if not self._held:
            self._held = True
            with contextlib.suppress(RuntimeError):
                self._transport.pause_reading()

    def read_on(self) -> None:
        if self._held:
            self._held = False
            with contextlib.suppress(RuntimeError):  # it is closing
                self._transport.resume_reading()

    def hang_up(self) -> None:
        self._transport.close()

    def cut(self) -> None:
        self.gone = True
        self.resume()


class Turn:
    def __init__(
        self, head: Head, line: Line, default_headers: Headers, on_answered: Callable[[Turn], None],
        body: bytes | None = None,
    ) -> None:  # fmt: skip
        """`body` where all of it has come."""
        self.head = head
        self.keep_alive = head.keep_alive
        self.answered = False
        self._line = line
        self._chunked = head.http_version == "1.1"
        """How a body of unknown length goes; to an older client it ends with the connection."""
        self._default_headers = default_headers
        self._expects = head.expects
        self._on_answered = on_answered
        self._body: list[bytes] = [] if body is None else [body]
        self.unread = 0
        """Bytes of the body that the application has not asked for yet."""
        self._complete = body is not None
        self._told_all = False
        self._news: asyncio.Event | None = None
        self._begun = False
        self._head = b""
        """Of an answer whose body is still to come, with which it leaves."""
        self._left: int | None = None
        """How much of a body of known length is to come; None where it goes in chunks."""

    # What comes.

    def take(self, body: bytes) -> None:
        if self.answered:
            return  # nobody will read it
        self._body.append(body)
        self.unread += len(body)
        if self.unread > MOST_UNREAD:
            self._line.hold()
        self.wake()

    def complete(self) -> None:
        self._complete = True
        self.wake()

    def wake(self) -> None:
        if self._news is not None:
            self._news.set()

    def whole(self) -> bytes | None:
        """The body, where all of it is here; whoever takes it has been told all."""
        if not self._complete or self._told_all or self._line.gone:
            return None
        return self._next_part()["body"]

    async def receive(self) -> Message:
        if self._expects and not self._line.gone:
            self._expects = False
            self._line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self._line.gone or self.answered):
            if self._body or (self._complete and not self._told_all):
                return self._next_part()
            self._line.read_on()
            self._news = self._news or asyncio.Event()
            self._news.clear()
            await self._news.wait()
        return {"type": "http.disconnect"}

    def _next_part(self) -> Message:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body, self.unread, self._told_all = [], 0, self._complete
        return {"type": "http.request", "body": body, "more_body": not self._complete}

    # What goes.

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self.head.scope({**self._line.scope(), _TURN: self}), self.receive, self.send)
            if not self.answered and not self._line.gone:
                log.error("a request was left without the end of its answer")
        except Exception:
            log.exception("a request failed")
        except asyncio.CancelledError:
            self._line.hang_up()
            raise
        if not self.answered:
            await self._fail()

    async def _fail(self) -> None:
        """An answer under way can only be cut off."""
        self.keep_alive = False
        if self._begun:
            self._line.hang_up()
        else:
            head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(FAILED))]
            await self.send({"type": "http.response.start", "status": 500, "headers": head})
            await self.send({"type": "http.response.body", "body": FAILED})

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """All of an answer at once; `headers` tell how long it is."""
        if self._line.full:
            await self._line.room()
        if not self._line.gone:
            self._begin(status, headers)
            self._send_body(body, more=False)

    async def send(self, message: Message) -> None:
        if self._line.full:
            await self._line.room()
        if self._line.gone:
            return
        if message["type"] == "http.response.start" and not self._begun:
            self._begin(message["status"], message.get("headers", ()))
        elif message["type"] == "http.response.body" and self._begun and not self.answered:
            self._send_body(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']} at this point of an answer")

    def _begin(self, status: int, headers: Any) -> None:
        lines = [*self._default_headers, *headers]
        names = dict(lines)
        length = names.get(b"content-length", b"0" if status in WITHOUT_BODY else None)
        if length is None and self._chunked:
            lines.append((b"transfer-encoding", b"chunked"))
        if names.get(b"connection", b"").lower() == b"close" or (length is None and not self._chunked):
            self.keep_alive = False
        if not self.keep_alive and b"connection" not in names:
            lines.append((b"connection", b"close"))
        head = b"".join([b"%b: %b\r\n" % line for line in lines])
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise RuntimeError("a header holds the end of a line")
        self._begun, self._expects = True, False
        self._left = None if length is None else int(length)
        self._head = STATUS_LINES[status] + head + b"\r\n"
        if length is None:  # a stream, whose first part may be long in coming
            self._write(b"")

    def _send_body(self, body: bytes, more: bool) -> None:
        if self.head.method == "HEAD":
            self._write(b"")
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("a body that is not as long as it said")
            self._write(body)
        elif self._chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self._write(chunk if more else chunk + b"0\r\n\r\n")
        else:
            self._write(body)
        if not more:
            self.answered = True
            self._body = []
            self.wake()
            self._on_answered(self)

    def _write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._line.write(data)


def turn_of(scope: Scope) -> Turn | None:
    """Of a request that came over our own protocol."""
    return scope.get(_TURN)


def _address(transport: asyncio.Transport, which: str) -> tuple[str, int] | None:
    with contextlib.suppress(TypeError, ValueError, IndexError):
        found = transport.get_extra_info(which)
        return str(found[0]), int(found[1])
    return None
