"""The plain way over HTTP against servers that do everything wrong, on real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.session.rpc import RpcPeer
from mcpproxy_py.upstream.transports.http_pool import MAX_FIELDS, MAX_FRAMING, HttpConnection, ResponseHead, fields
from tests.support.ports import kept_port
from tests.upstream.helpers import LONG, Allowed, until
from tests.upstream.rawweb import (
    LIMIT,
    Answer,
    Peer,
    Request,
    call,
    fine,
    json_response,
    result_of,
    site,
    wire_to,
)  # fmt: skip

pytestmark = pytest.mark.anyio
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def kept_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests count connections, and a machine that stands still between two calls would cost one."""
    monkeypatch.setattr("mcpproxy_py.upstream.transports.http_pool.KEEP_IDLE", LONG)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def saying(*answers: bytes | Callable[[Request], bytes], close: bool = False) -> Answer:
    """Answer the first requests with these bytes, and all later ones as one should."""
    left = list(answers)

    async def answer(peer: Peer, request: Request) -> None:
        if not left:
            await fine(peer, request)
            return
        said = left.pop(0)
        await peer.say(said if isinstance(said, bytes) else said(request))
        if close:
            peer.writer.close()

    return answer


async def failure(wire: RpcPeer, **more: float) -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        await call(wire, **more)
    return caught.value


# Answers that are fine.


@pytest.mark.proves("PERF-1")
async def test_calls_one_after_the_other_share_a_connection_and_calls_at_once_do_not_wait_for_each_other() -> None:
    together = asyncio.Barrier(5)

    async def answer(peer: Peer, request: Request) -> None:
        if len(here.requests) > 3:
            await together.wait()
        await fine(peer, request)

    async with site(answer) as here, wire_to(here.url) as wire:
        assert [await call(wire) for _ in range(3)] == ["fine"] * 3
        assert here.connections == 1
        assert await asyncio.gather(*(call(wire) for _ in range(5))) == ["fine"] * 5
        assert here.connections == 5
        assert {each.line for each in here.requests} == {"POST /mcp HTTP/1.1"}


def chunked(request: Request) -> bytes:
    body = result_of(request)
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: Application/JSON; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"%x;name=value\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:]))
        + b"0\r\ntrailer: t\r\n\r\n"
    )


def until_closed(request: Request) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + result_of(request)


def after_interim(request: Request) -> bytes:
    return b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + json_response(
        result_of(request)
    )


def old_version(request: Request) -> bytes:
    return json_response(result_of(request)).replace(b"HTTP/1.1", b"HTTP/1.0")


@pytest.mark.parametrize(
    ("said", "close", "connections"),
    [(chunked, False, 1), (until_closed, True, 2), (after_interim, False, 1), (old_version, False, 2)],
    ids=lambda each: getattr(each, "__name__", None),
)  # fmt: skip
async def test_every_framing_is_read_and_its_connection_used_again_where_it_can_be(
    said: Callable[[Request], bytes], close: bool, connections: int
) -> None:
    async with site(saying(said, close=close)) as here, wire_to(here.url) as wire:
        assert [await call(wire), await call(wire)] == ["fine", "fine"]
        assert here.connections == connections


class Heard:
    def __init__(self) -> None:
        self.status, self.data, self.how, self.done = 0, b"", "", asyncio.Event()

    def head(self, head: ResponseHead) -> None:
        self.status = head.status

    def body(self, data: bytes) -> None:
        self.data += data

    def end(self) -> None:
        self.over("ended")

    def broken(self, why: str) -> None:
        self.over(why)

    def over(self, how: str) -> None:
        assert not self.how, "it ended twice"
        self.how = how
        self.done.set()


class Keeper:
    def __init__(self) -> None:
        self.kept: list[HttpConnection] = []

    def made(self, connection: HttpConnection) -> None: ...
    def lost(self, connection: HttpConnection) -> None: ...
    def free(self, connection: HttpConnection) -> None:
        self.kept.append(connection)


async def fed(pieces: list[bytes]) -> tuple[Heard, Keeper]:
    """What a connection makes of these bytes, however they are cut; the other end closes after them."""
    near, far = socket.socketpair()
    reaper, heard = Keeper(), Heard()
    near.setblocking(False)
    far.setblocking(False)
    transport, connection = await asyncio.get_running_loop().create_connection(
        lambda: HttpConnection(reaper), sock=near
    )
    connection.send(b"POST / HTTP/1.1\r\n\r\n", heard)
    for piece in pieces:
        connection.data_received(piece)
    far.close()
    async with asyncio.timeout(LONG):
        await heard.done.wait()
    transport.close()
    return heard, reaper


