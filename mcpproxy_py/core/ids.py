"""Time-ordered ids: UUID version 7, monotonic within one maker."""

from __future__ import annotations

from collections.abc import Callable


class IdMaker:
    """Makes ids that sort by time, also within one millisecond and when the clock steps back.

    `random` gives as many random bytes as asked for; it is an argument because the core has none.
    """

    def __init__(self, random: Callable[[int], bytes], prefix: str = "") -> None:
        self._random = random
        self._prefix = prefix
        self._last = 0

    def __call__(self, at: float) -> str:
        chance = int.from_bytes(self._random(9))
        # 48 bits of milliseconds, then 26 bits that start at random and count up within a millisecond.
        fresh = (int(at * 1000) << 26) | (chance >> 52)
        self._last = last = max(fresh, self._last + 1)
        high, low = (last >> 14) & 0xFFF, last & 0x3FFF
        number = ((last >> 26) << 80) | (0x7000 | high) << 64 | (0x8000 | low) << 48 | (chance & 0xFFFFFFFFFFFF)
        text = f"{number:032x}"
        return f"{self._prefix}{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
