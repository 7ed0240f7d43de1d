"""How often a principal may ask: a bucket of asks for each that has a limit, filled again as time goes by (SEC-2).

Each gateway counts for itself. What is refused is counted and on record as shares are (`shares`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from mcpproxy_py.core.policy.token_terms import Rate
from mcpproxy_py.core.values import Refusal
from mcpproxy_py.errors import Code

RATE: Final = "rate"
"""The rule that refuses."""


class AskBucket:
    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate = rate
        self._left = float(rate.asks)
        self._at = now

    def wait(self, now: float) -> float:
        """Takes one, and gives 0; where there is none, how many seconds until there is."""
        per_second = self.rate.asks / self.rate.seconds
        self._left = min(float(self.rate.asks), self._left + max(0.0, now - self._at) * per_second)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0.0
        return (1 - self._left) / per_second


class RateLimits:
    """By principal. Empty, it costs a look at a dict."""

    def __init__(self, on_refused: Callable[[str, str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`on_refused(principal, "rate")` is told of everything that was refused for it."""
        self._on_refused = on_refused
        self._clock = clock
        self.of: dict[str, AskBucket] = {}

    def use(self, rates: Mapping[str, Rate]) -> None:
        """The limits from now on. One that did not change goes on where it was."""
        now = self._clock()
        self.of = {
            who: there if (there := self.of.get(who)) is not None and there.rate == rate else AskBucket(rate, now)
            for who, rate in rates.items()
        }

    def refusal(self, principal: str, what: str) -> Refusal | None:
        """Of one more ask of this principal's; `None` where there is room for it."""
        bucket = self.of.get(principal)
        if bucket is None or not (wait := bucket.wait(self._clock())):
            return None
        self._on_refused(principal, RATE)
        seconds = math.ceil(wait)
        message = f"'{what}' is refused: '{principal}' may ask {bucket.rate.text}; ask again in {seconds} s"
        return Refusal(
            Code.OVERLOADED, message, RATE, f"Wait {seconds} seconds, then call it again.", what,
            details={"rate": bucket.rate.text, "retry_after_seconds": seconds},
        )  # fmt: skip
