"""HTTP/1.1 towards clients, on real sockets: what goes over the wire, and what the application is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from starlette.types import Message, Receive, Scope, Send

from mcpproxy_py.serve.http.parser import MAX_HEAD
from tests.support.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-5")]

PATIENCE = 30
ENOUGH = 16 << 20
"""Bytes that no socket's buffers take in."""
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *lines: str, body: bytes = b"") -> None:
        self.writer.write("\r\n".join([*lines, "Host: here", "", ""]).encode() + body)
        await self.writer.drain()

    async def head(self) -> str:
        return (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()

    async def rest(self) -> bytes:
        """Until the server hangs up."""
        return await self.reader.read()


@asynccontextmanager
async def talking_to(app: App, **options: Any) -> AsyncIterator[Client]:
    with anyio.fail_after(PATIENCE):
        async with serving(app, **options) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                yield Client(reader, writer)
            finally:
                writer.close()


async def read_all(receive: Receive) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    return body


async def answer(send: Send, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    head = [(b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, f"{scope['method']} {scope['path']}?{scope['query_string'].decode()} ".encode()
                 + await read_all(receive))  # fmt: skip


async def test_requests_on_one_connection_are_answered_one_after_the_other() -> None:
    async with talking_to(echo) as client:
        for number in range(3):
            await client.send(f"POST /a%20b?n={number} HTTP/1.1", "Content-Length: 2", body=b"hi")
            assert "content-length: 16" in await client.head()
            assert await client.reader.readexactly(16) == b"POST /a b?n=%d hi" % number


async def test_requests_sent_at_once_are_answered_in_turn() -> None:
    started: list[str] = []
    go_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        started.append(scope["path"])
        if scope["path"] == "/first":
            await go_on.wait()
        await answer(send, scope["path"].encode())

    async with talking_to(app) as client:
        both = b"".join(b"GET /%b HTTP/1.1\r\nHost: here\r\n\r\n" % each for each in (b"first", b"second"))
        client.writer.write(both)
        while not started:
            await anyio.lowlevel.checkpoint()
        assert started == ["/first"]
        go_on.set()
        for path in (b"/first", b"/second"):
            await client.head()
            assert await client.reader.readexactly(len(path)) == path


async def test_whoever_goes_on_after_the_answer_keeps_nobody_waiting() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"here")
        if scope["path"] == "/on":
            await anyio.sleep_forever()

    async with talking_to(app) as client:
        for path in ("/on", "/then"):
            await client.send(f"GET {path} HTTP/1.1")
            await client.head()
            assert await client.reader.readexactly(4) == b"here"


async def test_a_body_in_chunks_is_one_body() -> None:
    async with talking_to(echo) as client:
        await client.send("POST / HTTP/1.1", "Transfer-Encoding: chunked", body=b"2\r\nab\r\n")
        client.writer.write(b"3\r\ncde\r\n0\r\n\r\n")
        await client.head()
        assert await client.reader.readexactly(13) == b"POST /? abcde"


async def test_a_client_that_asks_is_told_to_send_its_body() -> None:
    async with talking_to(echo) as client:
        await client.send("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 2")
        assert await client.head() == "http/1.1 100 continue\r\n\r\n"
        client.writer.write(b"hi")
        assert "200 ok" in await client.head()


async def test_head_has_no_body() -> None:
    async with talking_to(echo) as client:
        await client.send("HEAD / HTTP/1.1", "Connection: close")
        assert "content-length: 8" in await client.head()
        assert await client.rest() == b""


@pytest.mark.parametrize("request_line", ["GET / HTTP/1.0", "GET / HTTP/1.1\r\nConnection: close"])
async def test_a_connection_that_shall_end_ends(request_line: str) -> None:
    async with talking_to(echo) as client:
        await client.send(request_line)
        assert "connection: close" in await client.head()
        assert await client.rest() == b"GET /? "


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in (b"one", b"", b"two"):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body"})


async def test_a_body_of_unknown_length_goes_in_chunks() -> None:
    async with talking_to(stream) as client:
        await client.send("GET / HTTP/1.1", "Connection: close")
        assert "transfer-encoding: chunked" in await client.head()
        assert await client.rest() == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


async def test_an_older_client_gets_it_until_the_connection_ends() -> None:
    async with talking_to(stream) as client:
        await client.send("GET / HTTP/1.0")
        assert "chunked" not in await client.head()
        assert await client.rest() == b"onetwo"


async def test_the_head_of_a_stream_does_not_wait_for_its_first_part() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await anyio.sleep_forever()

    async with talking_to(app) as client:
        await client.send("GET / HTTP/1.1")
        assert "200 ok" in await client.head()


async def test_a_client_that_leaves_is_told_to_the_application() -> None:
    heard: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_all(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        heard.set_result(await receive())

    async with talking_to(app) as client:
        await client.send("GET / HTTP/1.1")
        await client.head()
        client.writer.close()
        assert (await heard)["type"] == "http.disconnect"


async def test_a_body_that_nobody_reads_makes_its_client_wait() -> None:
    read = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read.wait()
        await answer(send, b"%d" % len(await read_all(receive)))

    async with talking_to(app) as client:
        await client.send("POST / HTTP/1.1", f"Content-Length: {ENOUGH}")
        client.writer.write(b"x" * ENOUGH)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.writer.drain(), 0.3)
        read.set()
        await client.head()
        assert await client.reader.readexactly(len(str(ENOUGH))) == str(ENOUGH).encode()


async def test_who_sends_many_requests_ahead_has_to_wait() -> None:
    go_on, started = asyncio.Event(), 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal started
        started += 1
        await go_on.wait()
        await answer(send, b"%d" % len(await read_all(receive)))

    size, count = 32768, ENOUGH // 32768
    async with talking_to(app) as client:
        one = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size)
        client.writer.write(one * count)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.writer.drain(), 0.3)
        assert started == 1
        go_on.set()
        for _ in range(count):
            await client.head()
            assert await client.reader.readexactly(5) == b"32768"


