"""REST over a real socket: what only a real server and a real connection can show."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from mcpproxy_py.store.activity.reader import EXPORT_PAGE
from mcpproxy_py.store.store import DATABASE
from tests.serve.parts import KEY, PATIENCE, House
from tests.serve.rest.test_rest import READ, error_of
from tests.support.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.proves("API-1", "SEC-1")]


@pytest.fixture
async def port(house: House) -> AsyncIterator[int]:
    async with serving(house.guard) as number:
        yield number


async def raw(port: int, request: bytes) -> tuple[int, dict[str, Any]]:
    """Status and JSON body for exactly these bytes."""
    with anyio.fail_after(PATIENCE):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request)
            received = b""
            while True:
                try:
                    received += await stream.receive()
                except anyio.EndOfStream:
                    break
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


def through(port: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers={"X-API-Key": KEY}, timeout=PATIENCE)


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {path} HTTP/1.1", *headers, "Connection: close", "", "")).encode()


async def test_a_call_goes_through_a_real_server(port: int) -> None:
    async with through(port) as http:
        body = {"variant": "read", "name": "notes:read_note", "intent": READ}
        answer = await http.post("/api/v1/call", json=body)
        assert answer.json()["status"] == "success"
        exported = await http.get("/api/v1/activity/export")
        assert json.loads(exported.text)["id"] == answer.json()["id"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ((), "FOREIGN_HOST"),
        (("Host: evil.example",), "FOREIGN_HOST"),
        (("Host: localhost", "Host: evil.example"), "BAD_REQUEST"),
        (("Host: localhost", "Origin: http://evil.example"), "FOREIGN_ORIGIN"),
        (("Host: localhost", "Origin: null"), "FOREIGN_ORIGIN"),
        (("Host: localhost",), "UNAUTHORIZED"),
        (("Host: localhost", f"X-API-Key: {KEY}", f"x-api-key: {KEY}"), "BAD_REQUEST"),
    ],
)
async def test_what_the_guard_refuses_is_refused_on_the_wire(port: int, headers: tuple[str, ...], code: str) -> None:
    version = "1.1" if any(header.startswith("Host") for header in headers) else "1.0"
    status, body = await raw(port, get("/api/v1/status", *headers).replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
    assert body["error"]["code"] == code
    assert status >= 400


async def test_an_encoded_path_comes_to_the_same_door(port: int) -> None:
    status, _ = await raw(port, get("/api%2Fv1%2Fstatus", "Host: localhost"))
    assert status == 401


async def test_a_streamed_body_is_cut_at_the_limit(port: int) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 10_000

    async with through(port) as http:
        headers = {"content-type": "application/json"}
        error_of(await http.post("/api/v1/call", content=endless(), headers=headers), "TOO_LARGE")
        assert (await http.get("/healthz")).is_success


@pytest.mark.proves("ACT-1")
async def test_a_caller_that_hangs_up_cancels_its_call_and_that_is_on_record(house: House, port: int) -> None:
    body = json.dumps({"variant": "read", "name": "notes:slow", "intent": READ}).encode()
    head = f"POST /api/v1/call HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {KEY}\r\nContent-Type: application/json\r\n"
    with anyio.fail_after(PATIENCE):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await house.upstreams.waiting.wait()
        await house.upstreams.given_up.wait()
        async with through(port) as http:
            rows: list[Any] = []
            while not rows:
                rows = (await http.get("/api/v1/activity", params={"status": "cancelled"})).json()["activities"]
    assert rows[0]["tool"] == "slow"


async def test_an_export_that_breaks_in_the_middle_is_seen_to_be_torn(house: House, port: int, tmp_path: Path) -> None:
    """The oldest record is damaged on disk, behind more than one page of good ones."""
    async with through(port) as http:
        for _ in range(EXPORT_PAGE + 1):
            await house.gateway.call(house.ask("notes:read_note"))
        oldest = (await http.get("/api/v1/activity/export")).text.splitlines()[-1]
        with closing(sqlite3.connect(tmp_path / "data" / DATABASE, PATIENCE, isolation_level=None)) as behind_our_back:
            damage = "UPDATE activity SET metadata = '{broken' WHERE id = ?"
            behind_our_back.execute(damage, (json.loads(oldest)["id"],))
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get("/api/v1/activity/export")
