"""Server-sent events to one client: in order, bounded, and, in the handshake era, resumable.

A stream outlives the connection it is read through. In the handshake era a client that lost its connection
comes back with the last event it saw and gets the rest, so nothing that was answered is lost on the way.

What is kept for that is bounded in bytes and in time, of all sessions together (`Kept`). Each session bounds its own
share; but there can be ten thousand sessions, and ten thousand shares are no bound.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from mcpproxy_py.serve.http.request import HttpRequest

PING: Final = b": ping\r\n\r\n"
PING_AFTER: Final = 15.0
"""Seconds of silence after which a comment goes out, so that proxies keep the connection."""
RETRY_MS: Final = 500
BACKLOG: Final = 512
"""Events kept for a client that does not read or has to resume; beyond that the oldest are dropped."""
BACKLOG_BYTES: Final = 4 << 20
OWN_WEIGHT: Final = 2048
"""Of a stream without any events, as measured."""
MAX_BYTES: Final = 64 << 20
KEPT_FOR: Final = 60.0
"""Seconds. Who lost its connection is back after one; who takes longer has given the request up."""
HEAD: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class EventStream:
    """`name` makes its events resumable: they then carry ids, and are kept after they were sent. `scale` is told what
    they weigh, until `release`."""

    def __init__(
        self,
        name: str | None = None,
        *,
        events: int = BACKLOG,
        size: int = BACKLOG_BYTES,
        scale: ReplayBudget | None = None,
    ) -> None:
        self.name = name
        self._limits = events, size
        self._scale = scale
        self.on_done: Callable[[], None] = _nothing
        self.done = False
        self.notifications = asyncio.Event()
        self._away: asyncio.Event | None = None
        self._sent_away = 0
        """The last of the readers that were told to come back later."""
        self._events: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._numbers = itertools.count(1)
        self._readers = self._reading = 0
        self._weigh(OWN_WEIGHT)

    def put(self, message: bytes, *, last: bool = False) -> None:
        """One more event. Of a client that does not keep up the oldest go, never the newest: that is the answer."""
        number = next(self._numbers)
        self._keep(number, self._framed(number, message))
        if last:
            self.end()
        self.notifications.set()

    @property
    def is_read(self) -> bool:
        return self._reading > 0

    @property
    def size(self) -> int:
        return self._size

    def end(self) -> None:
        if not self.done:
            self.done = True
            self.on_done()
        self.notifications.set()

    def release(self) -> None:
        """Nobody will come back to it. Who reads it still reads on."""
        self._weigh(-OWN_WEIGHT - self._size)
        self._scale = None
        self.on_done = _nothing

    def _weigh(self, more: int) -> None:
        if self._scale is not None:
            self._scale.weigh(more)

    def prime(self, retry_ms: int = RETRY_MS) -> None:
        """An event without content, whose id a client can come back with before anything was said."""
        if self.name is not None:
            number = next(self._numbers)
            self._keep(number, f"id: {self.name}-{number}\r\nretry: {retry_ms}\r\ndata: \r\n\r\n".encode())

    def pause(self, seconds: float) -> Awaitable[object]:
        """Whoever reads is sent away with what there is, to come back in so many seconds. Over when somebody does."""
        self.prime(round(seconds * 1000))
        away = self._away = asyncio.Event()
        self._sent_away = max(1, self._readers)  # the first may be about to begin
        self.notifications.set()
        return away.wait()

    def _framed(self, number: int, message: bytes) -> bytes:
        head = b"" if self.name is None else f"id: {self.name}-{number}\r\n".encode()
        return b"event: message\r\n" + head + b"data: " + message + b"\r\n\r\n"

    def _keep(self, number: int, frame: bytes) -> None:
        self._events.append((number, frame))
        self._size += len(frame)
        self._weigh(len(frame))
        most, largest = self._limits
        while len(self._events) > most or (len(self._events) > 1 and self._too_heavy(largest)):
            self._drop_first()

    def _too_heavy(self, largest: int) -> bool:
        return self._size > largest or (self._scale is not None and self._scale.full)

    def _drop_first(self) -> None:
        weight = len(self._events.popleft()[1])
        self._size -= weight
        self._weigh(-weight)

    async def pour(self, request: HttpRequest, after: int = 0) -> None:
        """Send what comes after event number `after` as the rest of this answer, until the end or until the client
        left, of which `news` has to be told. Of several readers only the latest goes on: the others' connections are
        taken for lost, and end."""
        self._readers += 1
        mine = self._readers
        if self._away is not None and mine > self._sent_away:
            self._away.set()
            self._away = None
        self.notifications.set()
        self._reading += 1
        try:
            while not request.gone and mine == self._readers:
                self.notifications.clear()
                after = await self._send_behind(after, request)
                if (self.done or self._away is not None) and not self._behind(after):
                    break
                if request.gone:
                    break
                await self._wait(request)
        finally:
            self._reading -= 1
        await request.send(b"", more=False)

    async def _send_behind(self, after: int, request: HttpRequest) -> int:
        for number, frame in self._behind(after):
            await request.send(frame)
            after = number
        if self.name is None:
            self._forget(after)
        return after

    def _behind(self, after: int) -> list[tuple[int, bytes]]:
        return [event for event in self._events if event[0] > after]

    def _forget(self, upto: int) -> None:
        while self._events and self._events[0][0] <= upto:
            self._drop_first()

    async def _wait(self, request: HttpRequest) -> None:
        try:
            async with asyncio.timeout(PING_AFTER):
                await self.notifications.wait()
        except TimeoutError:
            await request.send(PING)


def _nothing() -> None:
    return


async def begin(request: HttpRequest, extra: Iterable[tuple[bytes, bytes]] = ()) -> None:
    await request.begin(200, [*HEAD, *extra])


def parse_event_id(text: str) -> tuple[str, int] | None:
    """A stream's name and the number of an event in it."""
    name, dash, number = text.rpartition("-")
    return (name, int(number)) if dash and name and number.isascii() and number.isdigit() and len(number) < 16 else None


class ReplayBudget:
    """Streams weigh in here, and those whose answer went out are let go of again, oldest first."""

    def __init__(self, most: int = MAX_BYTES, seconds: float = KEPT_FOR) -> None:
        self.size = 0
        self._most = most
        self._seconds = seconds
        self._answered: OrderedDict[EventStream, tuple[float, Callable[[], None]]] = OrderedDict()

    @property
    def full(self) -> bool:
        """Even without what has been answered: then every stream makes do with its latest event."""
        return self.size > self._most

    def weigh(self, more: int) -> None:
        self.size += more
        if more > 0:
            self._let_go()

    def answered(self, stream: EventStream, let_go: Callable[[], None]) -> None:
        self._answered[stream] = time.monotonic(), let_go

    def forget(self, stream: EventStream) -> None:
        self._answered.pop(stream, None)

    def _let_go(self) -> None:
        now = time.monotonic()
        while self._answered:
            stream, (since, let_go) = next(iter(self._answered.items()))
            if not self.full and now - since < self._seconds:
                return
            del self._answered[stream]
            let_go()
