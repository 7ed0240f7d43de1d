"""One HTTP request of a client, from the socket to its answer.

A client sends the same head again and again, so it is read once (`RequestHead`, `HeadCache`). What the same bytes mean
never changes, so it may be kept. Whether their sender may come in can, so that is asked each time (`guard`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.errors import Code, GatewayError

if TYPE_CHECKING:
    from mcpproxy_py.serve.http.server import HttpServerProtocol

log = logging.getLogger("mcpproxy.http")

Headers = list[tuple[bytes, bytes]]

END: Final = b"\r\n\r\n"
LONGEST: Final = 4096
"""Of the heads that are kept."""
MOST: Final = 512
MOST_UNREAD: Final = 64 * 1024
"""How much of a body may wait for whoever answers, beyond which the client has to."""
MOST_DIGITS: Final = 18
"""Of a declared length that are read; more are too long a body all the same."""
STATUS_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
WITHOUT_BODY: Final = frozenset((204, 304))
FAILED: Final = b"Internal Server Error"
ONCE: Final = frozenset(b"host origin authorization x-api-key content-length x-request-id sec-fetch-site".split())
"""Headers that decide something. Sent twice, two readers could each believe another one."""
FORWARDED: Final = frozenset((b"forwarded", b"x-forwarded-for", b"x-real-ip"))
_FIT_TO_LOG: Final = re.compile(rb"[\x21-\x7e]{1,128}")


class RequestHead:
    """What follows from a request's head alone, for all requests that have the same."""

    __slots__ = (
        "admission", "api_key", "authorization", "expects", "fetch_site", "forwarded", "headers", "host",
        "http_version", "keep_alive", "length", "mcp", "method", "origin", "path", "query", "raw_path", "repeated",
        "request_id", "zone",
    )  # fmt: skip

    def __init__(
        self, method: str, path: str, headers: Headers, *, raw_path: bytes = b"", query: bytes = b"",
        http_version: str = "1.1", keep_alive: bool = True, expects: bool = False,
    ) -> None:  # fmt: skip
        """`headers` by their lower-case names. `expects`: the client waits to be told to send the body."""
        self.method = method
        self.path = path
        self.raw_path = raw_path
        self.query = query
        self.headers = headers
        self.http_version = http_version
        self.keep_alive = keep_alive
        self.expects = expects
        found = dict(headers)
        self.repeated = None if len(found) == len(headers) else _repeated(headers)
        """One of `ONCE` that came twice."""
        self.host = found.get(b"host", b"").decode("latin-1")
        self.origin = _text(found.get(b"origin"))
        self.fetch_site = _text(found.get(b"sec-fetch-site"))
        self.authorization = _text(found.get(b"authorization"))
        self.api_key = _text(found.get(b"x-api-key"))
        self.forwarded = not FORWARDED.isdisjoint(found)
        self.length = _length(found.get(b"content-length", b"0"))
        """Of the body, as declared; -1 for what is no number."""
        self.request_id = _own_id(found.get(b"x-request-id"))
        self.zone: str | None = None  # which credential opens its path, once the guard has found it out
        self.admission: Any = None  # whether that still does, once it did (`credentials.Admission`)
        self.mcp: Any = None  # what MCP makes of the head, once it has


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _repeated(headers: Headers) -> str | None:
    names: set[bytes] = set()
    for name, _ in headers:
        if name in names and name in ONCE:
            return name.decode()
        names.add(name)
    return None


def _length(declared: bytes) -> int:
    if not declared.isdigit():
        return -1
    return int(declared) if len(declared) <= MOST_DIGITS else sys.maxsize


def _own_id(given: bytes | None) -> str | None:
    """The caller's own id for its request, if it is one that can stand in a log line."""
    return given.decode("ascii") if given is not None and _FIT_TO_LOG.fullmatch(given) else None


Known = tuple[RequestHead, int]  # and the length of the body that comes with it