async def test_an_answer_that_nobody_reads_makes_the_application_wait() -> None:
    sent = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while sent < ENOUGH:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            sent += 65536
        await send({"type": "http.response.body"})

    async with talking_to(app) as client:
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await client.send("GET / HTTP/1.1", "Connection: close")
        before = 0
        while not sent or sent != before:
            before = sent
            await anyio.sleep(0.1)
        assert 0 < sent < ENOUGH
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]
        await client.head()
        assert len(await client.rest()) > ENOUGH


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("a bug")


async def broken_midway(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise RuntimeError("a bug")


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    return


async def too_long(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"three"})


async def split(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, b"body", (b"x-said", b"a\r\nset-cookie: b"))


@pytest.mark.parametrize("app", [broken, silent, split])
async def test_a_request_that_fails_is_answered_so_and_the_connection_ends(app: App) -> None:
    async with talking_to(app) as client:
        await client.send("GET / HTTP/1.1")
        head = await client.head()
        assert head.startswith("http/1.1 500") and "set-cookie" not in head
        assert await client.rest() == b"Internal Server Error"


async def test_an_answer_that_fails_midway_is_cut_off() -> None:
    async with talking_to(broken_midway) as client:
        await client.send("GET / HTTP/1.1")
        await client.head()
        assert await client.rest() == b"4\r\nhalf\r\n"


async def test_a_body_longer_than_was_said_is_not_sent() -> None:
    async with talking_to(too_long) as client:
        await client.send("GET / HTTP/1.1")
        assert b"three" not in await client.rest()


@pytest.mark.parametrize(
    "junk", [b"\x16\x03\x01\x00junk\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/9\r\n\r\n"]
)
async def test_what_is_no_request_is_turned_away(junk: bytes) -> None:
    async with talking_to(echo) as client:
        client.writer.write(junk)
        assert "400 bad request" in await client.head()
        assert await client.rest() == b"This is no HTTP request."


@pytest.mark.parametrize("head", ["Connection: close", "X-Nothing: special"])
async def test_junk_after_a_request_does_not_cost_its_answer(head: str) -> None:
    async with talking_to(echo) as client:
        await client.send("POST / HTTP/1.1", head, "Content-Length: 2", body=b"hi\x00\x00 junk\r\n\r\n")
        assert "200 ok" in await client.head()
        assert await client.rest() == b"POST /? hi"


async def test_junk_in_the_middle_of_a_body_ends_it() -> None:
    heard: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
        heard.set_result(message)

    async with talking_to(app) as client:
        await client.send("POST / HTTP/1.1", "Transfer-Encoding: chunked", body=b"2\r\nab\r\nzz\r\n")
        assert await client.rest() == b""
        assert (await heard)["type"] == "http.disconnect"


async def test_a_head_without_end_is_turned_away() -> None:
    async with talking_to(echo) as client:
        client.writer.write(b"GET / HTTP/1.1\r\n" + b"x-filler: %b\r\n" % (b"x" * MAX_HEAD))
        assert "431" in await client.head()


async def test_another_protocol_is_not_spoken_but_the_request_is_answered() -> None:
    async with talking_to(echo) as client:
        await client.send("GET / HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket")
        assert "200 ok" in await client.head()
        assert await client.rest() == b"GET /? "


async def test_a_connection_on_which_nothing_is_asked_ends() -> None:
    async with talking_to(echo, timeout_keep_alive=3) as client:
        await client.send("GET / HTTP/1.1")
        await client.head()
        assert await client.rest() == b"GET /? "


async def test_one_that_waits_for_its_answer_is_not_idle() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await anyio.sleep(7)
        await answer(send, b"late")

    async with talking_to(app, timeout_keep_alive=3) as client:
        await client.send("GET / HTTP/1.1")
        await client.head()
        assert await client.reader.readexactly(4) == b"late"
