"""Waiting, on the event loop, for the database to have something. Costs no thread, however many wait."""

from __future__ import annotations

import asyncio
from threading import Lock

from mcpproxy_py.store.journal.segment_files import Place
from mcpproxy_py.store.projection.follower import Follower


class Patience:
    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._waiting: list[tuple[Place, asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._lock = Lock()

    async def until(self, place: Place, timeout: float) -> bool:
        """Whether the database has everything before `place`, or gets it within this time."""
        if self._follower.place >= place:
            return True
        there = asyncio.Event()
        waiter = (place, asyncio.get_running_loop(), there)
        with self._lock:
            self._waiting.append(waiter)
        try:
            self.moved()  # it may have got there before it knew that we wait
            self._follower.hurry()
            async with asyncio.timeout(timeout):
                await there.wait()
        except TimeoutError:
            return self._follower.place >= place
        finally:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
        return True

    def moved(self) -> None:
        """Called by any thread when the database has got further."""
        if not self._waiting:
            return
        place = self._follower.place
        with self._lock:
            ready = [waiter for waiter in self._waiting if waiter[0] <= place]
            self._waiting = [waiter for waiter in self._waiting if waiter[0] > place]
        for _, loop, there in ready:
            if not loop.is_closed():
                loop.call_soon_threadsafe(there.set)