class HeadCache:
    """Heads that came lately, by their bytes. Bounded: of two generations, the older goes when the younger is full."""

    def __init__(self) -> None:
        self._young: dict[bytes, Known] = {}
        self._old: dict[bytes, Known] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def find(self, data: bytes) -> tuple[RequestHead, bytes] | None:
        """The head and the body of a request that came at once and alone, if this head is known."""
        end = data.find(END) + 4
        key = data[:end]
        known = self._young.get(key) or self._recalled(key)
        if known is None or known[1] != len(data) - end:
            return None
        return known[0], data[end:]

    def keep(self, data: bytes, head: RequestHead, length: int) -> None:
        """`data` is one whole request with this head and a body of this length. In chunks it would be longer, and a
        head that does not end where it would be looked for is not kept either."""
        end = len(data) - length
        if end <= LONGEST and data.find(END) + len(END) == end:
            self._keep(data[:end], (head, length))

    def _recalled(self, key: bytes) -> Known | None:
        if (known := self._old.get(key)) is not None:
            self._keep(key, known)
        return known

    def _keep(self, key: bytes, known: Known) -> None:
        if len(self._young) >= MOST:
            self._old, self._young = self._young, {}
        self._young[key] = known


class BodyCutShort(Exception):
    """The client left in the middle of it."""


