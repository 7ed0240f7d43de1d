"""What is kept for clients that may come back: bounded for all sessions together (SEC-5)."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from mcpproxy_py.core.values import ClientInfo
from mcpproxy_py.serve.http.asgi import as_asgi
from mcpproxy_py.serve.http.request import HttpRequest
from mcpproxy_py.serve.mcp import event_streams
from mcpproxy_py.serve.mcp.event_streams import OWN_WEIGHT, EventStream, ReplayBudget
from mcpproxy_py.serve.mcp.request import ClientPeer
from mcpproxy_py.serve.mcp.sessions import ClientSession

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-5")]


def session(kept: ReplayBudget, number: int = 1, version: str = "2025-11-25") -> ClientSession:
    return ClientSession("gate", ClientPeer(ClientInfo(), "local", version, False, {}, f"id{number}"), kept)


def answered(of: ClientSession, size: int) -> EventStream:
    stream = of.new_stream()
    stream.prime()
    stream.put(b"x" * size, last=True)
    return stream


async def read(stream: EventStream) -> bytes:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def handle(request: HttpRequest) -> None:
        await request.begin(200)
        await stream.pour(request)

    async def receive() -> Any:
        await anyio.sleep_forever()

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"", "http_version": "1.1"}
    await asyncio.wait_for(as_asgi(handle)(scope, receive, send), 30)
    return b"".join(message["body"] for message in sent if message["type"] == "http.response.body")


async def test_an_answer_can_be_fetched_again_until_all_sessions_together_keep_too_much() -> None:
    kept = ReplayBudget(most=100_000)
    sessions = [session(kept, number) for number in range(20)]
    streams = [answered(each, 10_000) for each in sessions]
    assert kept.size <= 100_000
    there = [each.stream(stream.name or "") is not None for each, stream in zip(sessions, streams, strict=True)]
    assert there == sorted(there), "the oldest went first"
    assert there.count(True) >= 3
    assert b"x" * 10_000 in await read(streams[0]), "whoever reads one that was let go of reads on"


async def test_an_answer_is_let_go_of_after_a_while() -> None:
    kept = ReplayBudget(seconds=0.0)
    one = session(kept)
    first, second = answered(one, 10), answered(one, 10)
    third = one.new_stream()
    assert [one.stream(stream.name or "") for stream in (first, second, third)] == [None, None, third]


async def test_what_is_under_way_is_never_let_go_of_but_keeps_only_its_latest_event_when_all_is_full() -> None:
    kept = ReplayBudget(most=50_000)
    sessions = [session(kept, number) for number in range(10)]
    under_way = [each.new_stream() for each in sessions]
    for _ in range(10):
        for stream in under_way:
            stream.put(b"x" * 10_000)
    assert all(each.stream(stream.name or "") is stream for each, stream in zip(sessions, under_way, strict=True))
    assert kept.size <= 10 * (10_100 + 2 * OWN_WEIGHT)


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18"])
async def test_a_session_that_ends_takes_all_its_weight_along(version: str) -> None:
    kept = ReplayBudget()
    one = session(kept, version=version)
    for _ in range(event_streams.BACKLOG // 4):
        answered(one, 100).release() if version < "2025-11-25" else answered(one, 100)
    one.tell(b"aside")
    one.new_stream().release() if version < "2025-11-25" else one.new_stream()
    one.close()
    assert kept.size == 0
