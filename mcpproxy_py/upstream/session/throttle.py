"""Notifications at a pace that a client can take: a burst passes whole, a flood is thinned.

News of changes, coalesced: what is said ten thousand times in a moment is told twice, at once and at its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

logger = logging.getLogger(__name__)

PERIOD: Final = 0.1
BURST: Final = 64
"""As many in each period pass as they come. No person sees more, and no client's queue should hold more."""
PROGRESS: Final = "notifications/progress"


class NotificationThrottle:
    """Beyond the burst, the latest progress stands for those before it, since each says how far the whole is. What
    else comes on top is dropped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, give: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._loop = loop
        self._give = give
        self._since = loop.time()
        self._left = BURST
        self._latest: Mapping[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.dropped = 0

    def put(self, method: str, params: Mapping[str, Any]) -> None:
        if self._left <= 0 and self._loop.time() - self._since >= PERIOD:
            self._begin()
        if self._left > 0:
            self._left -= 1
            self._pass(method, params)
        elif method == PROGRESS:
            self._keep(params)
        else:
            self._drop()

    def flush(self) -> None:
        latest, self._latest = self._latest, None
        if latest is not None:
            self._pass(PROGRESS, latest)

    def close(self) -> None:
        self._latest = None
        self._wait_for_nothing()

    def _pass(self, method: str, params: Mapping[str, Any]) -> None:
        """An answer must not hang on whether its notes could be passed on."""
        try:
            self._give(method, params)
        except Exception:
            logger.exception("a notification could not be passed on")

    def _wait_for_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._wait_for_nothing()  # a timer that is late would begin the next period at once
        self.flush()
        self._since, self._left = self._loop.time(), BURST

    def _keep(self, params: Mapping[str, Any]) -> None:
        self._latest = params
        if self._timer is None:
            self._timer = self._loop.call_at(self._since + PERIOD, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._begin()

    def _drop(self) -> None:
        if not self.dropped:
            logger.warning("a server sends more notifications during a call than its client reads; the rest is dropped")
        self.dropped += 1


MOMENT: Final = 0.1
MOST: Final = 5_000
"""Different things that may change in one moment. A server that names more is making them up."""

Tell = Callable[[str, Mapping[str, Any]], None]
Key = tuple[str, str]


class ChangeCoalescer:
    """Each of these only says "look again", so the last one stands for all before it."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._waiting: dict[Key, Mapping[str, Any] | None] = {}

    def put(self, method: str, params: Mapping[str, Any]) -> None:
        key = (method, str(params.get("uri", ""))[:2048])
        if key in self._waiting:
            self._waiting[key] = params
        elif len(self._waiting) < MOST:
            self._waiting[key] = None
            asyncio.get_running_loop().call_later(MOMENT, self._tell_again, key)
            self._tell(method, params)

    def _tell_again(self, key: Key) -> None:
        params = self._waiting.pop(key)
        if params is not None:
            self.put(key[0], params)
