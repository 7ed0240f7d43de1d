"""One thread that does the same piece of work for whoever waits for it, once for all who came meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread

log = logging.getLogger(__name__)


class Turns:
    """A pool of threads would do, but handing work to one takes as long as the work: a sync is short."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        """What went wrong in `work`, whoever waited for it finds out by looking."""
        self._work = work
        self._waiting: list[asyncio.Future[None]] = []
        self._lock = Lock()
        self._wanted: SimpleQueue[asyncio.AbstractEventLoop | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    async def next(self) -> None:
        """Returns after a turn that began after this call."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._waiting.append(waiter)
            first = len(self._waiting) == 1
        if first:
            self._wanted.put(loop)
            if self._thread.ident is None:
                self._thread.start()
        await waiter

    def _run(self) -> None:
        while (loop := self._wanted.get()) is not None:
            with self._lock:
                served, self._waiting = self._waiting, []
            try:
                self._work()
            except Exception:
                log.exception("a turn failed")
            with suppress(RuntimeError):  # the loop was closed meanwhile, and nobody waits any more
                loop.call_soon_threadsafe(_release, served)

    def close(self) -> None:
        """Ends the thread after the turn it is at."""
        if self._thread.ident is not None:
            self._wanted.put(None)
            self._thread.join()


def _release(served: list[asyncio.Future[None]]) -> None:
    for waiter in served:
        if not waiter.done():  # it may have been cancelled
            waiter.set_result(None)
