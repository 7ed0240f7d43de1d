"""The number of a row: when it was asked, in microseconds, and then some bits that keep two of one moment apart.

One integer is the key, the order of pages and the time. So no index has to hold a time and an id beside what it is
for, a page is cut off with one comparison, and a text search gives its hits in the order they are shown in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from zlib import crc32

from sqlalchemy import Connection, select

from mcpproxy_py.store.database.tables import activity

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
