"""Long work on the event loop, a piece at a time with pauses between, so that no peer's bytes hold up another's call.

Reading and writing JSON holds the interpreter, in whatever thread it is done, so a thread would be no help. What helps
is a limit on how much one message may be, and to wait before each piece of work until no other was done just now.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from mcpproxy_py.core.results.tokens import Made, Steps

TURN: Final = 0.005
"""Seconds for which one turn lasts, where the work can be broken off anywhere."""
REST: Final = 2
"""How much longer than a piece of work is the pause after it: a call of others hardly meets two."""
MANY: Final = 2000
"""Tools that are worth it to be taken out of the garbage collector's sight."""
SHORTEST_PAUSE: Final = 0.001
"""What a timer can tell apart; after a shorter piece of work the next one waits for a turn of the loop."""


class TurnQueue:
    """Who has something long to do waits here for its turn, and does it before its next `await`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._planned = False
        self._free_at = 0.0

    async def turn(self, seconds: float) -> None:
        """Wait until this much work may be done. After it, nobody else's begins for twice as long."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._planned, self._free_at = loop, False, 0.0
            self._waiting.clear()
        ready = loop.create_future()
        self._waiting.append((ready, seconds))
        self._plan(loop)
        await ready

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._planned:
            return
        self._planned = True
        pause = self._free_at - loop.time()
        if pause < SHORTEST_PAUSE:
            loop.call_soon(self._next, loop)
        else:
            loop.call_later(pause, self._next, loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        self._planned = False
        while self._waiting:
            ready, seconds = self._waiting.popleft()
            if not ready.done():  # else its caller was cancelled
                self._free_at = loop.time() + (1 + REST) * seconds
                ready.set_result(None)
                break
        if self._waiting:
            self._plan(loop)


async def in_turns(steps: Steps[Made]) -> Made:
    """Long work, a few steps at a time; what is short after all is done at once."""
    try:
        while True:
            end = time.perf_counter() + TURN
            while time.perf_counter() < end:
                next(steps)
            await TURNS.turn(TURN)
    except StopIteration as made:
        return made.value


def uncollected(make: Callable[[], Made]) -> Made:
    """What this makes, without a look for garbage in between: reading JSON makes none, and looking through what is made
    again and again takes longer than to make it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return make()
    finally:
        if collecting:
            gc.enable()


def drop_all(objects: list[object]) -> None:
    """One by one, so that others come to their turn in between: what a large object takes along is freed in one go."""
    while objects:
        objects.pop()


class LastingObjects:
    """What is kept for long and is large is taken out of the sight of the garbage collector: a look at all of ten
    thousand tools takes a tenth of a second, in which nobody else has a turn. What is no longer used goes all the same,
    unless it is a cycle; of those, what there is at such a moment stays for good. So there are few such moments: each
    comes after as much was made as at all those before it."""

    def __init__(self) -> None:
        self._new = self._settled = 0

    def made(self, count: int) -> None:
        """So many more tools. To be called where they are all there is that is new."""
        self._new += count
        if self._new >= max(MANY, self._settled):
            self._settled, self._new = self._settled + self._new, 0
            gc.freeze()


LASTING: Final = LastingObjects()
TURNS: Final = TurnQueue()
"""The one of this process: it has one event loop."""
