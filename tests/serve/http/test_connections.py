"""Places of connections, and clients that read slowly."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from mcpproxy_py.serve.http.asgi import answered_by
from mcpproxy_py.serve.http.connections import ConnectionLimits, ConnectionTable, address_of
from mcpproxy_py.serve.http.server import HttpServer

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-7")]

PATIENCE = 60


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


class Place:
    """A connection as the table sees it."""

    unread_since = 0.0

    def __init__(self, address: str, silent_since: float | None = None, unread: int = 0) -> None:
        self.address = address
        self.silent_since = silent_since
        self.unread = unread
        self.ended = False

    def end(self) -> None:
        self.ended = True

    abort = end


def table(every: int = 4, of_one: int = 2) -> tuple[ConnectionTable, list[str]]:
    refused: list[str] = []
    return ConnectionTable(ConnectionLimits(every, of_one), refused.append), refused


def test_the_one_that_was_silent_longest_makes_room_for_its_own_address() -> None:
    places, refused = table()
    first, second, other, third = Place("a", 2.0), Place("a", 1.0), Place("b", 0.0), Place("a")
    assert all(places.add(each) for each in (first, second, other, third))
    assert [each.ended for each in (first, second, other)] == [False, True, False]
    assert len(places) == 3 and not refused


def test_whoever_waits_for_us_keeps_its_place() -> None:
    places, refused = table()
    assert [places.add(Place("a")) for _ in range(3)] == [True, True, False]
    assert refused == ["a"]
    assert places.add(Place("b"))


def test_of_all_together_the_address_with_most_gives_way() -> None:
    places, _ = table(every=3)
    greedy = [Place("a", 5.0), Place("a", 6.0)]
    modest = Place("b", 1.0)
    assert all(map(places.add, (*greedy, modest))) and places.add(Place("c"))
    assert [each.ended for each in (*greedy, modest)] == [True, False, False]


def test_a_place_that_was_given_back_is_there_again() -> None:
    places, _ = table()
    held = [Place("a"), Place("a")]
    assert all(map(places.add, held)) and not places.add(Place("a"))
    places.discard(held[0])
    places.discard(held[0])
    assert places.add(Place("a")) and not places.add(Place("a"))


def test_answers_that_nobody_reads_are_bounded_together() -> None:
    places, _ = table(every=10, of_one=10)
    stuck = [Place("a", unread=100 << 20) for _ in range(3)]
    for number, each in enumerate(stuck):
        each.unread_since = number
        places.add(each)
        places.unread(each)
    assert [each.ended for each in stuck] == [True, False, False]


@pytest.mark.parametrize(
    ("peer", "address"),
    [(None, "unix"), (("127.0.0.1", 5), "127.0.0.1"), (("::1", 5), "::1"), (("::ffff:10.1.2.3", 5), "10.1.2.3"),
     (("2001:db8:1:2:3:4:5:6", 5), "2001:db8:1:2::/64"), (("2001:db8:1:2:ffff::", 5), "2001:db8:1:2::/64"),
     (("fe80::1%eth0", 5), "fe80::/64"), (("odd", 5), "odd")],
)  # fmt: skip
def test_whose_share_an_address_counts_to(peer: tuple[str, int] | None, address: str) -> None:
    assert address_of(peer) == address


@pytest.mark.parametrize(
    ("limit", "wanted", "room"), [((300, 300), 2048, 44), ((100, 100), 2048, 16), ((300, 4096), 2048, 2048)]
)
def test_there_are_no_more_places_than_open_files(limit: tuple[int, int], wanted: int, room: int) -> None:
    program = (
        "import resource; from mcpproxy_py.serve.http.connections import room_for;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, {limit}); print(room_for({wanted}))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert int(said.stdout) == room


SIZE = 24 << 20
"""Bytes that no socket's buffers take in."""


async def large(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % SIZE)]})
    await send({"type": "http.response.body", "body": b"x" * SIZE})


async def test_who_reads_slowly_but_reads_gets_all_of_it() -> None:
    """In a time that is many times the deadline."""
    limits = ConnectionTable(ConnectionLimits(read=0.4))
    listener = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(answered_by(large), table=limits, timeout_graceful_shutdown=1)
    with anyio.fail_after(PATIENCE), listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1], limit=1 << 18)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            got = 0
            while more := await reader.read(1 << 18):
                got += len(more)
                await anyio.sleep(0.02)
            assert got == SIZE
            writer.close()
            server.should_exit = True
