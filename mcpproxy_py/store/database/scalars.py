"""What comes in, brought into the shape a column takes.

One event that no database accepts would otherwise hold up all that come after it, for ever.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

NAME_LIMIT: Final = 500
"""Characters of a name that are kept. An index of PostgreSQL refuses rows of more than some 2,700 bytes."""
TERM_LIMIT: Final = 40
"""Characters of a word of ours, such as a status, that are kept. They stand beside a name in its index."""
_MOST: Final = (1 << 63) - 1
LAST_MOMENT: Final = (1 << 52) - 1
"""In the year 2112. What is left of 64 bits tells apart what happened within one microsecond."""


def name(value: Any) -> str | None:
    """A name as a column and a filter hold it: without NUL, which PostgreSQL refuses, and not too long."""
    if value is None:
        return None
    text = clean(value if isinstance(value, str) else str(value))
    return text if len(text) <= NAME_LIMIT else text[: NAME_LIMIT - 1] + "…"


_known_name: Final = lru_cache(maxsize=4096, typed=True)(name)


def names(*values: Any) -> list[str | None]:
    """Several, of those that come again and again: few callers ask for few tools."""
    try:
        return list(map(_known_name, values))
    except TypeError:  # a list, say, where a name should be
        return list(map(name, values))


def clean(text: str) -> str:
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "␀").encode("utf-8", "replace").decode()


def number(value: Any) -> int | None:
    usable = isinstance(value, (int, float)) and math.isfinite(value)
    return max(-_MOST, min(_MOST, int(value))) if usable else None


def micros(seconds: Any) -> int:
    """Seconds since 1970 as a time column holds them."""
    usable = isinstance(seconds, (int, float)) and 0 < seconds < math.inf
    return min(LAST_MOMENT, round(seconds * 1e6)) if usable else 0


def real(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else None


def part(value: Any, key: str) -> Any:
    """`value[key]` of an object, `None` of anything else."""
    return value.get(key) if isinstance(value, dict) else None
