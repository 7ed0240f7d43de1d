"""HTTP/1.1 towards clients: a connection, and its requests one after the other, each answered by the application.

uvicorn accepts connections and ends them. Its own protocol does more for each request than we need
(docs/explanation/performance.md), and leaves two things open that matter here: how long the head of a request may grow
(SEC-5), and that head and body of an answer leave in one write, since each write wakes a client on the same machine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import ServerState

from mcpproxy_py.serve.head import Head, Headers, Heads
from mcpproxy_py.serve.turn import STATUS_LINES, Line, Turn

MAX_HEAD: Final = 128 * 1024
UNPARSABLE: Final = b"This is no HTTP request."
TOO_LONG: Final = b"The request line and headers are too long: send less."


class Http1(asyncio.Protocol):
    """Made by uvicorn for each connection. A client may send several requests at once; they are answered in turn."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None, *, heads: Heads,
    ) -> None:  # fmt: skip
        """`heads` are those that came lately, on any connection."""
        self._heads = heads
        self._app: ASGIApp = config.loaded_app  # type: ignore[assignment]  # the same, by other names
        self._patience = config.timeout_keep_alive
        self._server = server_state
        self._state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._coming: Turn | None = None
        """The request whose body is being read."""
        self._turn: Turn | None = None
        """The request that is being answered."""
        self._waiting: deque[Turn] = deque()
        self._head: int | None = 0
        """How much has come of a head whose end has not. What comes at once with its end is bounded by a read."""
        self._between = True
        """Whether nothing of the next request has come yet."""
        self._ended: list[Turn] = []
        """The requests that ended in what was parsed last."""
        self._deaf = False
        self._idle_since = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        self._line = Line(self._transport, self._state)
        self._server.connections.add(self)  # type: ignore[arg-type]  # uvicorn names its own protocols
        self._timer = self._loop.call_later(self._patience, self._look_whether_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)  # type: ignore[arg-type]
        if self._timer is not None:
            self._timer.cancel()
        self._line.cut()
        if self._turn is not None:
            self._turn.wake()
        self._waiting.clear()

    def pause_writing(self) -> None:
        self._line.pause()

    def resume_writing(self) -> None:
        self._line.resume()

    def shutdown(self) -> None:
        """The server stops: what is being answered is answered, and that was the last."""
        if self._turn is None:
            self._transport.close()
        else:
            self._turn.keep_alive = False
            self._waiting.clear()

    def _look_whether_idle(self) -> None:
        """One timer for the life of the connection, instead of one for each pause between two requests."""
        left = self._idle_since + self._patience - self._loop.time() if self._turn is None else self._patience
        if left > 0:
            self._timer = self._loop.call_later(left, self._look_whether_idle)
        else:
            self._transport.close()

    # What comes.

    def data_received(self, data: bytes) -> None:
        if self._deaf or self._transport.is_closing():
            return
        if self._between and (known := self._heads.of(data)) is not None:
            self._take(self._new_turn(*known))
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        from_its_beginning = self._between
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._listen_no_more()
        except httptools.HttpParserError:
            self._turn_away(400, UNPARSABLE)
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
        last = self._waiting[-1] if self._waiting else self._turn
        if last is not None:
            last.keep_alive = False

    def _turn_away(self, status: int, why: bytes) -> None:
        if self._turn is not None and self._coming is None:
            self._listen_no_more()
            return
        if self._turn is None:
            kind = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close" % len(why)
            self._transport.write(b"%b%b\r\n\r\n%b" % (STATUS_LINES[status], kind, why))
        self._transport.close()

    # What the parser finds in it.

    def on_message_begin(self) -> None:
        self._between = False
        self._url = b""
        self._headers: Headers = []
        self._expects = False
        self._head = 0

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
        shared = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": self._parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": unquote(text) if "%" in text else text,
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": self._headers,
        }
        keep_alive = version == "1.1" and self._parser.should_keep_alive()
        self._coming = self._new_turn(Head(shared, keep_alive, self._expects))
        self._take(self._coming)

    def _new_turn(self, head: Head, body: bytes | None = None) -> Turn:
        """`body` where all of it is here."""
        return Turn(head, self._line, self._server.default_headers, self._answered, body)

    def _take(self, turn: Turn) -> None:
        if self._turn is None:
            self._begin(turn)
        else:
            self._waiting.append(turn)
            self._line.hold()

    def on_body(self, body: bytes) -> None:
        if self._coming is not None:
            self._coming.take(body)

    def on_message_complete(self) -> None:
        self._between = True
        if self._coming is not None:
            self._coming.complete()
            self._ended.append(self._coming)
            self._coming = None

    # Answering.

    def _begin(self, turn: Turn) -> None:
        self._turn = turn
        task = self._loop.create_task(turn.run(self._app))
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    def _answered(self, turn: Turn) -> None:
        """The application may go on with it, but not on this connection."""
        self._turn = None
        if not turn.keep_alive:
            self._transport.close()
        elif self._waiting:
            self._begin(self._waiting.popleft())
        else:
            self._idle_since = self._loop.time()
            self._line.read_on()


def _target(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target. Raises for what is none, which the parser reports."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path, parsed.query or b""
