"""One small number for each tool, all of them in one large integer: a lane of two bytes each, the first tool's lowest.

Adding two such integers adds up for every tool at once, in about the time it takes to copy them. A mask is one with a 1
in the lanes of some tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

TOP: Final = 0x7FFF
"""The most a lane may hold: a bit is left over, by which `held` tells the empty ones."""
_FULL: Final = 0xFFFF
_IN: Final = b"\x01\x00"
_OUT: Final = b"\x00\x00"
_BELOW: Final = tuple(bytes(range(level)) for level in range(256))
_REACHED: Final = tuple(bytes(level) + b"\x01" * (256 - level) for level in range(256))


def packed(values: Mapping[int, float], numbers: Mapping[float, int], size: int) -> int:
    """From the places of those tools that have a value, and the number that each value stands for."""
    pieces = {value: number.to_bytes(2, "little") for value, number in numbers.items()}
    lanes = [_OUT] * size
    for place, value in values.items():
        lanes[place] = pieces[value]
    return int.from_bytes(b"".join(lanes), "little")


def marks(these: Iterable[bool]) -> bytes:
    """A piece of a mask; pieces are put together as bytes, and made a number by `mask`."""
    return b"".join([_IN if each else _OUT for each in these])


def mask(marked: bytes) -> int:
    return int.from_bytes(marked, "little")


def every(size: int) -> int:
    return mask(_IN * size)


def held(lanes: int, every: int) -> int:
    """The mask of the tools whose number is not zero: with `TOP` added, those reach the bit that is left over."""
    return ((lanes + every * TOP) >> 15) & every


def holds(mask: int, place: int) -> bool:
    return bool(mask >> (16 * place) & 1)


def levels(lanes: int, most: int, among: int, size: int) -> bytes:
    """A byte for each tool: how much of `most` it has, 1 to 255, and 0 for those that are not `among`."""
    stretched = (lanes & among * _FULL) * _stretch(most) + among * 0xFF
    return stretched.to_bytes(2 * size, "little")[1::2]


def level_of(number: int, most: int) -> int:
    """The level at which `levels` shows this number."""
    return max(1, (number * _stretch(most) + 0xFF) >> 8)


def _stretch(most: int) -> int:
    return 0xFF00 // most


def reached_by(levels: bytes, many: int) -> int:
    """The highest level that so many tools reach; the lowest, if there are not as many."""
    low, high = 1, 255
    while low < high:
        middle = (low + high + 1) // 2
        upper = levels.translate(None, _BELOW[middle])
        if len(upper) >= many:
            low, levels = middle, upper
        else:
            high = middle - 1
    return low


def at_least(levels: bytes, level: int) -> Iterator[int]:
    """The places of the tools that reach this level."""
    reached = levels.translate(_REACHED[level])
    place = reached.find(1)
    while place >= 0:
        yield place
        place = reached.find(1, place + 1)
