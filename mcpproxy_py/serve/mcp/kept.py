"""What is kept for clients that may come back for it, of all sessions together: bounded in bytes and in time.

Each session bounds its own share. There can be ten thousand sessions, and ten thousand shares are no bound.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from mcpproxy_py.serve.mcp.streams import Stream

MAX_BYTES: Final = 64 << 20
KEPT_FOR: Final = 60.0
"""Seconds. Who lost its connection is back after one; who takes longer has given the request up."""


class Kept:
    """Streams weigh in here, and those whose answer went out are let go of again, oldest first."""

    def __init__(self, most: int = MAX_BYTES, seconds: float = KEPT_FOR) -> None:
        self.size = 0
        self._most = most
        self._seconds = seconds
        self._answered: OrderedDict[Stream, tuple[float, Callable[[], None]]] = OrderedDict()

    @property
    def full(self) -> bool:
        """Even without what has been answered: then every stream makes do with its latest event."""
        return self.size > self._most

    def weigh(self, more: int) -> None:
        self.size += more
        if more > 0:
            self._let_go()

    def answered(self, stream: Stream, let_go: Callable[[], None]) -> None:
        self._answered[stream] = time.monotonic(), let_go

    def forget(self, stream: Stream) -> None:
        self._answered.pop(stream, None)

    def _let_go(self) -> None:
        now = time.monotonic()
        while self._answered:
            stream, (since, let_go) = next(iter(self._answered.items()))
            if not self.full and now - since < self._seconds:
                return
            del self._answered[stream]
            let_go()