WHOLE = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: a\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nt: u\r\n\r\n"
)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    marks = [0, *sorted(at), len(data)]
    return [piece for start, stop in pairwise(marks) if (piece := data[start:stop])]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, len(WHOLE)), max_size=12))
def test_an_answer_means_the_same_however_the_network_cuts_it(at: list[int]) -> None:
    heard, reaper = asyncio.run(fed(cut(WHOLE, at)))
    assert (heard.status, heard.data, heard.how) == (200, b"abcdefgh", "ended")
    assert len(reaper.kept) == 1


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from([b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 C\r\n", b"\r\n", b"content-length: 3\r\n", b"abc",
                             b"transfer-encoding: chunked\r\n", b"3\r\nabc\r\n", b"0\r\n\r\n", b"fffffffffffffffff\r\n",
                             b"HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", b"connection: close\r\n"]),
        ),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_whatever_a_server_sends_ends_exactly_once_and_never_raises(pieces: list[bytes]) -> None:
    heard, reaper = asyncio.run(fed([each for each in pieces if each]))
    assert heard.how
    assert len(reaper.kept) <= 1


@pytest.mark.proves("UP-7")
async def test_no_more_idle_connections_are_kept_than_calls_may_be_made_and_none_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = asyncio.Barrier(6)

    async def answer(peer: Peer, request: Request) -> None:
        await together.wait()
        await fine(peer, request)

    monkeypatch.setattr("mcpproxy_py.upstream.transports.http_pool.KEEP_IDLE", 1.0)
    async with site(answer) as here, wire_to(here.url, max_concurrency=2) as wire:
        assert await asyncio.gather(*(call(wire) for _ in range(6))) == ["fine"] * 6
        await until(lambda: here.open <= 2)
        await until(lambda: not here.open)


# Answers that are not.


@pytest.mark.proves("SEC-5", "UP-7")
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-ty",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}}",
        b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01\x00\xff",
    ],
    ids=["early close", "half a head", "short body", "short chunk", "negative chunk", "chunk lies", "two framings",
         "two lengths", "upgrade", "ssh", "tls"],
)  # fmt: skip
async def test_a_broken_answer_fails_its_call_says_that_the_server_may_have_acted_and_costs_no_other(
    said: bytes,
) -> None:
    async with site(saying(said, close=True)) as here, wire_to(here.url) as wire:
        failed = await failure(wire)
        assert (failed.code, failed.sent) == (Code.SERVER_UNAVAILABLE, True)
        assert "may have acted" in failed.message
        assert await call(wire) == "fine"
        assert len(here.requests) == 2


@pytest.mark.proves("SEC-5")
@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * (2 * MAX_FRAMING),
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * (MAX_FIELDS + 1) + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"x" * 200_000,
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
        + b"t: " + b"x" * 1_000_000,
    ],
    ids=["one long field", "many fields", "interim answers", "chunk extension", "trailers"],
)  # fmt: skip
async def test_a_flood_that_is_no_body_is_cut_off(said: bytes) -> None:
    async def answer(peer: Peer, request: Request) -> None:
        if len(here.requests) > 1:
            await fine(peer, request)
            return
        await peer.say(said)
        await peer.is_left()

    async with site(answer) as here, wire_to(here.url) as wire:
        assert "invalid HTTP" in (failed := await failure(wire)).message or "too long a head" in failed.message
        assert await call(wire) == "fine"


@pytest.mark.proves("SEC-5", "UP-7")
async def test_a_huge_answer_is_given_up_at_the_limit_and_not_read_to_its_end() -> None:
    sent = 0

    async def answer(peer: Peer, request: Request) -> None:
        nonlocal sent
        part = b"x" * LIMIT
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        for _ in range(100):
            await peer.say(part)
            sent += len(part)

    async with site(answer) as here, wire_to(here.url) as wire:
        failed = await failure(wire)
        assert (failed.code, failed.message) == (Code.UPSTREAM_ERROR, f"it answered with more than {LIMIT} bytes")
        await until(lambda: here.broken_off and not here.open)
        assert sent < 100 * LIMIT
        assert wire.counts()["oversize"] == 1


@pytest.mark.proves("SEC-6")
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity, gzip"])
async def test_a_compressed_answer_is_refused_unread(coding: str, kind: str) -> None:
    """We ask for none, and a little of it would be a lot of work."""

    async def answer(peer: Peer, request: Request) -> None:
        if len(here.requests) > 1:
            await fine(peer, request)
            return
        body = gzip.compress(b"\n" * 100 * LIMIT)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: {coding}\r\n\r\n"
        await peer.say(head.encode() + body)
        await peer.is_left()

    async with site(answer) as here, wire_to(here.url) as wire:
        failed = await failure(wire)
        why = f"it compressed its answer with '{coding}', which was not asked for"
        assert (failed.code, failed.message) == (Code.UPSTREAM_ERROR, why)
        assert await call(wire) == "fine"


