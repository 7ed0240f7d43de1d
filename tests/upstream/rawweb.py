"""A server that does on its sockets exactly what a test wrote, and counts what it was sent."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from mcpproxy_py.upstream.session.rpc import RpcPeer
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.http_clients import HttpClients
from mcpproxy_py.upstream.transports.streamable_http import open_streamable
from tests.upstream.helpers import LONG, Allowed

LIMIT = 1024 * 1024
GONE = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, RuntimeError)
"""How a write or a read ends when the client has hung up; uvloop raises the last when it knew that already."""
HEADERS = {"mcp-method": "tools/call", "mcp-protocol-version": "2026-07-28"}


@dataclass
class Peer:
    """The server's end of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def is_left(self) -> bytes:
        """What is still sent until the client hangs up."""
        with suppress(ConnectionError):
            return await self.reader.read()
        return b""


@dataclass(frozen=True)
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> int:
        return json.loads(self.body)["id"]


Answer = Callable[[Peer, Request], Awaitable[None]]
"""Returning keeps the connection for the next request; to close it, close `peer.writer`."""


@dataclass
class Site:
    url: str
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    broken_off: list[BaseException] = field(default_factory=list)


@asynccontextmanager
async def site(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections += 1
        found.open += 1
        peer = Peer(reader, writer, found.connections)
        try:
            while not writer.is_closing() and (request := await _request(reader)):
                found.requests.append(request)
                await answer(peer, request)
        except GONE as error:
            found.broken_off.append(error)
        finally:
            found.open -= 1
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls, limit=1 << 22)
    port = server.sockets[0].getsockname()[1]
    found = Site(f"{'https' if tls else 'http'}://{'localhost' if tls else '127.0.0.1'}:{port}/mcp")
    try:
        yield found
    finally:
        server.close()


async def _request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *fields = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)}
    return Request(line, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


def result_of(request: Request, text: str = "fine") -> bytes:
    content = [{"type": "text", "text": text}]
    return json.dumps({"jsonrpc": "2.0", "id": request.id, "result": {"content": content}}).encode()


def json_response(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    lines = (f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *fields)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def fine(peer: Peer, request: Request) -> None:
    await peer.say(json_response(result_of(request)))


@asynccontextmanager
async def wire_to(url: str, **more: Any) -> AsyncIterator[RpcPeer]:
    spec = UpstreamSpec("s", "http", url=url, **more)
    async with open_streamable(spec, web=HttpClients(), max_result_bytes=LIMIT) as wire:
        yield wire


async def call(wire: RpcPeer, timeout: float = LONG, **headers: str) -> str:
    params = {"name": "echo", "arguments": {}}
    sent = {**HEADERS, **headers}
    permit = Allowed("tools/call", params)
    result = await wire.request(permit, timeout=timeout, stamp=lambda message, channel: (message.params, sent))
    return result["content"][0]["text"]
