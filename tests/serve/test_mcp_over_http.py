"""One endpoint of MCP behind a guard and a real socket: what happens to a request whose answer takes long, or whose
client leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.protocol.headers import ParamHeader
from mcpproxy_py.serve.http.guard import AccessRules, Guard
from mcpproxy_py.serve.http.request import MOST_UNREAD, HttpRequest
from mcpproxy_py.serve.mcp import event_streams, http_handshake, http_modern
from mcpproxy_py.serve.mcp.endpoint import McpEndpoint
from mcpproxy_py.serve.mcp.event_streams import ReplayBudget
from mcpproxy_py.serve.mcp.http_handshake import HandshakeHttp
from mcpproxy_py.serve.mcp.http_modern import ModernHttp
from mcpproxy_py.serve.mcp.request import McpRequest, by_era
from mcpproxy_py.serve.mcp.subscriptions import SubscriptionHub
from mcpproxy_py.serve.mcp.surfaces.surface import IDENTITY, Handler, SurfaceInfo, TableSurface
from tests.support.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-5")]

PATIENCE = 30
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


class Waiting(TableSurface):
    """Its calls are answered when the test says so."""

    kind = topic = "gate"

    def __init__(self) -> None:
        self.handlers: Mapping[str, Handler] = {"tools/call": self._call}
        self.begun, self.cancelled, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.requests: list[McpRequest] = []

    async def _call(self, request: McpRequest) -> Mapping[str, Any]:
        self.requests.append(request)
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return {"content": []}

    async def welcome(self, access: Access | None) -> SurfaceInfo:
        return SurfaceInfo(IDENTITY, {})

    has_param_headers = False

    def mirrors(self, tool: str) -> tuple[ParamHeader, ...]:
        return ()


class Nobody:
    def forget(self, key: str) -> None: ...
    def roots_changed(self, key: str) -> None: ...


class Client:
    def __init__(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.port, self.reader, self.writer = port, reader, writer

    def post(self, message: Mapping[str, Any], *lines: str) -> None:
        body = json.dumps(message).encode()
        head = ["POST /mcp HTTP/1.1", "Host: localhost", "Accept: application/json, text/event-stream",
                "Content-Type: application/json", f"Content-Length: {len(body)}", *lines]  # fmt: skip
        self.writer.write("\r\n".join([*head, "", ""]).encode() + body)

    def call(self, number: int = 1, size: int = 0) -> None:
        params = {"name": "echo", "arguments": {"text": "x" * size}, "_meta": META}
        self.post({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params},
                  f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: echo")  # fmt: skip

    async def head(self) -> str:
        return (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()


@asynccontextmanager
async def talking() -> AsyncIterator[tuple[Waiting, Client]]:
    surface = Waiting()
    endpoint = McpEndpoint(surface, SubscriptionHub(1), ReplayBudget(), 10, Nobody())

    async def nothing(request: HttpRequest) -> None:
        raise AssertionError("this is MCP's path")

    serve = by_era(ModernHttp(endpoint).serve, HandshakeHttp(endpoint).serve)
    guard = Guard({"/mcp": serve}, nothing, AccessRules(admin_key=lambda: "key"))
    with anyio.fail_after(PATIENCE):
        async with serving(guard) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                yield surface, Client(port, reader, writer)
            finally:
                writer.close()


@pytest.mark.parametrize("size", [0, 3 * MOST_UNREAD])
async def test_a_modern_client_that_hangs_up_has_cancelled_its_call(size: int) -> None:
    async with talking() as (surface, client):
        client.call(size=size)
        await surface.begun.wait()
        client.writer.close()
        await surface.cancelled.wait()


async def test_what_waits_behind_a_call_is_not_begun_for_a_client_that_hung_up() -> None:
    async with talking() as (surface, client):
        client.call(1)
        client.call(2)
        await surface.begun.wait()
        client.writer.close()
        await surface.cancelled.wait()
        await anyio.lowlevel.checkpoint()
        assert [request.id for request in surface.requests] == [1]


async def test_a_client_that_was_answered_early_and_hangs_up_cancels_nothing() -> None:
    async with talking() as (surface, client):
        client.call()
        await surface.begun.wait()
        surface.requests[0].answer_early({"resultType": "input_required"})
        assert "200 ok" in await client.head()
        client.writer.close()
        other = Client(client.port, *await asyncio.open_connection("127.0.0.1", client.port))
        surface.begun.clear()
        other.call()
        await surface.begun.wait()
        assert not surface.cancelled.is_set()
        surface.go_on.set()
        assert "200 ok" in await other.head()
        other.writer.close()


async def test_a_connection_goes_on_after_an_early_answer() -> None:
    async with talking() as (surface, client):
        client.call(1)
        await surface.begun.wait()
        surface.requests[0].answer_early({"resultType": "input_required"})
        assert "200 ok" in await client.head()
        surface.begun.clear()
        client.call(2)
        await surface.begun.wait()
        client.writer.close()
        await surface.cancelled.wait()
        assert [request.id for request in surface.requests] == [1, 2]


async def test_a_long_silence_is_bridged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_modern, "PING_AFTER", 0.01)
    monkeypatch.setattr(event_streams, "PING_AFTER", 0.01)
    async with talking() as (surface, client):
        client.call()
        head = await client.head()
        assert "content-type: text/event-stream" in head
        assert "content-length" not in head
        await client.reader.readuntil(b": ping\r\n\r\n")
        surface.go_on.set()
        event = await client.reader.readuntil(b"0\r\n\r\n")
        assert b'"resultType":"complete"' in event
        client.call(2)
        assert "200 ok" in await client.head()


async def test_a_client_of_the_handshake_era_may_leave_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_handshake, "BEGIN_AFTER", 0.0)
    async with talking() as (surface, client):
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        head = await client.head()
        session = head.partition("mcp-session-id: ")[2].partition("\r\n")[0]
        await client.reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
        named = f"Mcp-Session-Id: {session}"
        params = {"name": "echo", "arguments": {}}
        client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, named)
        assert "text/event-stream" in await client.head()
        event = await client.reader.readuntil(b"data: \r\n")
        last = event.partition(b"id: ")[2].partition(b"\r\n")[0].decode()
        client.writer.close()
        other = Client(client.port, *await asyncio.open_connection("127.0.0.1", client.port))
        lines = ["GET /mcp HTTP/1.1", "Host: localhost", "Accept: text/event-stream", named, f"Last-Event-ID: {last}"]
        other.writer.write("\r\n".join([*lines, "", ""]).encode())
        assert "text/event-stream" in await other.head()
        assert not surface.cancelled.is_set()
        surface.go_on.set()
        assert b'"result":{"content":[]}' in await other.reader.readuntil(b"0\r\n\r\n")
        other.writer.close()
