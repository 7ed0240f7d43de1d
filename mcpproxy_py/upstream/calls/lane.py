"""How many calls one server gets at a time, and what happens to those that come on top (UP-7)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.errors import Code


class Lane:
    """At most `width` in flight and `room` waiting (as many, if not told), first come first served; the next is refused
    at once."""

    def __init__(self, width: int, on_wait: Callable[[], None] = lambda: None) -> None:
        """`on_wait` is called for each that has to wait."""
        self.in_flight = 0
        self._width = self._room = max(1, width)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._on_wait = on_wait

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def resize(self, width: int, room: int | None = None) -> None:
        self._width = max(1, width)
        self._room = max(1, width if room is None else room)
        self._admit()

    @asynccontextmanager
    async def place(self, patience: float) -> AsyncIterator[None]:
        """Raises `UpstreamFailure(OVERLOADED)`; nothing was sent then."""
        if not self.enter():
            await self.wait(patience)
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> bool:
        """Takes a place where one is free. Whoever has one, by this or by `wait`, has to `leave`."""
        if self.in_flight >= self._width or self._waiting:
            return False
        self.in_flight += 1
        return True

    def leave(self) -> None:
        self.in_flight -= 1
        if self._waiting:
            self._admit()

    async def wait(self, patience: float) -> None:
        """Until there is a place. Raises like `place`."""
        if len(self._waiting) >= self._room:
            raise _overloaded(f"{self.in_flight} calls are in flight and {len(self._waiting)} wait")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._on_wait()
        try:
            async with asyncio.timeout(patience):
                await turn
        except TimeoutError:
            self._give_up(turn)
            raise _overloaded(f"no place became free within {patience:g} s") from None
        except asyncio.CancelledError:
            self._give_up(turn)
            raise

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled():  # the place came in the same moment: hand it on
            self.in_flight -= 1
        elif turn in self._waiting:
            self._waiting.remove(turn)
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.in_flight < self._width:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)


def _overloaded(why: str) -> UpstreamFailure:
    return UpstreamFailure(Code.OVERLOADED, f"the server is busy: {why}", sent=False)
