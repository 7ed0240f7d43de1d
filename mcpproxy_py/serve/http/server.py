"""HTTP/1.1 towards clients: a connection, and its requests one after the other, each handed to whoever answers.

uvicorn accepts connections and ends them. Its own protocol does more for each request than we need
(docs/explanation/performance.md), and leaves things open that matter here: how long the head of a request may grow
(SEC-5) and how long a client may take for what it sends and reads (SEC-7), and that head and body of an answer leave in
one write, since each write wakes a client on the same machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, cast

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.server import ServerState

from mcpproxy_py.errors import Code, error_json
from mcpproxy_py.serve.http.connections import ConnectionLimits, ConnectionTable, address_of
from mcpproxy_py.serve.http.parser import TOO_MANY_PIECES, UNPARSABLE, RequestParser, Wrong
from mcpproxy_py.serve.http.request import STATUS_LINES, Handler, HeadCache, Headers, HttpRequest

MAX_DRAINED: Final = 16 << 20
"""What is read of a body that was answered before its end, so that the client gets to its answer."""
LEAST_READ: Final = 64 * 1024
"""What a client that does not keep up has to take of an answer in time."""
MOST_WAITING: Final = 4
"""Requests that a client may send ahead, beyond which it has to wait with more."""
LATE_HEAD: Final[Wrong] = 408, b"The request line and headers took too long."
LATE_BODY: Final[Wrong] = 408, b"The body took too long."
CROWDED: Final = "Too many connections are open, in all or from this address"
NO_PLACE: Final[Wrong] = 503, json.dumps(error_json(Code.OVERLOADED, CROWDED)).encode()
KINDS: Final = {503: b"application/json\r\nretry-after: 5"}


class HttpServerProtocol(asyncio.Protocol):
    """Made by uvicorn for each connection. A client may send several requests at once; they are answered in turn."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None, *, handle: Handler, heads: HeadCache, table: ConnectionTable,
    ) -> None:  # fmt: skip
        """`heads` are those that came lately, on any connection."""
        self._heads = heads
        self._handle = handle
        self._table = table
        self._limits = table.limits
        self._idle = config.timeout_keep_alive
        self._tick = min(table.limits.tick, self._idle)
        self.server = server_state
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = RequestParser(self)
        self._request: HttpRequest | None = None
        """The one that is being answered."""
        self._waiting: deque[HttpRequest] = deque()
        self._deaf = False
        self._held = False
        self._closing = False
        self.full: asyncio.Future[None] | None = None
        """Over when the client has read enough of what was written for more."""
        self.default_headers: Headers = []
        self.default_lines = b""
        """The same as they go out."""
        self._since = self._loop.time() + self._limits.head - self._idle
        """When this pause, head or body began. The first head has its own time, not that of a pause."""
        self.unread_since = 0.0
        self._was_unread = 0
        self._timer: asyncio.TimerHandle | None = None

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self.name, self.peer = _address(transport, "sockname"), _address(transport, "peername")
        self.address = address_of(self.peer)
        self._timer = self._loop.call_later(self._tick, self._look_at_the_clock)
        if not self._table.add(self):
            self._turn_away(NO_PLACE)
            return
        self.server.connections.add(self)  # type: ignore[arg-type]  # uvicorn names its own protocols

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)  # type: ignore[arg-type]
        self._table.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        self.resume_writing()
        if self._request is not None:
            self._request.lost()

    def pause_writing(self) -> None:
        if self.full is None:
            self.full = self._loop.create_future()
            self.unread_since, self._was_unread = self._loop.time(), self.unread
            self._table.unread(self)

    def resume_writing(self) -> None:
        full, self.full = self.full, None
        if full is not None:
            self._table.read(self)
            if not full.done():
                full.set_result(None)

    async def room(self) -> None:
        """Until the client has read enough of what was written, or is gone."""
        while self.full is not None:
            await asyncio.shield(self.full)

    def hold(self) -> None:
        """Nothing more is read for now."""
        if not self._held:
            self._held = True
            with contextlib.suppress(RuntimeError):
                self.transport.pause_reading()

    def read_on(self) -> None:
        if self._held and len(self._waiting) < MOST_WAITING:
            self._held = False
            with contextlib.suppress(RuntimeError):  # it is closing
                self.transport.resume_reading()

    def shutdown(self) -> None:
        """The server stops: what is being answered is answered, and that was the last."""
        if self._request is None:
            self.transport.close()
        else:
            self._request.keep_alive = False
            self._waiting.clear()

    # How long a client may take.

    @property
    def unread(self) -> int:
        return self.transport.get_write_buffer_size()

    @property
    def silent_since(self) -> float | None:
        """Since when we wait for the client."""
        return self._since if self._request is None or self._request is self._parser.coming else None

    def end(self) -> None:
        """Another one gets its place."""
        if self.unread:
            self.transport.abort()
        elif self._parser.between and self._parser.coming is None:
            self.transport.close()  # it asks nothing
        else:
            self._cut_off(NO_PLACE)

    def abort(self) -> None:
        self.transport.abort()

    def serves(self, principal: str) -> bool:
        return self._request is not None and self._request.access.principal == principal

    def _look_at_the_clock(self) -> None:
        """One timer for the life of the connection, instead of one for each thing that a client does."""
        now, tick = self._loop.time(), self._tick
        closing = self.transport.is_closing()
        if self.full is not None or closing:  # the client does not keep up with what was written
            if self._was_unread - self.unread >= LEAST_READ or closing is not self._closing:
                self.unread_since, self._was_unread, self._closing = now, self.unread, closing
            tick = min(tick, self._left_of(self._limits.read, self.unread_since, now, self.transport.abort))
        elif self.silent_since is not None:
            tick = min(tick, self._left_of(self._patience, self._since, now, self._lose_patience))
        self._timer = self._loop.call_later(tick, self._look_at_the_clock)

    def _left_of(self, allowed: float, since: float, now: float, end: Callable[[], None]) -> float:
        """Seconds, at least a few milliseconds; `end` is called when there are none."""
        if (left := since + allowed - now) <= 0:
            end()
        return max(left, 0.01)

    @property
    def _patience(self) -> float:
        if self._parser.coming is not None:
            return self._limits.body
        return self._idle if self._parser.between else self._limits.head

    def _lose_patience(self) -> None:
        if self._parser.coming is not None:
            self._cut_off(LATE_BODY)
        elif self._parser.between:
            self.transport.close()
        else:
            self._cut_off(LATE_HEAD)

    # What comes.

    def data_received(self, data: bytes) -> None:
        if self._deaf or self.transport.is_closing():
            return
        if self._parser.between and (known := self._heads.find(data)) is not None:
            request = HttpRequest(known[0], self, known[1])
            if self._request is None:
                self._begin(request)
            else:
                self._wait(request)
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        parser = self._parser
        from_its_beginning = parser.between
        try:
            parser.feed(data)
        except HttpParserUpgrade:
            self._listen_no_more()
        except HttpParserError:
            (self._cut_off if parser.wrong is TOO_MANY_PIECES else self._turn_away)(parser.wrong)
        else:
            if parser.wrong is not UNPARSABLE:
                self._cut_off(parser.wrong)
            elif parser.coming is not None and parser.coming.answered and parser.drained > MAX_DRAINED:
                self.transport.close()
            elif from_its_beginning and (only := parser.only) is not None and only.keep_alive:
                self._heads.keep(data, only.head, only.unread)

    def _listen_no_more(self) -> None:
        """What came whole is answered; what else comes is for nobody, be it another protocol or none at all."""
        self._deaf = True
        last = self._waiting[-1] if self._waiting else self._request
        if last is not None:
            last.keep_alive = False

    def _turn_away(self, wrong: Wrong) -> None:
        if self._ends_behind_another():
            return
        if self._request is None:
            self._say(wrong)
        self.transport.close()

    def _ends_behind_another(self) -> bool:
        """Whether one that came before is being answered. What is wrong then is for nobody, and not begun."""
        coming = self._parser.coming
        if self._request is None or self._request is coming:
            return False
        self._waiting = deque(one for one in self._waiting if one is not coming)
        self._listen_no_more()
        return True

    def _cut_off(self, wrong: Wrong) -> None:
        """As that, where whoever answers may wait for a body: it hears that the client is gone."""
        if self._ends_behind_another():
            return
        request, coming = self._request, self._parser.coming
        self._deaf, self._request = True, None
        if coming is None or not coming.started:
            self._say(wrong)
        if request is not None:
            request.lost()
        self.transport.close()

    def _say(self, wrong: Wrong) -> None:
        status, why = wrong
        kind = KINDS.get(status, b"text/plain; charset=utf-8")
        lines = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close" % (kind, len(why))
        self.transport.write(b"%b%b\r\n\r\n%b" % (STATUS_LINES[status], lines, why))

    # What the parser finds in it.

    def head_begins(self) -> None:
        self._since = self._loop.time()

    def head_ends(self, request: HttpRequest) -> None:
        """Its body may still be to come. Raises for one too many."""
        self._since = self._loop.time()
        if self._request is None:
            self._begin(request)
        else:
            self._wait(request)

    @property
    def ahead(self) -> int:
        """Requests that wait for the one before them."""
        return len(self._waiting)

    def _wait(self, request: HttpRequest) -> None:
        """Reading goes on at first: only who reads is told that a client has hung up."""
        self._waiting.append(request)
        if len(self._waiting) >= MOST_WAITING:
            self.hold()

    # Answering.

    def _begin(self, request: HttpRequest) -> None:
        self._request = request
        task = self._loop.create_task(self._handle(request))  # type: ignore[arg-type]  # all are coroutines
        self.server.tasks.add(task)
        task.add_done_callback(request.done)

    def answered(self, request: HttpRequest) -> None:
        """Whoever answered may go on with it, but not on this connection."""
        self._request = None
        self._since = self._loop.time()
        if not request.keep_alive:
            self.transport.close()
        elif self._waiting:
            self._begin(self._waiting.popleft())
        elif self._held:
            self.read_on()

    def use_default_headers(self) -> None:
        """They change once a second: there is a date in them."""
        self.default_headers = self.server.default_headers
        self.default_lines = b"".join([b"%b: %b\r\n" % line for line in self.default_headers])


def _address(transport: asyncio.BaseTransport, which: str) -> tuple[str, int] | None:
    with contextlib.suppress(TypeError, ValueError, IndexError):
        found = transport.get_extra_info(which)
        return str(found[0]), int(found[1])
    return None


class HttpServer(uvicorn.Server):
    """uvicorn with our own protocol in it, and with the signals taken out of its hands: stopping means draining first,
    so they are the composition root's."""

    def __init__(
        self, handle: Handler, heads: HeadCache | None = None, table: ConnectionTable | None = None, **options: Any
    ) -> None:
        """`options` are uvicorn's."""
        heads = HeadCache() if heads is None else heads
        table = ConnectionTable(ConnectionLimits()) if table is None else table
        http = partial(HttpServerProtocol, handle=handle, heads=heads, table=table)
        super().__init__(
            uvicorn.Config(
                _no_application,
                http=http,  # type: ignore[arg-type]  # it is called like the class
                interface="asgi3",
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                ws="none",
                **{"timeout_keep_alive": 75, "timeout_graceful_shutdown": 2, **options},
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _no_application(scope: object, receive: object, send: object) -> None:
    """uvicorn wants one; requests go another way."""
