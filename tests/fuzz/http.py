"""HTTP, both ways: what clients send to us, and what servers answer."""

from __future__ import annotations

import asyncio
import random
import re
import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import h11
import httptools
from uvicorn.server import ServerState

from mcpproxy_py.serve.http.guard import AccessRules, Guard
from mcpproxy_py.serve.http.request import BodyCutShort, HeadCache, HttpRequest
from mcpproxy_py.serve.http.server import HttpServer
from mcpproxy_py.upstream.transports.http_pool import HttpConnection, ResponseHead

_loop: Final = asyncio.new_event_loop()
QUIET: Final = 3
"""Turns of the loop in which nothing happens, after which nothing will."""


def splits(data: bytes) -> Iterator[list[bytes]]:
    """The same bytes as they may come: at once, in two or three parts, one by one. The same for the same bytes."""
    yield [data]
    rng = random.Random(zlib.crc32(data))
    end = data.find(b"\r\n\r\n") + 4
    for cuts in ([end], [rng.randint(0, len(data))], sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))):
        places = [0, *cuts, len(data)]
        yield [data[start:stop] for start, stop in pairwise(places) if stop > start]
    if len(data) <= 400:
        yield [bytes([byte]) for byte in data]


# What clients send.

SENT_AHEAD: Final = 4
"""Requests that a client may send before it has an answer, at the least."""