@pytest.mark.proves("UP-7")
async def test_a_server_that_drips_costs_one_call_its_deadline_and_delays_no_other() -> None:
    async def answer(peer: Peer, request: Request) -> None:
        if peer.number > 1:
            await fine(peer, request)
            return
        for byte in b"HTTP/1.1 200 OK\r\nx: " + b"y" * 10_000:
            await peer.say(bytes([byte]))
            await asyncio.sleep(0.01)

    async with site(answer) as here, wire_to(here.url) as wire, anyio.create_task_group() as tasks:
        failed: list[UpstreamFailure] = []

        async def drip() -> None:
            failed.append(await failure(wire, timeout=1.0))

        tasks.start_soon(drip)
        await until(lambda: here.requests)
        assert [await call(wire) for _ in range(20)] == ["fine"] * 20
        await until(lambda: failed)
        assert (failed[0].code, failed[0].sent) == (Code.TIMEOUT, True)
        await until(lambda: here.broken_off)


@pytest.mark.proves("SEC-5")
@pytest.mark.parametrize("more", [b"", b"garbage\r\n\r\n"], ids=["an answer", "garbage"])
@pytest.mark.parametrize("head", [(), ("connection: close",)], ids=["kept", "to be closed"])
async def test_what_follows_an_answer_unasked_is_never_taken_for_the_next_one(more: bytes, head: tuple[str]) -> None:
    def with_more(request: Request) -> bytes:
        forged = json.dumps({"jsonrpc": "2.0", "id": request.id + 1, "result": {"content": [{"text": "forged"}]}})
        return json_response(result_of(request), *head) + (more or json_response(forged.encode()))

    async with site(saying(with_more)) as here, wire_to(here.url) as wire:
        assert [await call(wire), await call(wire)] == ["fine", "fine"]
        assert here.connections == 2


@pytest.mark.proves("SEC-5")
async def test_what_comes_on_an_idle_connection_ends_it() -> None:
    async def answer(peer: Peer, request: Request) -> None:
        await fine(peer, request)
        if peer.number == 1:
            await asyncio.sleep(0.1)
            await peer.say(json_response(b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"text":"forged"}]}}'))
            await peer.is_left()

    async with site(answer) as here, wire_to(here.url) as wire:
        assert await call(wire) == "fine"
        await until(lambda: not here.open)
        assert await call(wire) == "fine"
        assert here.connections == 2


# Connections that go away, and what was sent.


@pytest.mark.proves("GATE-12")
async def test_a_connection_the_server_closed_while_it_was_idle_is_never_used() -> None:
    async def answer(peer: Peer, request: Request) -> None:
        await fine(peer, request)
        peer.writer.close()

    async with site(answer) as here, wire_to(here.url) as wire:
        for _ in range(10):
            assert await call(wire) == "fine"
            await until(lambda: not here.open)
        assert here.connections == 10


@pytest.mark.proves("GATE-12")
async def test_a_request_that_met_the_end_of_a_used_connection_may_have_been_read_and_is_not_sent_again() -> None:
    async def answer(peer: Peer, request: Request) -> None:
        if len(here.requests) == 2:
            peer.writer.transport.abort()
        else:
            await fine(peer, request)

    async with site(answer) as here, wire_to(here.url) as wire:
        assert await call(wire) == "fine"
        assert (await failure(wire)).sent
        assert await call(wire) == "fine"
        assert len(here.requests) == 3


@pytest.mark.proves("UP-2")
async def test_a_server_that_is_not_there_was_sent_nothing() -> None:
    with kept_port() as port:
        async with wire_to(f"http://127.0.0.1:{port}/mcp") as wire:
            failed = await failure(wire)
            assert (failed.code, failed.sent) == (Code.SERVER_UNAVAILABLE, False)
            assert wire.closed.is_set()
            assert wire.why.startswith("cannot connect")


@pytest.mark.proves("UP-7")
async def test_a_connection_that_is_not_made_in_time_was_sent_nothing() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    full = [socket.socket() for _ in range(4)]
    try:
        for each in full:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        async with wire_to(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", connect_timeout=0.3) as wire:
            failed = await failure(wire)
            assert (failed.code, failed.sent) == (Code.SERVER_UNAVAILABLE, False)
            assert not wire.closed.is_set()
    finally:
        for each in (*full, listener):
            each.close()


@pytest.mark.proves("UP-7")
async def test_giving_a_call_up_closes_its_connection_and_no_other() -> None:
    async def answer(peer: Peer, request: Request) -> None:
        if peer.number == 1:
            await peer.is_left()
            left.append(peer.number)
        else:
            await fine(peer, request)

    left: list[int] = []
    async with site(answer) as here, wire_to(here.url) as wire:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, wire)
            await until(lambda: here.requests)
            tasks.cancel_scope.cancel()
        await until(lambda: left == [1])
        assert [await call(wire), await call(wire)] == ["fine", "fine"]
        assert here.connections == 2


