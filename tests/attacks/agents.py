"""An agent on raw sockets: asks over HTTP in either era, and all that comes back, as it came."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
WAIT = 60.0
NAMED = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId",
    "tasks/update": "taskId", "tasks/cancel": "taskId",
}  # fmt: skip
OF_ITS_OWN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""Ids of records."""


@dataclass
class Came:
    """An answer: its status, its headers and the texts of its messages."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def texts(self) -> list[str]:
        """The JSON of each message, whichever way it was framed, without what names this one ask."""
        found = self.body
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line[5:].strip() for line in found.splitlines() if line.startswith("data:")]
            return [OF_ITS_OWN.sub("ID", line) for line in lines if line]
        return [OF_ITS_OWN.sub("ID", found)]


@dataclass
class RawAgent:
    """One connection. `sessions` are those of the handshake era, by path."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: str | None
    era: str
    sessions: dict[str, str] = field(default_factory=dict[str, str])
    welcomes: dict[str, Came] = field(default_factory=dict[str, Came])
    asked: int = 0

    async def http(self, method: str, path: str, body: bytes = b"", **headers: str) -> Came:
        """Also what an event stream says until it ends."""
        self.send(method, path, body, **headers)
        status, seen = await self.head()
        return Came(status, seen, b"".join([part async for part in self._parts(seen)]).decode())

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        own = {"host": "127.0.0.1", "accept": "application/json, text/event-stream", "x-request-id": "same",
               "content-type": "application/json", "content-length": str(len(body)),
               **({"authorization": f"Bearer {self.token}"} if self.token else {}), **headers}  # fmt: skip
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in own.items())
        self.writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(WAIT):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        pairs = (line.partition(": ") for line in lines)
        return int(first.split(" ")[1]), {name.lower(): value for name, _, value in pairs}

    async def _parts(self, headers: dict[str, str]) -> AsyncIterator[bytes]:
        async with asyncio.timeout(WAIT):
            if headers.get("transfer-encoding") != "chunked":
                yield await self.reader.readexactly(int(headers.get("content-length", 0)))
                return
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                yield (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)

    async def ask(self, path: str, method: str, params: dict[str, Any] | None = None, **meta: Any) -> Came:
        self.asked += 1
        params = {**(params or {})}
        headers: dict[str, str] = {}
        if self.era == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/logLevel": "debug",
                **meta,
            }
            headers = {"mcp_protocol_version": MODERN, "mcp_method": method}
            if method in NAMED:
                headers["mcp_name"] = params[NAMED[method]]
        elif path not in self.sessions and (refused := await self.shake_hands(path)) is not None:
            return refused
        else:
            headers = {"mcp_session_id": self.sessions[path], "mcp_protocol_version": HANDSHAKE}
        if meta:
            params["_meta"] = meta
        body = {"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}
        return await self.http("POST", path, json.dumps(body).encode(), **headers)

    async def shake_hands(self, path: str) -> Came | None:
        """The answer where there is no session."""
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        came = self.welcomes[path] = await self.http("POST", path, json.dumps(body).encode())
        if "mcp-session-id" not in came.headers:
            return came
        self.sessions[path] = came.headers["mcp-session-id"]
        said = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        await self.http("POST", path, said, mcp_session_id=self.sessions[path], mcp_protocol_version=HANDSHAKE)
        return None


@asynccontextmanager
async def agent(url: str, token: str | None, era: str) -> AsyncIterator[RawAgent]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield RawAgent(reader, writer, token, era)
    finally:
        writer.close()


@dataclass
class Listening:
    """A stream that is open: what it has said so far."""

    status: int
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    over: asyncio.Event = field(default_factory=asyncio.Event)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, method: str) -> int:
        return sum(each.get("method") == method for each in self.said)

    async def wait_for(self, method: str, times: int = 1) -> None:
        async with asyncio.timeout(WAIT):
            while self.heard(method) < times:
                self.more.clear()
                await self.more.wait()


@asynccontextmanager
async def listening(
    url: str, token: str | None, era: str, path: str, uris: tuple[str, ...] = ()
) -> AsyncIterator[Listening]:
    """For all changes at this path, in the way of the era, and for these resources."""
    async with agent(url, token, era) as client:
        if era == MODERN:
            kinds = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            wanted = {**kinds, **({"resourceSubscriptions": list(uris)} if uris else {})}
            params = {"notifications": wanted, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
            headers = {"mcp_protocol_version": MODERN, "mcp_method": "subscriptions/listen"}
            client.send("POST", path, json.dumps(body).encode(), **headers)
        else:
            await client.ask(path, "ping")
            for uri in uris:
                await client.ask(path, "resources/subscribe", {"uri": uri})
            headers = {"mcp_session_id": client.sessions[path], "mcp_protocol_version": HANDSHAKE}
            client.send("GET", path, **headers)
        status, seen = await client.head()
        stream = Listening(status)
        task = asyncio.create_task(_read(client, seen, stream))
        try:
            if era == MODERN:
                await stream.wait_for("notifications/subscriptions/acknowledged")
            yield stream
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _read(client: RawAgent, headers: dict[str, str], stream: Listening) -> None:
    try:
        rest = ""
        async for part in _chunks(client, headers):
            *lines, rest = (rest + part.decode()).split("\r\n")
            for line in lines:
                if line.startswith("data:") and line[5:].strip():
                    stream.said.append(json.loads(line[5:]))
            stream.more.set()
    finally:
        stream.over.set()


async def _chunks(client: RawAgent, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """Without a bound on how long nothing comes; over when the other side hangs up."""
    try:
        if headers.get("transfer-encoding") != "chunked":
            yield await client.reader.readexactly(int(headers.get("content-length", 0)))
            return
        while size := int(await client.reader.readuntil(b"\r\n"), 16):
            yield (await client.reader.readexactly(size + 2))[:-2]
    except (asyncio.IncompleteReadError, ConnectionError):
        return


def everything_in(value: Any) -> Iterator[str]:
    """All text in a JSON value."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from everything_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from everything_in(each)
    elif isinstance(value, str):
        yield value
