"""Waiting, on the event loop, for work that blocks: for some at once, and for each only so long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from mcpproxy_py.store.failure import StoreUnavailable

T = TypeVar("T")

PATIENCE: Final = 45.0
"""Longer than any statement may take, so it is only met where a database does not even say that it takes too long."""


class Threads:
    def __init__(self, many: int, label: str) -> None:
        self._label = label
        self._free = anyio.CapacityLimiter(many)

    async def run(self, work: Callable[[], T]) -> T:
        """What it gives. Raises `StoreUnavailable` where that takes too long, and leaves the thread behind: it ends
        when its connection does, and there are only so many of those. Cancelled earlier it waits all the same,
        because what the thread holds open is somebody else's next."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(PATIENCE):
            return await anyio.to_thread.run_sync(work, limiter=self._free, abandon_on_cancel=True)
        raise StoreUnavailable(f"{self._label} did not answer within {PATIENCE:.0f} seconds.")
