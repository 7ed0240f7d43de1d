"""A head that came before is not read again, and nobody can tell: not the client, not the application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from mcpproxy_py.serve.http import request as http_request
from mcpproxy_py.serve.http.guard import AccessRules, Guard
from mcpproxy_py.serve.http.request import HeadCache, HttpRequest, RequestHead
from mcpproxy_py.serve.mcp.head_facts import HeadFacts, head_facts
from tests.support.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-5")]

PATIENCE = 30
A_WHILE = 0.1
POST = b"POST /a?b=1 HTTP/1.1\r\nHost: here\r\nX-Twice: 1\r\nX-Twice: 2\r\nContent-Length: 4\r\n\r\n"
GET = b"GET /c%20d HTTP/1.1\r\nHost: here\r\n\r\n"
CHUNKED = b"POST /e HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"GET /f HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
OLD = b"GET /g HTTP/1.0\r\nHost: here\r\n\r\n"
ASKING = b"POST /h HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
BARE = b"GET /i HTTP/1.1\nHost: here\n\n"
"""Lines without a carriage return, so that what looks like the end of the head is in the next request."""

SEQUENCES: dict[str, list[bytes]] = {
    "the same again and again": [POST + b"body", POST + b"ydob", GET, GET, POST + b"body"],
    "a body that comes later": [POST + b"body", POST, b"body", POST + b"bo", b"dy", POST + b"body"],
    "a head in pieces": [GET, GET[:9], GET[9:], GET],
    "two at once": [GET, GET + GET, POST + b"body" + GET, GET],
    "one and a half": [GET, GET + POST, b"body", GET + POST[:5], POST[5:] + b"body"],
    "more than it said": [POST + b"body", POST + b"body" + GET[:3], GET[3:], POST + b"bodyrubbish"],
    "in chunks": [CHUNKED + b"2\r\nab\r\n0\r\n\r\n", CHUNKED + b"2\r\ncd\r\n0\r\n\r\n", CHUNKED, b"0\r\n\r\n"],
    "the last one": [GET, LAST, GET],
    "of an old revision": [GET, OLD, GET],
    "one that waits to be told": [ASKING + b"ab", ASKING + b"cd", ASKING, b"ef"],
    "lines that end differently": [BARE + POST + b"body", BARE, BARE + POST + b"body"],
    "no request": [GET, b"GET\r\n\r\n", GET],
}


class Forgetful(HeadCache):
    """Knows none."""

    def find(self, data: bytes) -> None:
        return None


async def describe(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with all that an application can see."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    seen: dict[str, Any] = {key: scope[key] for key in sorted(scope) if not key.startswith("mcpproxy.")}
    del seen["client"], seen["server"]
    said = repr((seen, body)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


async def said(heads: HeadCache, pieces: list[bytes]) -> bytes:
    """Everything that the server says to these pieces, which it mostly gets one by one."""
    async with serving(describe, heads, date_header=False) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        heard = bytearray()
        for piece in pieces:
            writer.write(piece)
            with anyio.move_on_after(A_WHILE):
                while more := await reader.read(65536):
                    heard += more
        writer.write(LAST)
        heard += await reader.read()
        writer.close()
        return bytes(heard)


@pytest.mark.parametrize("what", SEQUENCES)
async def test_a_server_that_keeps_heads_says_the_same_as_one_that_does_not(what: str) -> None:
    with anyio.fail_after(PATIENCE):
        kept, told = HeadCache(), {}
        async with anyio.create_task_group() as tasks:
            for name, heads in (("keeps", kept), ("forgets", Forgetful())):

                async def hear(name: str = name, heads: HeadCache = heads) -> None:
                    told[name] = await said(heads, SEQUENCES[what])

                tasks.start_soon(hear)
    assert told["keeps"] == told["forgets"]
    assert told["keeps"]


async def test_a_head_that_came_whole_is_known_on_every_connection() -> None:
    heads = HeadCache()
    with anyio.fail_after(PATIENCE):
        await said(heads, [POST + b"body", GET])
    assert heads.find(POST + b"else") is not None
    assert heads.find(GET) is not None
    assert heads.find(POST + b"longer") is None
    assert heads.find(LAST) is None, "whoever hangs up after it does so anew each time"


@pytest.mark.parametrize("data", [b"", b"\r\n\r\n", b"GET", POST, POST + b"bod", GET + GET])
async def test_what_is_no_whole_request_is_not_known(data: bytes) -> None:
    heads = HeadCache()
    one = RequestHead("GET", "/", [])
    heads.keep(GET, one, 0)
    heads.keep(POST + b"body", one, 4)
    assert heads.find(GET) == (one, b"")
    assert heads.find(data) is None


async def test_only_the_latest_are_kept_and_no_long_ones() -> None:
    heads = HeadCache()
    one = RequestHead("GET", "/", [])
    for number in range(3 * http_request.MOST):
        heads.keep(b"GET /%d HTTP/1.1\r\n\r\n" % number, one, 0)
        assert heads.find(b"GET /0 HTTP/1.1\r\n\r\n"), "one that is used stays"
    assert len(heads) <= 2 * http_request.MOST
    assert heads.find(b"GET /1 HTTP/1.1\r\n\r\n") is None
    long = b"GET /%b HTTP/1.1\r\n\r\n" % (b"x" * http_request.LONGEST)
    heads.keep(long, one, 0)
    assert heads.find(long) is None


@pytest.fixture
async def guarded() -> AsyncIterator[tuple[int, list[HeadFacts]]]:
    """The port of a server with a guard in front of MCP, and what MCP made of the heads that came."""
    found: list[HeadFacts] = []

    async def endpoint(request: HttpRequest) -> None:
        found.append(request.head.mcp or head_facts(request.head))
        await request.respond(200, b"{}")

    guard = Guard({"/mcp": endpoint}, endpoint, AccessRules(admin_key=lambda: "key"))
    async with serving(guard) as port:
        yield port, found


async def asked(port: int, head: bytes, times: int) -> list[bytes]:
    """The status line of each answer to the same request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard: list[bytes] = []
    for _ in range(times):
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        heard.append(answer.partition(b"\r\n")[0])
        await reader.readexactly(int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
    writer.close()
    return heard


async def test_what_follows_from_a_head_is_found_out_once(guarded: tuple[int, list[HeadFacts]]) -> None:
    port, found = guarded
    with anyio.fail_after(PATIENCE):
        for _ in range(2):
            assert await asked(port, b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", 2) == [b"HTTP/1.1 200 OK"] * 2
    assert len(found) == 4
    assert all(each is found[0] for each in found)


@pytest.mark.parametrize(
    ("lines", "status"), [(b"Host: localhost\r\nHost: localhost", 400), (b"Host: evil.example", 421)]
)
async def test_what_is_wrong_with_a_head_is_said_each_time(
    guarded: tuple[int, list[HeadFacts]], lines: bytes, status: int
) -> None:
    port, found = guarded
    with anyio.fail_after(PATIENCE):
        said = await asked(port, b"GET /mcp HTTP/1.1\r\n%b\r\n\r\n" % lines, 3)
    assert [int(each.split()[1]) for each in said] == [status] * 3
    assert not found
