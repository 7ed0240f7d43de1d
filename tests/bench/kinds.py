"""The kinds of call whose way through the gateway is counted, and the gateway they are made to (PERF-3).

`walk.py` draws them, `instructions.py` counts them under valgrind. Behind the gateway are trivial servers: `plain.py`
on a pipe, and the same tools over HTTP in the measuring process itself, each answer in one write, so that what is
counted does not depend on how an answer was cut.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.bench.clients import LARGEST, MODERN, SOME_ID, Call, Http
from tests.servers.plain import Plain
from tests.support.gateway import python_server

ARGS = {"text": "hello", "note": "x" * 200}
STDIO, HTTP = "s0", "h0"
REFUSED = b'"isError":true'
_TOKENS = itertools.count()
_LENGTH = re.compile(rb"\ncontent-length: (\d+)", re.IGNORECASE)


class Target(NamedTuple):
    """A gateway that is up."""

    url: str
    key: str


def gate_arguments(declared: str, server: str = STDIO) -> dict[str, Any]:
    return {"name": f"{server}:echo", "args": ARGS, "intent": {"operation_type": declared}}


def calling(http: Http, request: bytes, answer: bytes) -> Call:
    """Each with an id of its own; what comes back has to hold `answer`, and be a refusal only where that is it."""
    before, id_, after = request.partition(b"%d" % SOME_ID)
    ids = itertools.count(SOME_ID)

    async def call(worker: int) -> None:
        head, body = await http.post(worker, b"%s%d%s" % (before, next(ids), after) if id_ else before)
        assert head.startswith(b"HTTP/1.1 200"), head + body[:500]
        assert answer in body and (answer == REFUSED or REFUSED not in body), body[:600]

    return call


def modern(
    path: str, method: str, tool: str = "", arguments: Mapping[str, Any] = ARGS, *, answer: bytes, token: bool = False
) -> Kind:
    async def kind(target: Target) -> Call:
        http, named = Http(target.url + path), {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if token:
            named["authorization"] = f"Bearer {await new_token(target)}"
        params: dict[str, Any] = {"_meta": MODERN}
        if tool:
            named["mcp-name"] = tool
            params |= {"name": tool, "arguments": arguments}
        return calling(http, http.message(method, params, named), answer)

    return kind


async def new_token(target: Target) -> str:
    """One whose scope is all that it takes."""
    asked = {"name": f"agent{next(_TOKENS)}", "servers": [STDIO], "operations": ["read", "write"]}
    async with httpx.AsyncClient(headers={"X-API-Key": target.key}, timeout=60, trust_env=False) as client:
        made = await client.post(f"{target.url}/api/v1/tokens", json=asked)
        assert made.status_code == 201, made.text
        return made.json()["token"]


def gated(
    variant: str, server: str = STDIO, *, declared: str = "", answer: bytes = b"hello", token: bool = False
) -> Kind:
    arguments = gate_arguments(declared or variant, server)
    return modern("/mcp", "tools/call", f"call_tool_{variant}", arguments, answer=answer, token=token)


async def handshake(target: Target) -> Call:
    http = Http(f"{target.url}/mcp")
    params = {"name": "call_tool_read", "arguments": gate_arguments("read")}
    return calling(http, http.message("tools/call", params, await http.session()), b"hello")


async def rest(target: Target) -> Call:
    http = Http(f"{target.url}/api/v1/call")
    body = json.dumps({"variant": "read", **gate_arguments("read")}).encode()
    lines = {**http.headers, "x-api-key": target.key, "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return calling(http, f"POST {http.path} HTTP/1.1\r\n{head}\r\n".encode() + body, b"hello")


Kind = Callable[[Target], Awaitable[Call]]
KINDS: dict[str, Kind] = {
    "read": gated("read"),
    "handshake": handshake,
    "http": gated("read", HTTP),
    "write": gated("write"),
    "token": gated("read", token=True),
    "token write": gated("write", token=True),
    "refused": gated("read", declared="write", answer=REFUSED),
    "direct": modern("/mcp/direct", "tools/call", f"{STDIO}__echo", answer=b"hello"),
    "passthrough": modern(f"/mcp/s/{STDIO}", "tools/call", "echo", answer=b"hello"),
    "list": modern("/mcp", "tools/list", answer=b"call_tool_read"),
    "rest": rest,
}
TITLES = {
    "read": "gated read, modern client, server on stdio",
    "handshake": "gated read, client of the handshake era",
    "http": "gated read, server over HTTP",
    "write": "gated write",
    "token": "gated read, by a token",
    "token write": "gated write, by a token",
    "refused": "gated, refused (two keys)",
    "direct": "direct",
    "passthrough": "passthrough",
    "list": "tools/list of the gate",
    "rest": "POST /api/v1/call",
}


@asynccontextmanager
async def http_server() -> AsyncIterator[int]:
    """`plain.py` over HTTP in this very loop; its port."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=LARGEST)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    plain = Plain()
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            found = _LENGTH.search(head)
            body = await reader.readexactly(int(found[1]) if found else 0)
            writer.write(_answer(plain, body) if head.startswith(b"POST") else _http("405 Method Not Allowed"))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _answer(plain: Plain, body: bytes) -> bytes:
    said: list[Any] = []
    plain.handle(json.loads(body), said.append, said.append)
    return _http("200 OK", json.dumps(said[0]).encode()) if said else _http("202 Accepted")


def _http(status: str, body: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def configure(data: Path, port: int, **options: Any) -> None:
    """A new data directory for a gateway with both servers and all surfaces."""
    data.mkdir(mode=0o700, parents=True)
    tools = {"tools": {"echo": "read"}, **options}
    servers = {
        STDIO: python_server("plain.py", **tools),
        HTTP: {"url": f"http://127.0.0.1:{port}/mcp", **tools},
    }
    config = {"log": {"level": "error"}, "surfaces": ["gate", "direct", "passthrough"], "mcpServers": servers}
    (data / "mcp_config.json").write_text(json.dumps(config))


async def ready(data: Path, within: float) -> Target:
    """The gateway on this data directory, when it is up and has both servers."""
    where = data / "gateway.json"
    async with asyncio.timeout(within):
        while not where.exists():  # noqa: ASYNC110 (a file tells nobody)
            await asyncio.sleep(0.02)
        target = Target(json.loads(where.read_text())["url"], (data / "admin.key").read_text().strip())
        async with httpx.AsyncClient(headers={"X-API-Key": target.key}, timeout=within, trust_env=False) as client:
            while True:
                servers = (await client.get(f"{target.url}/api/v1/servers")).json()["servers"]
                states = {each["name"]: each["state"] for each in servers}
                if states.get(STDIO) == states.get(HTTP) == "connected":
                    return target
                await asyncio.sleep(0.02)


async def begin(target: Target, names: Iterable[str]) -> dict[str, Call]:
    return {name: await KINDS[name](target) for name in names}
