"""The least that can stand between a client over HTTP and a server on a pipe, written in the language we write in.

    python bare_relay.py COMMAND [ARG ...]

It reads a POST, gives its message an id of its own, hands it on, and gives the answer back. No check, no decision, no
record, no second server, no client that hangs up: what it costs beside a direct call is what any process in between
costs on this machine, and no gateway can cost less. The first line on stdout is `PORT <n>`.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

import httptools
import uvloop
from pydantic_core import from_json, to_json

LARGEST = 1 << 22
CLIENT = {"name": "relay", "version": "1"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Upstream:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin and process.stdout
        self.stdin, self.stdout = process.stdin, process.stdout
        self.ids = itertools.count(1)
        self.waiting: dict[int, tuple[Any, Any]] = {}

    def ask(self, message: dict[str, Any], answer: Any) -> None:
        number = next(self.ids)
        self.waiting[number] = (answer, message["id"])
        self.stdin.write(to_json({**message, "id": number}) + b"\n")

    async def say(self, method: str, params: dict[str, Any]) -> bytes:
        said: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.ask({"jsonrpc": "2.0", "id": 0, "method": method, "params": params}, said.set_result)
        return await said

    async def read(self) -> None:
        while line := await self.stdout.readline():
            message = from_json(line)
            answer, asked = self.waiting.pop(message.get("id"), (None, None))
            if answer is not None:
                answer(to_json({**message, "id": asked}))


class Door(asyncio.Protocol):
    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.parser = httptools.HttpRequestParser(self)
        self.parts: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        self.parts.append(part)

    def on_message_complete(self) -> None:
        message = from_json(b"".join(self.parts))
        self.parts = []
        self.upstream.ask(message, self.answer)

    def answer(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)


async def relay(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, stderr=-3, limit=LARGEST)
    upstream = Upstream(process)
    reading = asyncio.create_task(upstream.read())
    if b'"result"' not in await upstream.say("server/discover", {"_meta": MODERN}):
        await upstream.say("initialize", HELLO)
        upstream.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    server = await asyncio.get_running_loop().create_server(lambda: Door(upstream), "127.0.0.1", 0)
    print(f"PORT {server.sockets[0].getsockname()[1]}", flush=True)
    await reading


if __name__ == "__main__":
    uvloop.run(relay(*sys.argv[1:]))
