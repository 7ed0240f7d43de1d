"""HTTP/1.1 as a client speaks it, one exchange at a time on a kept connection, told by callbacks.

Our own because it is on the path of every call: no library asked (httpx2, aiohttp) does it without a task and
several objects per exchange. `httptools` does the parsing. What is here is small because it never goes on after
anything odd: such a connection is closed, and everything unusual goes to httpx2.

The kept connections to one server, and the bytes that every request to it begins with.
"""

from __future__ import annotations

import asyncio
import re
import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, cast

import aiohappyeyeballs
import httpx2
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_FRAMING: Final = 64 * 1024
"""What a server may send without a byte of body: heads, interim answers, chunk lines, trailers."""
MAX_FIELDS: Final = 256
BODILESS: Final = frozenset({204, 304})
SLICE: Final = 8 * 1024
"""What is parsed in one turn of the event loop: it may be thousands of chunks or lines, but for a counted body."""
EVENTS: Final = b"text/event-stream"


class ResponseHead(NamedTuple):
    status: int
    fields: dict[bytes, bytes]
    """By lower-case name; of a name that comes twice, the last."""
    raw: list[tuple[bytes, bytes]]


class Receiver(Protocol):
    """Hears of one answer, on the loop: `head`, any number of `body`, then `end` or `broken`; or nothing after
    `HttpConnection.abort`. It must not raise."""

    def head(self, head: ResponseHead) -> None: ...
    def body(self, data: bytes) -> None: ...
    def end(self) -> None: ...
    def broken(self, why: str) -> None: ...


class ConnectionPoolOwner(Protocol):
    """Whoever keeps connections: told when one is made, when it is free for the next request, and when it is gone."""

    def made(self, connection: HttpConnection) -> None: ...
    def free(self, connection: HttpConnection) -> None: ...
    def lost(self, connection: HttpConnection) -> None: ...


