"""The number of a row: when it was asked, in microseconds, and then some bits that keep two of one moment apart.

One integer is the key, the order of pages and the time. So no index has to hold a time and an id beside what it is
for, a page is cut off with one comparison, and a text search gives its hits in the order they are shown in.

What comes in, brought into the shape a column takes.

One event that no database accepts would otherwise hold up all that come after it, for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

from sqlalchemy import ColumnElement, Connection, and_, select

from mcpproxy_py.core.record.short_ids import IdRange
from mcpproxy_py.store.database.tables import activity

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


def within(column: Any, ids: IdRange) -> ColumnElement[bool]:
    """Along the index of the column, whose few hits are then looked at for how they end."""
    ends = [column.like(f"%{ids.ending}")] if ids.ending else []
    return and_(column >= ids.first, column < ids.last, *ends)


def number(value: Any) -> int | None:
    usable = isinstance(value, (int, float)) and -math.inf < value < math.inf
    return max(-_MOST, min(_MOST, int(value))) if usable else None


def micros(seconds: Any) -> int:
    """Seconds since 1970 as a time column holds them."""
    usable = isinstance(seconds, (int, float)) and 0 < seconds < math.inf
    return min(LAST_MOMENT, round(min(seconds, LAST_MOMENT) * 1e6)) if usable else 0


def real(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e300 else None


def part(value: Any, key: str) -> Any:
    """`value[key]` of an object, `None` of anything else."""
    return value.get(key) if isinstance(value, dict) else None


BITS: Final = 11
AT_ONCE: Final = 500
_WINDOW: Final = BITS + 2


def first_of(at: int) -> int:
    """The lowest number that a row of this moment can have."""
    return at << BITS


def at_of(n: int) -> int:
    return n >> BITS


def numbers(connection: Connection, wanted: Mapping[str, int], *, careful: bool = True) -> dict[str, int]:
    """A number for each id, from its time, that none of the others has; and no row either, if `careful`."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    waiting: Iterable[str] = wanted
    while waiting:
        for row_id in waiting:
            found[row_id] = _free(found.get(row_id, first_of(wanted[row_id]) | crc32(row_id.encode()) % 2048), taken)
        if not careful:
            return found
        by_number = {found[row_id]: row_id for row_id in waiting}
        in_the_way = _in_use(connection, list(by_number))
        waiting = [by_number[n] for n in in_the_way]
        for start in {n >> _WINDOW << _WINDOW for n in in_the_way}:  # rare, but a clock can stand still
            taken |= _in_use_between(connection, start, start + (2 << _WINDOW))
    return found


def _free(n: int, taken: set[int]) -> int:
    while n in taken:
        n += 1
    taken.add(n)
    return n


def _in_use(connection: Connection, candidates: list[int]) -> list[int]:
    found: list[int] = []
    for start in range(0, len(candidates), AT_ONCE):
        query = select(activity.c.n).where(activity.c.n.in_(candidates[start : start + AT_ONCE]))
        found += connection.execute(query).scalars()
    return found


def _in_use_between(connection: Connection, first: int, last: int) -> set[int]:
    return set(connection.execute(select(activity.c.n).where(activity.c.n.between(first, last))).scalars())
