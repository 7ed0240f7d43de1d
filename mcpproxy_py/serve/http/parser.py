"""What a client sends, taken apart: request line, headers and body get in, and nothing else.

httptools does the parsing, strictly. Beside that: what is no HTTP/1 is refused, a head is bounded however it comes, and
what may come with the chunks of a body (extensions, zeros, trailers) is dropped and bounded. A trailer is no header:
what the headers say was checked before it came (SEC-7).
"""

from __future__ import annotations

from typing import Final, NoReturn, Protocol
from urllib.parse import unquote

import httptools

from mcpproxy_py.serve.http.request import Headers, HttpRequest, RequestHead

MAX_HEAD: Final = 128 * 1024
MAX_HEADERS: Final = 1000
MAX_FRAMING: Final = 16 * 1024
"""What may come with the chunks of a body beside it."""
CHUNK_ROOM: Final = 16
"""What a chunk needs for its size and its ends, which does not count as that."""
MOST_AHEAD: Final = 64
"""Requests that may come at once behind one that is being answered."""
VERSIONS: Final = ("1.1", "1.0")

Wrong = tuple[int, bytes]
"""What a request is turned away with: a status, and one sentence."""
UNPARSABLE: Final[Wrong] = 400, b"This is no HTTP request."
TOO_LONG: Final[Wrong] = 431, b"The request line and headers are too long: send less."
TOO_MANY: Final[Wrong] = 431, b"More than %d headers: send less." % MAX_HEADERS
TOO_MUCH_FRAMING: Final[Wrong] = 431, b"Too much beside the chunks of the body: send no trailers and no extensions."
TOO_MANY_PIECES: Final[Wrong] = 400, b"The body comes in too many pieces for its length: send larger chunks."
MOST_PIECES: Final = 4096
LEAST_PIECE: Final = 64
"""How many pieces a body may come in, and one more for so many bytes of it on top. Each is work."""
OTHER_VERSION: Final[Wrong] = 505, b"Only HTTP/1.1 and HTTP/1.0 are spoken here."
OTHER_CODING: Final[Wrong] = 501, b"A body comes with a length, or in chunks over HTTP/1.1, and with no other coding."
OTHER_HOST: Final[Wrong] = 400, b"The request line names another host than the Host header."


class Refused(Exception):
    """From within the parser, which reports it."""


class ParsedConnection(Protocol):
    """Whoever wants to know."""

    @property
    def ahead(self) -> int: ...
    def head_begins(self) -> None: ...
    def head_ends(self, request: HttpRequest) -> None: ...


class RequestParser:
    """Of one connection."""

    def __init__(self, connection: ParsedConnection) -> None:
        self._connection = connection
        self._parser = httptools.HttpRequestParser(self)
        self.between = True
        """Whether nothing of the next request has come yet."""
        self.coming: HttpRequest | None = None
        """The request whose body is being read."""
        self.wrong = UNPARSABLE
        """What is wrong with what is not taken."""
        self.drained = 0
        """How much of its body has come."""
        self._head: int | None = 0
        """How much has come of a head whose end has not."""
        self._pieces = 0
        self._framing = 0
        """How much has come that is neither body nor needed for it."""
        self._ended: list[HttpRequest] = []

    def feed(self, data: bytes) -> None:
        """Raises `HttpParserError` and `HttpParserUpgrade`. Sets `wrong` also for what can be read but is too much."""
        self._ended.clear()
        if self.coming is not None:
            self._framing += len(data)
        self._parser.feed_data(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > MAX_HEAD:
                self.wrong = TOO_LONG
        elif self.coming is not None and self._framing > MAX_FRAMING:
            self.wrong = TOO_MUCH_FRAMING

    @property
    def only(self) -> HttpRequest | None:
        """The one request that ended in what was fed last, where it ended with that."""
        return self._ended[0] if self.between and len(self._ended) == 1 else None

    def _refuse(self, wrong: Wrong) -> NoReturn:
        self.wrong = wrong
        raise Refused

    # What httptools finds.

    def on_message_begin(self) -> None:
        self.between = False
        self._url = b""
        self._headers: Headers = []
        self._length = 0
        self._expects = False
        self._codings: list[bytes] = []
        self._head = 0
        self._connection.head_begins()

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._measure(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is None:  # a trailer
            self._framing += len(name) + len(value)  # also of one that came with the head, and was not counted yet
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        elif name == b"transfer-encoding":
            self._codings.append(value.strip(b" \t").lower())
        self._measure(len(name) + len(value))
        if len(self._headers) >= MAX_HEADERS:
            self._refuse(TOO_MANY)
        self._headers.append((name, value))

    def _measure(self, more: int) -> None:
        self._length += more
        if self._length > MAX_HEAD:
            self._refuse(TOO_LONG)

    def on_headers_complete(self) -> None:
        self._head = None
        version = self._parser.get_http_version()
        if version not in VERSIONS:
            self._refuse(OTHER_VERSION)
        if self._codings and (version != "1.1" or self._codings != [b"chunked"]):
            self._refuse(OTHER_CODING)
        if self._connection.ahead >= MOST_AHEAD:
            raise Refused  # those before it are answered
        path, query = _target(self._url)
        if not self._url.startswith(b"/") and _authority(self._url) != dict(self._headers).get(b"host", b"").lower():
            self._refuse(OTHER_HOST)
        text = path.decode("ascii")
        head = RequestHead(
            self._parser.get_method().decode("ascii"), unquote(text) if "%" in text else text, self._headers,
            raw_path=path, query=query, http_version=version,
            keep_alive=version == "1.1" and self._parser.should_keep_alive(), expects=self._expects,
        )  # fmt: skip
        self._framing = self.drained = self._pieces = 0
        self.coming = HttpRequest(head, self._connection)  # type: ignore[arg-type]
        self._connection.head_ends(self.coming)

    def on_chunk_header(self) -> None:
        self._framing -= CHUNK_ROOM

    def on_body(self, body: bytes) -> None:
        self._framing -= len(body)
        if self.coming is not None:
            self.drained += len(body)
            self._pieces += 1
            if self._pieces > MOST_PIECES + self.drained // LEAST_PIECE:
                self._refuse(TOO_MANY_PIECES)
            self.coming.take(body)

    def on_message_complete(self) -> None:
        self.between = True
        if self.coming is not None:
            self.coming.complete()
            self._ended.append(self.coming)
            self.coming = None


def _authority(url: bytes) -> bytes:
    """Of a target in absolute form, as a client sends it to a proxy."""
    return url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0].lower()


def _target(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target. Raises for what is none, which the parser reports."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path, parsed.query or b""