async def test_an_answer_before_the_request_was_read_is_taken_and_its_connection_dropped() -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(json_response(b'{"error":{"code":-32600,"message":"too much"}}', status="413 Too Large"))
        await writer.drain()
        await taken.wait()
        writer.close()

    taken = asyncio.Event()
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server, wire_to(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp") as wire:
        with pytest.raises(UpstreamFailure, match="too much"):
            params = {"name": "echo", "arguments": {"text": "x" * 20_000_000}}
            await wire.request(Allowed("tools/call", params), timeout=LONG)
        taken.set()


# Streams.


@pytest.mark.proves("UP-6")
async def test_an_answer_may_turn_into_a_stream_in_small_pieces_and_its_connection_is_used_again() -> None:
    async def answer(peer: Peer, request: Request) -> None:
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for byte in b": a comment\r\n\r\nevent: message\r\ndata: " + result_of(request) + b"\r\n\r\n":
            await peer.say(b"1\r\n%c\r\n" % byte)
        await peer.say(b"0\r\n\r\n")

    async with site(answer) as here, wire_to(here.url) as wire:
        assert [await call(wire) for _ in range(5)] == ["fine"] * 5
        assert here.connections < 5


@pytest.mark.proves("UP-2")
async def test_a_stream_that_breaks_after_it_gave_an_event_id_is_fetched_to_its_end() -> None:
    async def answer(peer: Peer, request: Request) -> None:
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n")
        if request.line.startswith("POST"):
            asked.append(request)
            await peer.say(b"content-length: 1000\r\n\r\nretry: 10\r\nid: 7\r\ndata:\r\n\r\n")
        else:
            assert request.headers["last-event-id"] == "7"
            await peer.say(b"\r\ndata: " + result_of(asked[0]) + b"\r\n\r\n")
        peer.writer.close()

    asked: list[Request] = []
    async with site(answer) as here, wire_to(here.url) as wire:
        assert await call(wire) == "fine"


# Where httpx2 takes over.


@pytest.mark.proves("SURF-6")
async def test_cookies_go_back_to_the_server_that_set_them() -> None:
    async def answer(peer: Peer, request: Request) -> None:
        await peer.say(json_response(result_of(request), "set-cookie: node=b; Path=/", "set-cookie: x=y"))

    async with site(answer) as here, wire_to(here.url) as wire:
        assert [await call(wire), await call(wire)] == ["fine", "fine"]
    assert here.requests[1].headers["cookie"] == "node=b; x=y"


@pytest.mark.proves("UP-1")
async def test_the_environments_proxy_is_used_but_not_for_what_it_excepts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(fine) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/mcp"))
        async with wire_to("http://upstream.example/mcp") as wire:
            assert await call(wire) == "fine"
        assert proxy.requests[0].line == "POST http://upstream.example/mcp HTTP/1.1"
        monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
        async with site(fine) as here, wire_to(here.url) as wire:
            assert await call(wire) == "fine"
            assert here.requests[0].line == "POST /mcp HTTP/1.1"


@pytest.mark.proves("UP-1")
async def test_user_and_password_in_the_url_are_sent_as_such() -> None:
    async with site(fine) as here, wire_to(here.url.replace("//", "//ann:secret@")) as wire:
        assert await call(wire) == "fine"
        assert here.requests[0].headers["authorization"] == "Basic YW5uOnNlY3JldA=="


@pytest.mark.proves("SEC-5")
async def test_a_certificate_of_an_authority_of_ones_own_is_trusted_when_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(tls)
    async with site(fine, tls) as here:
        async with wire_to(here.url) as wire:
            failed = await failure(wire)
            assert (failed.sent, "certificate verify failed" in failed.message.lower()) == (False, True)
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with wire_to(here.url) as wire:
            assert [await call(wire), await call(wire)] == ["fine", "fine"]
        assert here.requests[0].line == "POST /mcp HTTP/1.1"


@pytest.mark.proves("SEC-5")
@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\0b", "☃"])
async def test_a_header_that_could_begin_another_request_is_refused_and_nothing_is_sent(value: str) -> None:
    with pytest.raises(ValueError, match="a header holds what a header may not"):
        fields({"mcp-name": value})
    async with site(fine) as here, wire_to(here.url) as wire:
        with pytest.raises(UpstreamFailure) as caught:
            await call(wire, **{"mcp-name": value})
        assert not caught.value.sent
        assert not here.requests