class HttpRequest:
    """What came, who was let in with it, and how to answer: all at once, or as a stream."""

    id = ""
    """Names it in logs, and to the client."""
    access = Access("")
    limit = sys.maxsize  # of its body
    max_values = sys.maxsize
    """How many keys and values of JSON may be in it."""
    over = False
    """Whether it is longer. Then whoever answers is not heard, but for the guard."""
    unread = 0
    """Bytes of the body that came and that nobody has asked for yet."""
    all_read = False
    gone = False
    started = False
    answered = False
    cors: tuple[tuple[bytes, bytes], ...] = ()
    """What lets the page of another origin read the answer (`cors`)."""
    listens = False
    """Whether its answer is a stream that has no end of its own."""
    on_left: Callable[[], object] | None = None
    """Called when the client hangs up before its answer. Must not hold this request beyond its answer."""
    _parts: list[bytes] | None = None
    _read = 0
    _notifications: asyncio.Event | None = None
    _head = b""
    """Of an answer whose body is still to come, with which it leaves."""
    _left: int | None = None
    """How much of a body of known length is to come; None where it goes in chunks."""

    def __init__(self, head: RequestHead, connection: HttpServerProtocol, body: bytes | None = None) -> None:
        """`body` where all of it came with the head, and is as long as that says."""
        self.head = head
        self.body = body
        self.keep_alive = head.keep_alive
        self._connection = connection
        self._complete = body is not None
        self._expects = head.expects

    @property
    def peer(self) -> tuple[str, int] | None:
        return self._connection.peer

    @property
    def server(self) -> tuple[str, int] | None:
        return self._connection.name

    # What comes.

    def take(self, part: bytes) -> None:
        if self.answered:
            return  # nobody will read it
        if self._parts is None:
            self._parts = [part]
        else:
            self._parts.append(part)
        self.unread += len(part)
        if self.unread > MOST_UNREAD:
            self._connection.hold()
        if self._notifications is not None:
            self._notifications.set()

    def complete(self) -> None:
        self._complete = True
        if self._notifications is not None:
            self._notifications.set()

    def cut_off(self) -> None:
        self._connection.transport.close()  # what was answered goes out, and no more

    def lost(self) -> None:
        """The connection is."""
        self.gone = True
        if self._notifications is not None:
            self._notifications.set()
        if self.on_left is not None:
            self.on_left()

    async def read(self) -> bytes:
        """All of the body. Raises `BodyCutShort`, and `GatewayError` where it is too long."""
        self._expects = self._expects and not self._complete
        parts: list[bytes] = []
        while not self.all_read:
            part = await self.next_part()
            if part is None:
                raise BodyCutShort
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def next_part(self) -> bytes | None:
        """What came of the body since; None where the client left before its end, or has its answer."""
        if self._expects and not (self.gone or self.started):
            self._expects = False
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self.gone or self.answered):
            if self._parts or (self._complete and not self.all_read):
                part = b"".join(self._parts or ()) if self.body is None else self.body
                self._parts, self.unread, self.all_read = None, 0, self._complete
                self._connection.read_on()  # also to hear of it when the client leaves
                self._count(len(part))
                return part
            self._connection.read_on()
            await self._something_new()
        return None

    async def left(self) -> None:
        """Until the client is gone, or has its answer."""
        while not (self.gone or self.answered):
            await self._something_new()

    async def _something_new(self) -> None:
        self._notifications = self._notifications or asyncio.Event()
        self._notifications.clear()
        await self._notifications.wait()

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > self.limit:
            raise self.too_large()

    def too_large(self) -> GatewayError:
        self.over = True
        return GatewayError(Code.TOO_LARGE, f"The body is larger than {self.limit} bytes")

    # What goes.

    async def respond(self, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """All of an answer at once; what body there is, is JSON. Each write wakes a client on the same machine."""
        connection = self._connection
        if connection.full is not None:
            await connection.room()
        if self.gone or self.over:
            return
        if self.started:
            raise RuntimeError("an answer is under way")
        if self.cors:
            headers = [*headers, *self.cors]
        lines = _checked(b"".join([b"%b: %b\r\n" % line for line in headers]), headers) if headers else b""
        if connection.server.default_headers is not connection.default_headers:
            connection.use_default_headers()
        self.started = self.answered = True
        connection.transport.write(
            b"%b%b%bcontent-length: %d\r\n%bx-request-id: %b\r\n%b\r\n%b" % (
                STATUS_LINES[status], connection.default_lines, lines, len(body),
                b"content-type: application/json\r\n" if body else b"", self.id.encode(),
                b"" if self.keep_alive else b"connection: close\r\n", body if self.head.method != "HEAD" else b"",
            )
        )  # fmt: skip
        self._parts = None
        if self._notifications is not None:
            self._notifications.set()
        connection.answered(self)

    async def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """The head of an answer that `send` goes on with. One of known length leaves with the first of its body."""
        if self._connection.full is not None:
            await self._connection.room()
        if self.gone or self.over:
            return
        if self.started:
            raise RuntimeError("an answer is under way")
        self._begin(status, [*self._connection.server.default_headers, *headers, *self._own_lines()])

    def _own_lines(self) -> Headers:
        return [(b"x-request-id", self.id.encode()), *self.cors] if self.id else []

    def _begin(self, status: int, lines: Headers) -> None:
        names = dict(lines)
        length = names.get(b"content-length", b"0" if status in WITHOUT_BODY else None)
        chunked = self.head.http_version == "1.1"
        if length is None and chunked:
            lines.append((b"transfer-encoding", b"chunked"))
        if names.get(b"connection", b"").lower() == b"close" or (length is None and not chunked):
            self.keep_alive = False  # to an older client, a body of unknown length ends with the connection
        if not self.keep_alive and b"connection" not in names:
            lines.append((b"connection", b"close"))
        head = _checked(b"".join([b"%b: %b\r\n" % line for line in lines]), lines)
        self.started = True
        self._left = None if length is None else int(length)
        self._head = STATUS_LINES[status] + head + b"\r\n"
        if length is None:  # a stream, whose first part may be long in coming
            self._write(b"")

    async def send(self, part: bytes, *, more: bool = True) -> None:
        """Waits for a client that does not read."""
        if self._connection.full is not None:
            await self._connection.room()
        if self.gone or (self.over and not self.started):
            return
        if not self.started or self.answered:
            raise RuntimeError("a part of a body at this point of an answer")
        self._send(part, more)

    def _send(self, part: bytes, more: bool) -> None:
        if self.head.method == "HEAD":
            self._write(b"")
        elif self._left is not None:
            self._left -= len(part)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("a body that is not as long as its content-length")
            self._write(part)
        elif self.head.http_version == "1.1":
            chunk = b"%x\r\n%b\r\n" % (len(part), part) if part else b""
            self._write(chunk if more else chunk + b"0\r\n\r\n")
        else:
            self._write(part)
        if not more:
            self.answered = True
            self._parts = None
            if self._notifications is not None:
                self._notifications.set()
            self._connection.answered(self)

    def _write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._connection.transport.write(data)

    def done(self, task: asyncio.Task[None]) -> None:
        """Whoever answered it is through. An answer under way can only be cut off."""
        self._connection.server.tasks.discard(task)
        self.on_left = None
        if task.cancelled():
            self._connection.transport.close()
            return
        if (error := task.exception()) is not None:
            log.error("a request failed", exc_info=error)
        elif not self.answered and not self.gone:
            log.error("a request ended without a complete answer")
        if not (self.answered or self.gone):
            self._fail()

    def _fail(self) -> None:
        self.keep_alive = False
        if self.started:
            self._connection.transport.close()
            return
        kind = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(FAILED))]
        self._begin(500, [*self._connection.server.default_headers, *kind])
        self._send(FAILED, more=False)


Handler = Callable[[HttpRequest], Awaitable[None]]


def _checked(lines: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Headers as they go out. Raises for one that would be two."""
    count = len(list(headers))
    if lines.count(b"\n") != count or lines.count(b"\r") != count:
        raise RuntimeError("a header contains a line break")
    return lines
