"""The four cells: a client of either era in front of an upstream of either era, over every way between them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import httpx

from tests.support.everything import COMMAND, ROOT
from tests.support.gateway import clean_environment
from tests.support.links import HttpLink, StdioLink
from tests.support.peer import CAPABILITIES, Answer, Link, Message, Peer, connected, silent
from tests.support.wire import HANDSHAKE, MODERN

ERAS = {"modern": MODERN, "handshake": HANDSHAKE}
TRANSPORTS = ("http", "stdio")


@dataclass(frozen=True)
class World:
    """What is running: the servers of each kind, and a gateway in front of all of them (none: go straight)."""

    servers: Mapping[str, str]
    """The addresses of those that speak HTTP, by era."""
    notes: Path
    gateway: str | None = None
    data_dir: Path | None = None

    def approve_pins(self, server: str) -> None:
        """What this server lists now, as a person who works on it would: tools that come and go, and take the same,
        are renames of each other for all that anybody can tell."""
        if self.gateway is None or self.data_dir is None:
            return
        key = (self.data_dir / "admin.key").read_text().strip()
        with httpx.Client(base_url=f"{self.gateway}/api/v1", headers={"X-API-Key": key}, trust_env=False) as client:
            pin = client.get(f"/pins/{server}").json()
            if pin["waiting"]:
                client.post(f"/pins/{server}/approve", json={"seen": pin["seen"]})

    def notes_of(self, upstream: str) -> list[str]:
        file = self.notes / upstream
        return file.read_text().splitlines() if file.exists() else []


@dataclass(frozen=True)
class Cell:
    client: str
    upstream: str
    transport: str
    """Between the gateway and the upstream; where there is no gateway, between the client and the server."""
    door: str
    """Which surface of the gateway; `straight` is none, `piped` is passthrough over `mcpproxy stdio`."""

    def __str__(self) -> str:
        return f"{self.door}-{self.client}-to-{self.upstream}-over-{self.transport}"

    @property
    def name(self) -> str:
        return f"{self.upstream}-{self.transport}"

    @property
    def crosses(self) -> bool:
        return self.client != self.upstream

    def link(self, world: World) -> Link:
        if self.door == "straight":
            if self.transport == "http":
                return HttpLink(world.servers[self.upstream])
            return StdioLink(command(self.upstream, world.notes / self.name), cwd=ROOT)
        if self.door == "piped":
            piped = ["stdio", "--server", self.name, "--data-dir", str(world.data_dir)]
            return StdioLink([sys.executable, "-m", "mcpproxy_py", *piped], env=clean_environment())
        paths = {"passthrough": f"/mcp/s/{self.name}", "direct": "/mcp/direct", "gate": "/mcp"}
        return HttpLink(f"{world.gateway}{paths[self.door]}")

    @asynccontextmanager
    async def peer(
        self,
        world: World,
        answer: Answer = silent,
        capabilities: Mapping[str, Any] = CAPABILITIES,
        name: str = "peer",
    ) -> AsyncIterator[Peer]:
        link = self.link(world)
        async with connected(link, ERAS[self.client], answer, capabilities=capabilities, name=name) as peer:
            yield peer

    def params(self, tool: str, arguments: Mapping[str, Any]) -> Message:
        """The params of a `tools/call` that reaches this tool through this door."""
        if self.door == "gate":
            intent = {"operation_type": "write"}
            return {
                "name": "call_tool_write",
                "arguments": {"name": f"{self.name}:{tool}", "args": dict(arguments), "intent": intent},
            }
        named = f"{self.name}__{tool}" if self.door == "direct" else tool
        return {"name": named, "arguments": dict(arguments)}

    async def call(self, peer: Peer, tool: str, arguments: Mapping[str, Any] | None = None, **meta: Any) -> Message:
        return await peer.request("tools/call", self.params(tool, arguments or {}), **meta)


def command(era: str, notes: Path) -> list[str]:
    return [*COMMAND, "--era", era, "--notes", str(notes)]


STRAIGHT = tuple(Cell(era, era, transport, "straight") for era in ERAS for transport in TRANSPORTS)
"""The base line: a client straight at a server of its own era, which proves the servers and the client."""


def through(*doors: str, transports: Sequence[str] = TRANSPORTS) -> tuple[Cell, ...]:
    """All four cells through each of these doors."""
    found = product(ERAS, ERAS, transports, doors)
    return tuple(Cell(client, upstream, transport, door) for client, upstream, transport, door in found)