class HttpConnection(asyncio.Protocol):
    def __init__(self, owner: ConnectionPoolOwner) -> None:
        self.free_since = 0.0
        self._owner = owner
        self._parser = HttpResponseParser(self)
        self._receiver: Receiver | None = None
        self._later: deque[bytes] = deque()
        """What came and waits for its turn to be parsed; empty for the end of the connection."""
        self._lost_by: Exception | None = None
        self._holds = 0
        self._begin()

    # What its user does.

    def send(self, request: bytes, receiver: Receiver) -> None:
        self._begin()
        self._receiver = receiver
        self._transport.write(request)

    def abort(self) -> None:
        """Hang up; the receiver hears nothing more. For a request under way, this is how it is given up."""
        self._receiver = None
        self._transport.abort()

    def hold(self, hold: bool) -> None:
        """Read nothing more for now, or go on; as often the one as the other."""
        before, self._holds = self._holds, self._holds + (1 if hold else -1)
        if bool(before) != bool(self._holds) and not self._transport.is_closing():
            with suppress(RuntimeError):
                self._transport.pause_reading() if hold else self._transport.resume_reading()

    def is_sound(self) -> bool:
        """Whether a request may be written. What can be read from an idle connection is its end, or nothing good."""
        return not self._transport.is_closing() and not _readable(self._transport.get_extra_info("socket").fileno())

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._owner.made(self)

    def data_received(self, data: bytes) -> None:
        if len(data) <= SLICE and not self._later:
            self._parse(data)
            return
        self._later.append(data)
        if len(self._later) == 1:
            self.hold(True)
            self._parse_in_turns()

    def _parse_in_turns(self) -> None:
        """A slice in each turn of the loop; of a counted body of JSON, which costs little, all of it."""
        data = self._later.popleft()
        if not data:
            self._end()
        elif self._counted or len(data) <= SLICE:
            self._parse(data)
        else:
            self._later.appendleft(data[SLICE:])
            self._parse(data[:SLICE])
        if self._later:
            asyncio.get_running_loop().call_soon(self._parse_in_turns)
        else:
            self.hold(False)

    def _parse(self, data: bytes) -> None:
        if self._receiver is None:
            self.abort()  # nobody asked
            return
        self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self._complete:
                self._break(f"it answered with invalid HTTP ({error or type(error).__name__})")
                return
            self._surplus = True
        self._after_feeding()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lost(self)
        self._lost_by = exc
        if self._later:
            self._later.append(b"")
        else:
            self._end()

    def _end(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        if self._until_eof and self._lost_by is None:
            receiver.end()
        else:
            receiver.broken(f"the connection broke ({self._lost_by or 'closed by the server'})")

    # What the parser tells.

    def on_message_begin(self) -> None:
        self._surplus = self._complete  # nobody asked for a second one

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._headed or self._complete:
            return  # a trailer: no header, since what the headers say was read before it came
        if len(self._raw) < MAX_FIELDS:
            self._raw.append((name, value))
        else:
            self._flooded = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._interim = status < 200
        if self._complete or self._flooded or self._receiver is None:
            return
        if self._interim:
            self._raw = []
            return
        self._headed = True
        fields = {name.lower(): value for name, value in self._raw}
        self._counted = b"content-length" in fields and EVENTS not in fields.get(b"content-type", b"").lower()
        framed = b"content-length" in fields or b"transfer-encoding" in fields or status in BODILESS
        self._until_eof = not framed
        self._receiver.head(ResponseHead(status, fields, self._raw))

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        if self._receiver is not None and not self._complete and not self._flooded:
            self._receiver.body(body)

    def on_message_complete(self) -> None:
        if not self._interim:
            self._complete = True
            self._keep = self._parser.should_keep_alive()

    # Between the two.

    def _begin(self) -> None:
        self._raw: list[tuple[bytes, bytes]] = []
        self._framing = 0
        self._interim = self._headed = self._complete = self._keep = False
        self._surplus = self._flooded = self._until_eof = False
        self._counted = False

    def _after_feeding(self) -> None:
        if self._receiver is None:  # it hung up on what it heard
            return
        if self._flooded or (self._framing > MAX_FRAMING and not self._complete):
            self._break("it answered with too long a head")
        elif self._complete:
            self._finish()

    def _finish(self) -> None:
        receiver, self._receiver = self._receiver, None
        # A server that answers before it has read everything may read the rest as the next request.
        if self._keep and not self._surplus and not self._later and not self._transport.get_write_buffer_size():
            self._owner.free(self)
        else:
            self._transport.abort()
        if receiver is not None:
            receiver.end()

    def _break(self, why: str) -> None:
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.broken(why)


def _readable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


KEEP_IDLE: Final = 4.0
"""Many servers hang up after five idle seconds; a request that meets that in the middle may be lost."""
HAPPY_EYEBALLS_DELAY: Final = 0.25
_FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*")


class OriginPool:
    def __init__(
        self, url: httpx2.URL, headers: Mapping[str, str], tls: ssl.SSLContext, connect_timeout: float, keep: int
    ) -> None:
        self._address = (url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80))
        self._tls = tls if url.scheme == "https" else None
        self._connect_timeout = connect_timeout
        host = {"host": url.netloc.decode("ascii")}
        self._start = b"POST " + url.raw_path + b" HTTP/1.1\r\n" + fields({**host, **headers})
        self._idle: deque[HttpConnection] = deque()
        self._keep = keep
        self._live: set[HttpConnection] = set()
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None

    def request(self, headers: bytes, payload: bytes) -> bytes:
        return b"%scontent-length: %d\r\n%s\r\n%s" % (self._start, len(payload), headers, payload)

    def idle(self) -> HttpConnection | None:
        """A connection to send on at once; the one that was used last, since it is the likeliest to be alive."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_sound():
                return connection
            connection.abort()
        return None

    async def connect(self) -> HttpConnection:
        """Raises `OSError`; `TimeoutError` is one."""
        host, port = self._address
        async with asyncio.timeout(self._connect_timeout):
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            sock = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY)
            name = host if self._tls else None
            _, connection = await self._loop.create_connection(
                lambda: HttpConnection(self), sock=sock, ssl=self._tls, server_hostname=name
            )
        return connection

    def close(self) -> None:
        for connection in list(self._live):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()

    # What the connections tell.

    def made(self, connection: HttpConnection) -> None:
        self._live.add(connection)

    def free(self, connection: HttpConnection) -> None:
        connection.free_since = self._loop.time()
        self._idle.append(connection)
        if len(self._idle) > self._keep:
            self._idle.popleft().abort()
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(KEEP_IDLE, self._sweep)

    def lost(self, connection: HttpConnection) -> None:
        self._live.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _sweep(self) -> None:
        self._sweeper = None
        while self._idle and self._idle[0].free_since <= self._loop.time() - KEEP_IDLE:
            self._idle.popleft().abort()
        if self._idle:
            self._sweeper = self._loop.call_at(self._idle[0].free_since + KEEP_IDLE, self._sweep)


def fields(headers: Mapping[str, str]) -> bytes:
    """Header lines. Raises `ValueError` for what is no header: it could end the head early and smuggle a request."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if not all(map(_FIELD.fullmatch, lines)):
        raise ValueError("a header holds what a header may not")
    return "".join([f"{line}\r\n" for line in lines]).encode("latin-1")
