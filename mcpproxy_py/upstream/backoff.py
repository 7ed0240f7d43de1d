"""How long to wait before a lost server is connected again."""

from __future__ import annotations

import random
import time
from typing import Final

from mcpproxy_py._upstream_failure import FORGOTTEN

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
STEADY: Final = 10.0
"""A connection that lived this long was good: the next attempt comes at once, and the pauses start small again."""


class Backoff:
    def __init__(self) -> None:
        self._failures = 0
        self._excused = -STEADY

    def pause(self, reason: str, lived: float | None) -> float:
        """Seconds, 0 for at once. `lived`: how long it was connected, None if it never was.

        Full jitter: many servers lost at once must not come back at once.
        """
        if lived is not None and (lived > STEADY or self._excuses(reason)):
            self._failures = 0
            return 0.0
        self._failures += 1
        return random.uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._failures - 1, 10)))

    def _excuses(self, reason: str) -> bool:
        """A server that forgot a session is there and only wants a new one; if it does nothing else, it has to wait."""
        now = time.monotonic()
        if reason != FORGOTTEN or now - self._excused < STEADY:
            return False
        self._excused = now
        return True
