"""MCP by lines: reading and writing them, and noticing a client that does neither (SEC-7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

log = logging.getLogger(__name__)

MAX_UNREAD: Final = 4 << 20
"""Bytes that wait for a client that does not read, beyond which what is no answer is dropped."""
MAX_OWED: Final = 256 << 20
"""Bytes of answers, beyond which it is taken to read no more."""
CHUNK: Final = 65_536


class LineWriter:
    """What goes to the client, in order. Never blocks who writes: a client that does not read loses its progress
    bar, not its answers; but when too many of these wait, or for too long, it loses its connection."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]], give_up: Callable[[], object] = lambda: None) -> None:
        """`give_up` is called when more waits than anybody reads."""
        self._send = send
        self._give_up = give_up
        self._taken = asyncio.Event()
        self._waiting: list[bytes] = []
        self._size = 0
        self._notifications = asyncio.Event()
        self._sent = 0
        self._sending = False

    @property
    def stuck_at(self) -> int | None:
        """How much had been sent when it had to wait, where it waits."""
        return self._sent if self._sending else None

    def note(self, message: bytes) -> None:
        if self._size < MAX_UNREAD:
            self.put(message)

    def put(self, message: bytes) -> None:
        self._waiting.append(message)
        self._size += len(message)
        self._notifications.set()
        if self._size > MAX_OWED:
            self._give_up()

    async def room(self) -> None:
        """Until the client has taken enough for more."""
        while self._size >= MAX_UNREAD:
            self._taken.clear()
            await self._taken.wait()

    async def run(self) -> None:
        while True:
            await self._notifications.wait()
            await self.flush()

    async def flush(self) -> None:
        self._notifications.clear()
        batch, self._waiting, self._size = self._waiting, [], 0
        self._taken.set()
        if batch:
            self._sending = True
            data = b"\n".join([*batch, b""])
            for begin in range(0, len(data), CHUNK):
                await self._send(data[begin : begin + CHUNK] if len(data) > CHUNK else data)
                self._sent += 1
            self._sending = False


class LineReader:
    """The client's lines."""

    def __init__(self, lines: BufferedByteReceiveStream, limit: int) -> None:
        self._lines = lines
        self._limit = limit
        self._read = 0
        self._reading = False

    @property
    def stuck_at(self) -> int | None:
        """How many lines had come when one was begun, where its end is waited for."""
        return self._read if self._reading and self._lines.buffer else None

    async def next(self) -> bytes:
        self._reading = True
        line = await self._lines.receive_until(b"\n", self._limit)
        self._reading = False
        self._read += 1
        return line


async def watch(patience: float, stuck_at: Callable[[], int | None], end: Callable[[], object], what: str) -> None:
    """Ends it for a client that makes no progress; one look now and then, instead of a deadline for each line."""
    before: int | None = None
    while True:
        await anyio.sleep(patience)
        now = stuck_at()
        if now is not None and now == before:
            log.warning("an attached client %s within %g seconds: it is let go", what, patience)
            end()
        before = now
