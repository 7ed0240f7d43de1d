"""One POST and its JSON answer by different HTTP clients: `python -m tests.bench.posts`.

The figure that counts is processor time of the client, which a busy machine disturbs least; with `--only NAME` and
`perf stat -e instructions:u` around it, instructions can be counted too. The server is a process of its own that
answers from a constant.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

import httpx2
import uvloop

from mcpproxy_py.upstream.transports.http_pool import OriginPool, ResponseHead, fields
from tests.bench.measure import figures, report, spread

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
EACH = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}' % (
    b"x" * 400
)
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"}]}}' % (b"y" * 300)
Post = Callable[[], Awaitable[bytes]]


class Constant(asyncio.Protocol):
    """Answers each request that has arrived whole; ours come in one piece."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.held = b""

    def data_received(self, data: bytes) -> None:
        self.held += data
        if self.held.endswith(b"}}}"):
            self.held = b""
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ndate: now\r\nserver: constant\r\ncontent-length: %d\r\n"
                b"content-type: application/json\r\n\r\n%s" % (len(ANSWER), ANSWER)
            )


def serve(told: Connection) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Constant, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


class Whole:
    def __init__(self, done: asyncio.Future[bytes]) -> None:
        self.done, self.data = done, bytearray()

    def head(self, head: ResponseHead) -> None:
        assert head.status == 200

    def body(self, data: bytes) -> None:
        self.data += data

    def end(self) -> None:
        self.done.set_result(bytes(self.data))

    def broken(self, why: str) -> None:
        self.done.set_exception(OSError(why))


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Post]:
    origin = OriginPool(httpx2.URL(url), HEADERS, ssl.create_default_context(), 10, 100)
    loop = asyncio.get_running_loop()

    async def post() -> bytes:
        done: asyncio.Future[bytes] = loop.create_future()
        connection = origin.idle() or await origin.connect()
        connection.send(origin.request(fields(EACH), BODY), Whole(done))
        return await done

    yield post
    origin.close()


@asynccontextmanager
async def by_httpx2(url: str) -> AsyncIterator[Post]:
    async with httpx2.AsyncClient(headers=HEADERS, timeout=httpx2.Timeout(None)) as client:

        async def post() -> bytes:
            async with client.stream("POST", url, content=BODY, headers=EACH) as response:
                return await response.aread()

        yield post


@asynccontextmanager
async def by_aiohttp(url: str) -> AsyncIterator[Post]:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        headers=HEADERS, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:

        async def post() -> bytes:
            async with session.post(url, data=BODY, headers=EACH, allow_redirects=False) as response:
                return await response.read()

        yield post


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Post]:
    """As little as can be done: what the floor is."""
    found = httpx2.URL(url)
    head = fields({"host": found.netloc.decode(), **HEADERS, **EACH})
    request = b"POST /mcp HTTP/1.1\r\n%scontent-length: %d\r\n\r\n%s" % (head, len(BODY), BODY)
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post() -> bytes:
        reader, writer = free.pop() if free else await asyncio.open_connection(found.host, found.port)
        writer.write(request)
        answered = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(answered.split(b"content-length: ")[1].split(b"\r\n")[0]))
        free.append((reader, writer))
        return body

    yield post
    for _, writer in free:
        writer.close()


CLIENTS = {"ours": ours, "aiohttp": by_aiohttp, "httpx2": by_httpx2, "bare streams": bare}


async def one_round(post: Post, concurrency: int, count: int) -> tuple[float, float]:
    """Microseconds of processor, and of the clock, per call."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            assert await post() == ANSWER

    busy, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return (time.process_time() - busy) / count * 1e6, (time.perf_counter() - began) / count * 1e6


async def measure(url: str, names: list[str], rounds: int, count: int) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for concurrency in (1, 16):
        rows: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                async with CLIENTS[name](url) as post:
                    await one_round(post, concurrency, 100)
                    rows[name].append(await one_round(post, concurrency, count))
        for name, found in rows.items():
            busy, clock = (list(column) for column in zip(*found, strict=True))
            ratio = [mine[0] / base[0] for mine, base in zip(found, rows[names[-1]], strict=True)]
            print(f"c={concurrency:<3} {name:<13} processor µs {spread(busy, 1):<26} clock µs {spread(clock, 1):<26} "
                  f"processor/{names[-1]} {spread(ratio)}", flush=True)  # fmt: skip
            shown.setdefault(name, {})[concurrency] = {"processor_us": figures(busy), "clock_us": figures(clock)}
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--only", choices=CLIENTS)
    options = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{here.recv()}/mcp"
        names = [options.only] if options.only else list(CLIENTS)
        report("posts", {"clients": uvloop.run(measure(url, names, options.rounds, options.count))})
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
