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
        chance = self._random(9)
        # 48 bits of milliseconds, then 26 bits that start at random and count up within a millisecond.
        fresh = (int(at * 1000) << 26) | (int.from_bytes(chance[:3]) >> 4)
        self._last = last = fresh if fresh > self._last else self._last + 1
        time, high, low = f"{last >> 26:012x}", 0x7000 | (last >> 14) & 0xFFF, 0x8000 | last & 0x3FFF
        return f"{self._prefix}{time[:8]}-{time[8:]}-{high:x}-{low:x}-{chance[3:].hex()}"


def millis_of(made: str) -> int:
    """When an id was made, in milliseconds since 1970. Raises `ValueError` for one that was not made here."""
    return int(made[-36:-23].replace("-", ""), 16)


def first_id(millis: int) -> str:
    """What no id from this moment on sorts before, and every earlier one does."""
    text = f"{millis:012x}"
    return f"{text[:8]}-{text[8:]}"
