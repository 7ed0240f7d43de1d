"""HTTP/1.1 towards clients: a connection, and its requests one after the other, each handed to whoever answers.

uvicorn accepts connections and ends them. Its own protocol does more for each request than we need
(docs/explanation/performance.md), and leaves two things open that matter here: how long the head of a request may grow
(SEC-5), and that head and body of an answer leave in one write, since each write wakes a client on the same machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.server import ServerState

from mcpproxy_py.serve.http.request import STATUS_LINES, Handler, HeadCache, Headers, HttpRequest, RequestHead

MAX_HEAD: Final = 128 * 1024
MOST_WAITING: Final = 4
"""Requests that a client may send ahead, beyond which it has to wait with more."""
UNPARSABLE: Final = b"This is no HTTP request."
TOO_MANY_PIECES: Final = b"The body comes in too many pieces for its length: send larger chunks."
MOST_PIECES: Final = 4096
LEAST_PIECE: Final = 64
"""How many pieces a body may come in, and one more for so many bytes of it on top. Each is work."""
TOO_LONG: Final = b"The request line and headers are too long: send less."


class BodyInPieces(Exception):
    """From within the parser, which reports it: pieces that are more work than there is in them."""


class HttpServerProtocol(asyncio.Protocol):
    """Made by uvicorn for each connection. A client may send several requests at once; they are answered in turn."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None, *, handle: Handler, heads: HeadCache,
    ) -> None:  # fmt: skip
        """`heads` are those that came lately, on any connection."""
        self._heads = heads
        self._handle = handle
        self._patience = config.timeout_keep_alive
        self.server = server_state
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._coming: HttpRequest | None = None
        """The request whose body is being read."""
        self._request: HttpRequest | None = None
        """The one that is being answered."""
        self._waiting: deque[HttpRequest] = deque()
        self._head: int | None = 0
        """How much has come of a head whose end has not. What comes at once with its end is bounded by a read."""
        self._between = True
        """Whether nothing of the next request has come yet."""
        self._ended: list[HttpRequest] = []
        """The requests that ended in what was parsed last."""
        self._deaf = False
        self._held = False
        self.full: asyncio.Future[None] | None = None
        """Over when the client has read enough of what was written for more."""
        self.default_headers: Headers = []
        self.default_lines = b""
        """The same as they go out."""
        self._idle_since = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self.name, self.peer = _address(transport, "sockname"), _address(transport, "peername")
        self.server.connections.add(self)  # type: ignore[arg-type]  # uvicorn names its own protocols
        self._timer = self._loop.call_later(self._patience, self._look_whether_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)  # type: ignore[arg-type]
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        self.resume_writing()
        if self._request is not None:
            self._request.lost()

    def pause_writing(self) -> None:
        if self.full is None:
            self.full = self._loop.create_future()

    def resume_writing(self) -> None:
        full, self.full = self.full, None
        if full is not None and not full.done():
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
        if self._held:
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

    def _look_whether_idle(self) -> None:
        """One timer for the life of the connection, instead of one for each pause between two requests."""
        left = self._idle_since + self._patience - self._loop.time() if self._request is None else self._patience
        if left > 0:
            self._timer = self._loop.call_later(left, self._look_whether_idle)
        else:
            self.transport.close()

    # What comes.

    def data_received(self, data: bytes) -> None:
        if self._deaf or self.transport.is_closing():
            return
        if self._between and (known := self._heads.find(data)) is not None:
            request = HttpRequest(known[0], self, known[1])
            if self._request is None:
                self._begin(request)
            else:
                self._wait(request)
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        from_its_beginning = self._between
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._listen_no_more()
        except httptools.HttpParserError as error:
            self._turn_away(400, TOO_MANY_PIECES if isinstance(error.__context__, BodyInPieces) else UNPARSABLE)
        else:
            if self._head is not None:
                self._head += len(data)
                if self._head > MAX_HEAD:
                    self._turn_away(431, TOO_LONG)
            if from_its_beginning and self._between and len(self._ended) == 1 and self._ended[0].keep_alive:
                self._heads.keep(data, self._ended[0].head, self._ended[0].unread)
            self._ended.clear()

    def _listen_no_more(self) -> None:
        """What came whole is answered; what else comes is for nobody, be it another protocol or none at all."""
        self._deaf = True
        last = self._waiting[-1] if self._waiting else self._request
        if last is not None:
            last.keep_alive = False

    def _turn_away(self, status: int, why: bytes) -> None:
        if self._request is not None and self._coming is None:
            self._listen_no_more()
            return
        if self._request is None or (why is TOO_MANY_PIECES and not self._request.started):
            kind = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close" % len(why)
            self.transport.write(b"%b%b\r\n\r\n%b" % (STATUS_LINES[status], kind, why))
        self.transport.close()

    # What the parser finds in it.

    def on_message_begin(self) -> None:
        self._between = False
        self._url = b""
        self._headers: Headers = []
        self._expects = False
        self._head = self._pieces = self._taken = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._head = None
        path, query = _target(self._url)
        version = self._parser.get_http_version()
        text = path.decode("ascii")
        head = RequestHead(
            self._parser.get_method().decode("ascii"), unquote(text) if "%" in text else text, self._headers,
            raw_path=path, query=query, http_version=version,
            keep_alive=version == "1.1" and self._parser.should_keep_alive(), expects=self._expects,
        )  # fmt: skip
        self._coming = HttpRequest(head, self)
        if self._request is None:
            self._begin(self._coming)
        else:
            self._wait(self._coming)

    def _wait(self, request: HttpRequest) -> None:
        """Reading goes on at first: only who reads is told that a client has hung up."""
        self._waiting.append(request)
        if len(self._waiting) >= MOST_WAITING:
            self.hold()

    def on_body(self, body: bytes) -> None:
        self._pieces += 1
        self._taken += len(body)
        if self._pieces > MOST_PIECES + self._taken // LEAST_PIECE:
            raise BodyInPieces
        if self._coming is not None:
            self._coming.take(body)

    def on_message_complete(self) -> None:
        self._between = True
        if self._coming is not None:
            self._coming.complete()
            self._ended.append(self._coming)
            self._coming = None

    # Answering.

    def _begin(self, request: HttpRequest) -> None:
        self._request = request
        task = self._loop.create_task(self._handle(request))  # type: ignore[arg-type]  # all are coroutines
        self.server.tasks.add(task)
        task.add_done_callback(request.done)

    def answered(self, request: HttpRequest) -> None:
        """Whoever answered may go on with it, but not on this connection."""
        self._request = None
        if not request.keep_alive:
            self.transport.close()
        elif self._waiting:
            self._begin(self._waiting.popleft())
        else:
            self._idle_since = self._loop.time()
            if self._held:
                self.read_on()

    def use_default_headers(self) -> None:
        """They change once a second: there is a date in them."""
        self.default_headers = self.server.default_headers
        self.default_lines = b"".join([b"%b: %b\r\n" % line for line in self.default_headers])


def _target(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target. Raises for what is none, which the parser reports."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path, parsed.query or b""


def _address(transport: asyncio.BaseTransport, which: str) -> tuple[str, int] | None:
    with contextlib.suppress(TypeError, ValueError, IndexError):
        found = transport.get_extra_info(which)
        return str(found[0]), int(found[1])
    return None


class HttpServer(uvicorn.Server):
    """uvicorn with our own protocol in it, and with the signals taken out of its hands: stopping means draining first,
    so they are the composition root's."""

    def __init__(self, handle: Handler, heads: HeadCache | None = None, **options: Any) -> None:
        """`options` are uvicorn's."""
        http = partial(HttpServerProtocol, handle=handle, heads=HeadCache() if heads is None else heads)
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
