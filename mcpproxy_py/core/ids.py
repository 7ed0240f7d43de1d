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
        # 48 bits of milliseconds, then 26 bits that start at random and count up within a millisecond.
        fresh = (int(at * 1000) << 26) | (int.from_bytes(self._random(3)) & 0xFFFFF)
        self._last = max(fresh, self._last + 1)
        millis, sequence = self._last >> 26, self._last & 0x3FFFFFF
        high, low = sequence >> 14, sequence & 0x3FFF
        tail = int.from_bytes(self._random(6))
        number = (millis << 80) | (0x7 << 76) | (high << 64) | (0x2 << 62) | (low << 48) | tail
        text = f"{number:032x}"
        return f"{self._prefix}{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def millis_of(made: str) -> int:
    """When an id was made, in milliseconds since 1970. Raises `ValueError` for one that was not made here."""
    return int(made[-36:-23].replace("-", ""), 16)


def first_id(millis: int) -> str:
    """What no id from this moment on sorts before, and every earlier one does."""
    text = f"{millis:012x}"
    return f"{text[:8]}-{text[8:]}"
