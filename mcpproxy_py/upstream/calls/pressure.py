"""Places held by questions that nobody comes back to, taken away when other calls wait for one (UP-5, UP-7).

A client of the modern era that was told the questions of its call is away until it answers, and nobody can say whether
it ever will. While there is room that costs nothing. When there is none, and another call waits, whoever was away
longest has had its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.session.rpc import PendingRequest

HURRY: Final = 30.0
"""How long a question may stay open while others wait, where nobody says otherwise."""
NEXT: Final = 0.05
"""One place at a time: whoever gets it is gone from the queue by then."""


class Pressure:
    """`open_questions` gives the calls whose clients are away; `waiting` how many wait for a place."""

    def __init__(
        self, open_questions: Callable[[], Iterable[PendingRequest]], waiting: Callable[[], int], hurry: float
    ) -> None:
        self._open_questions = open_questions
        self._waiting = waiting
        self._hurry = hurry
        self._timer: asyncio.TimerHandle | None = None

    def somebody_waits(self) -> None:
        if self._timer is None:
            self._look()

    def _look(self) -> None:
        self._timer = None
        if not self._waiting():
            return
        loop = asyncio.get_running_loop()
        oldest = min(self._open_questions(), key=lambda pending: pending.asked_at, default=None)
        left = self._hurry if oldest is None else oldest.asked_at + self._hurry - loop.time()
        if oldest is not None and left <= 0:
            oldest.fail(_given_up(self._hurry))
        self._timer = loop.call_later(max(left, NEXT), self._look)


def _given_up(patience: float) -> UpstreamFailure:
    message = f"its question was not answered within {patience:.3g} s, and other calls waited for its place"
    return UpstreamFailure(Code.TIMEOUT, f"{message}; the server may have acted")
