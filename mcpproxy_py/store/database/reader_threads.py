"""Waiting, on the event loop, for work that blocks: for some at once, and for each only so long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import Any, Final, TypeVar

import anyio

from mcpproxy_py.errors import StoreUnavailable

T = TypeVar("T")

PATIENCE: Final = 45.0
"""Longer than any statement may take, so it is only met where a database does not even say that it takes too long."""


class ReaderThreads:
    """Daemons, of which there are `many` at most: one that hangs on a silent database must not keep the process from
    ending, as those of a pool would."""

    def __init__(self, many: int, label: str) -> None:
        self._label = label
        self._free = asyncio.Semaphore(many)

    async def run(self, work: Callable[[], T], patience: float | None = None) -> T:
        """What it gives. Raises `StoreUnavailable` where that takes too long, and leaves the thread behind. Cancelled
        earlier it waits all the same, because what the thread holds open is somebody else's next."""
        limit = PATIENCE if patience is None else patience
        with anyio.CancelScope(shield=True), anyio.move_on_after(limit):
            await self._free.acquire()
            return await self._begun(work)
        raise StoreUnavailable(f"{self._label} did not answer within {limit:g} seconds.")

    def _begun(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Its place is free again when it ends, whether or not anybody still waits."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def end(settle: Callable[[Any], None], outcome: Any) -> None:
            self._free.release()
            if not result.done():
                settle(outcome)

        def run() -> None:
            try:
                ended = result.set_result, work()
            except Exception as error:
                ended = result.set_exception, error
            with suppress(RuntimeError):  # the loop is closed: nobody is left to hear of it
                loop.call_soon_threadsafe(end, *ended)

        Thread(target=copy_context().run, args=(run,), name="mcpproxy-store-work", daemon=True).start()
        return result