class ClientWire:
    """The transport of a connection whose client's bytes are here, and where our answers stay."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.closing = False

    def write(self, data: bytes) -> None:
        assert not self.closing, "something was written after the end"
        self.sent += data

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 6)}.get(name, default)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Delivered(NamedTuple):
    """A request as whoever answers sees it. `body` is None where its end never came."""

    method: str
    target: bytes
    path: str
    version: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes | None


@dataclass
class Reading:
    """What we made of some bytes."""

    delivered: list[Delivered | None] = field(default_factory=list[Delivered | None])
    """In order; None for one that the guard turned away."""
    answers: list[int] = field(default_factory=list[int])


RULES: Final = AccessRules(admin_key=lambda: "k" * 32, allowed_hosts=("*",), max_body_bytes=1 << 16)


async def _read(parts: Sequence[bytes], heads: HeadCache) -> Reading:
    found = Reading()

    async def endpoint(request: HttpRequest) -> None:
        try:
            body = request.body if request.body is not None else await request.read()
        except BodyCutShort:
            body = None
        head = request.head
        target = head.raw_path + (b"?" + head.query if head.query else b"")
        found.delivered[places[id(request)]] = Delivered(
            head.method, target, head.path, head.http_version, tuple(head.headers), body
        )
        if body is not None:
            await request.respond(200, b"{}")

    places: dict[int, int] = {}
    guard = Guard({"/mcp": endpoint}, endpoint, RULES)

    async def handle(request: HttpRequest) -> None:
        places[id(request)] = len(found.delivered)
        requests.append(request)
        found.delivered.append(None)
        await guard.serve(request)

    requests: list[HttpRequest] = []  # so that no two have the same id
    config = HttpServer(handle).config
    state, wire = ServerState(), ClientWire()
    protocol: Any = config.http(config=config, server_state=state, app_state={}, _loop=_loop, heads=heads)  # type: ignore[operator]
    protocol.connection_made(wire)
    for part in parts:
        if wire.closing:
            break
        protocol.data_received(part)
        if len(parts) < 5:
            await _settled(state)
    await _settled(state)
    protocol.connection_lost(None)
    wire.closing = True
    await _settled(state)
    assert not state.tasks, "a request goes on after its client has left"
    found.answers = list(_answers(bytes(wire.sent), [each.head.method for each in requests]))
    return found


async def _settled(state: ServerState) -> None:
    """Until nobody has anything to do but wait for more of the request."""
    quiet = 0
    while quiet < QUIET:
        await asyncio.sleep(0)
        quiet = quiet + 1 if all(map(_waits, state.tasks)) else 0


def _waits(task: Any) -> bool:
    waiter = getattr(task, "_fut_waiter", None)
    return waiter is not None and not waiter.done()


class _Statuses:
    def __init__(self) -> None:
        self.found: list[int] = []
        self.parser = httptools.HttpResponseParser(self)

    def on_headers_complete(self) -> None:
        self.found.append(self.parser.get_status_code())


def _answers(sent: bytes, methods: Sequence[str]) -> Iterator[int]:
    """The statuses of what we answered. Raises where that is no HTTP."""
    if "HEAD" in methods or "CONNECT" in methods:
        return  # a parser would have to know which answers have no body
    parser = _Statuses()
    try:
        parser.parser.feed_data(sent)
    except httptools.HttpParserUpgrade:
        raise AssertionError("an answer switches the protocol") from None
    yield from (status for status in parser.found if status != 100)


def read_request(data: bytes) -> Hashable:
    """However the bytes come, and whether their head is known or not, they are the same requests; and what we accept,
    h11 accepts as the same."""
    heads = HeadCache()
    first: Reading | None = None
    for parts in [*splits(data), [data]]:  # the last time with heads that are known
        cache = heads if first is None or parts == [data] else HeadCache()
        found = _loop.run_until_complete(_read(parts, cache))
        assert len(found.answers) <= len(found.delivered) + 1, "more answers than requests"
        first = first or found
        assert _agree(found, first), f"in {len(parts)} parts this is {found}, at once it is {first}"
    assert first is not None
    accepted = [each for each in first.delivered if each is not None and each.body is not None]
    _compare(data, first.delivered)
    return min(len(first.delivered), 3), min(len(accepted), 3), tuple(first.answers[:2])


def _agree(one: Reading, other: Reading) -> bool:
    """The same requests were accepted. Of more than may be sent ahead, a part of them."""
    fewer, more = sorted(([each for each in both.delivered if _is_accepted(each)] for both in (one, other)), key=len)
    return fewer == more if len(more) <= SENT_AHEAD else fewer == more[: len(fewer)]


# What another reader makes of it.


class SecondOpinion(NamedTuple):
    """What h11 made of the bytes: its requests, and why it went no further."""

    requests: list[tuple[bytes, bytes, bytes, list[tuple[bytes, bytes]], bytes]]
    problem: str


def second_opinion(data: bytes) -> SecondOpinion:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    connection.receive_data(b"")
    found: list[tuple[bytes, bytes, bytes, list[tuple[bytes, bytes]], bytes]] = []
    request, body = None, b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                request, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                found.append((request.method, request.target, request.http_version, list(request.headers), body))
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return SecondOpinion(found, "the connection ends here")
                connection.start_next_cycle()
            else:
                return SecondOpinion(found, type(event).__name__ if not isinstance(event, type) else event.__name__)
    except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
        return SecondOpinion(found, str(error))


DIFFERENCES: Final[dict[str, tuple[re.Pattern[bytes], bytes, str]]] = {
    "no request line received": (
        re.compile(rb"(?:\A|(?<=\r\n\r\n))(?:\r\n|\n)+"), b"",
        "RFC 9112 2.2 wants empty lines before a request to be skipped; h11 does not",
    ),
    "illegal request line": (
        re.compile(rb"(?m)^([A-Z]+) +(\S+) +(?=HTTP/)"), rb"\1 \2 ",
        "RFC 9112 3 allows more than one space between the parts of a request line",
    ),
}  # fmt: skip
"""What we accept and h11 does not, by h11's words; what makes it acceptable to h11 too; and why that is no way to
smuggle anything. Mended that way, h11 must read what we do."""


def _compare(data: bytes, delivered: Sequence[Delivered | None]) -> None:
    if not any(each is not None and each.body is not None for each in delivered):
        return
    theirs, problem = second_opinion(data)
    for _ in DIFFERENCES:
        known = next((each for words, each in DIFFERENCES.items() if words in problem), None)
        wanted = len(theirs) < len(delivered) and _is_accepted(delivered[len(theirs)])
        if not wanted or known is None:
            break
        data = known[0].sub(known[1], data)
        theirs, problem = second_opinion(data)
    for index, ours in enumerate(delivered):
        if index == len(theirs):
            assert not _is_accepted(ours), f"h11 does not take what we take: {problem}"
            return  # where we turn the same request away, we need no opinion, and h11 goes no further
        if ours is not None and ours.body is not None:
            _same(theirs[index], ours)


def _is_accepted(each: Delivered | None) -> bool:
    return each is not None and each.body is not None


def _same(theirs: Any, ours: Delivered) -> None:
    method, target, version, headers, body = theirs
    assert method.decode() == ours.method, f"h11 reads the method {method!r}"
    assert body == ours.body, f"h11 reads the body {body!r}, we {ours.body!r}"
    assert version.decode() == ours.version, f"h11 reads the version {version!r}"
    mine = [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in ours.headers]
    mine = [(name, value.strip(b" \t")) for name, value in mine]
    assert headers == mine, f"h11 reads the headers {headers!r}, we {mine!r}"
    assert _same_target(target, ours.target), f"h11 reads the target {target!r}, we {ours.target!r}"


def _same_target(theirs: bytes, ours: bytes) -> bool:
    """We take off what is not path and query of an absolute target, and the fragment."""
    return theirs == ours or theirs.partition(b"#")[0].removesuffix(b"?").endswith(ours)


# What servers answer.


class ServerWire(ClientWire):
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return None


class Answer:
    """What came of one answer, as whoever asked is told."""

    def __init__(self) -> None:
        self.status = 0
        self.fields: tuple[tuple[bytes, bytes], ...] = ()
        self.content = b""
        self.outcome = "nothing"

    def head(self, head: ResponseHead) -> None:
        assert self.outcome == "nothing" and not self.status, "two heads"
        self.status, self.fields = head.status, tuple(head.raw)

    def body(self, data: bytes) -> None:
        assert self.status and self.outcome == "nothing", "a body without a head, or after the end"
        self.content += data

    def end(self) -> None:
        assert self.outcome == "nothing", "two ends"
        self.outcome = "end"

    def broken(self, why: str) -> None:
        assert self.outcome == "nothing", "two ends"
        self.outcome = "broken"

    def told(self) -> tuple[Any, ...]:
        return self.status, self.fields, self.content, self.outcome


class Owner:
    free_connections = 0

    def made(self, connection: HttpConnection) -> None: ...
    def lost(self, connection: HttpConnection) -> None: ...

    def free(self, connection: HttpConnection) -> None:
        self.free_connections += 1


async def _answered(parts: Iterable[bytes]) -> tuple[tuple[Any, ...], bool]:
    owner, wire, answer = Owner(), ServerWire(), Answer()
    connection = HttpConnection(owner)
    connection.connection_made(wire)  # type: ignore[arg-type]
    connection.send(b"", answer)
    for part in parts:
        if wire.closing:
            break
        connection.data_received(part)
        await _turns(len(part))
    kept = bool(owner.free_connections) and not wire.closing
    assert owner.free_connections <= 1, "a connection is free twice"
    connection.connection_lost(None)
    await _turns(1)
    return answer.told(), kept


async def _turns(size: int) -> None:
    """Of the loop, for what is not read at once."""
    for _ in range(size // 4096):
        await asyncio.sleep(0)


def read_answer(data: bytes) -> Hashable:
    """However an answer comes, it is the same; a connection on which too much came is not used again; and where we
    read one to its end, h11 reads the same body."""
    first: tuple[Any, ...] | None = None
    kept = False
    for parts in splits(data):
        told, free = _loop.run_until_complete(_answered(parts))
        if first is None:
            first, kept = told, free
        elif first[3] == "broken" == told[3]:
            assert first[2].startswith(told[2]) or told[2].startswith(first[2]), f"{told} and {first}"
        else:
            assert told == first, f"in {len(parts)} parts this is {told}, at once it is {first}"
            if data.endswith((b"\r", b"\n")):
                continue  # empty lines after an answer mean nothing; whether we see them depends on when they come
            assert free == kept, "whether the connection is used again depends on how the bytes came"
    assert first is not None
    if first[3] == "end":
        _compare_answer(data, first)
    return first[0] // 100 if first[0] < 600 else 6, first[3], kept, bool(first[2])


ANSWER_DIFFERENCES: Final[dict[str, str]] = {
    "illegal status line": "the words of a status may be anything, nobody reads them",
    "Only Transfer-Encoding: chunked": "what is inside of the chunks is then no JSON and no event",
    "no response line received": "empty lines before an answer are skipped",
    "bad Content-Length": "zeros before a number change nothing; h11 takes at most 20 digits",
}
"""What we take of a server and h11 does not, by h11's words, and why that hurts nobody: a connection carries one answer
at a time, and whatever follows it ends it."""


def _compare_answer(data: bytes, ours: tuple[Any, ...]) -> None:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    connection.receive_data(b"")
    status, body = 0, b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif not isinstance(event, h11.InformationalResponse):
                break
        problem = "" if isinstance(event, h11.EndOfMessage) else str(event)
    except h11.RemoteProtocolError as error:
        problem = str(error)
    if problem:
        assert any(words in problem for words in ANSWER_DIFFERENCES), f"h11 does not take what we take: {problem}"
    else:
        assert (status, body) == (ours[0], ours[2]), f"h11 reads {status} {body!r}, we {ours}"
