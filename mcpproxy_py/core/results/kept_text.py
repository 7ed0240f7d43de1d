"""A long text as it is kept, in the parts in which it came, and how it is read on: in pieces, by their place in bytes.

All that is said here of a place is a number of bytes from its beginning, so the pieces put together are the whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from mcpproxy_py.core.results import boundaries
from mcpproxy_py.core.results.tokens import MOST_BYTES, Steps, within

PIECE: Final = 32 * 1024
"""Bytes of JSON after which it is known whether one is in a string."""
MOST: Final = 49_000
"""Bytes of a piece. Claude Code hands 50,000 characters to a model where a tool's definition does not say otherwise."""


class KeptText:
    def __init__(self, parts: Sequence[bytes]) -> None:
        self.text = b"".join(parts)
        self.starts = [0, *accumulate(map(len, parts))][: max(1, len(parts))]
        self._strings: dict[int, bytearray] = {}
        self._no_json: set[int] = set()

    def __len__(self) -> int:
        return len(self.text)

    def part_at(self, at: int) -> tuple[int, int, int]:
        """Which part this is in, where it begins and where it ends."""
        number = bisect_right(self.starts, at) - 1
        after = number + 1
        return number, self.starts[number], self.starts[after] if after < len(self.starts) else len(self.text)

    def is_json(self, number: int, begin: int, end: int) -> bool:
        return number not in self._no_json and boundaries.looks_like_json(self.text, begin, end)

    def is_no_json(self, number: int) -> None:
        """It only began like it."""
        self._no_json.add(number)

    def states(self, number: int, begin: int, end: int) -> Steps[bytearray]:
        """What `boundaries.in_string_at` says of a part, found out once."""
        states = self._strings.get(number)
        if states is None:
            states = yield from boundaries.in_string_at(self.text, begin, end, PIECE)
            self._strings[number] = states
        return states

    def in_string(self, at: int) -> Steps[bool]:
        number, begin, end = self.part_at(at)
        states = yield from self.states(number, begin, end)
        piece = (at - begin) // PIECE
        return boundaries.is_in_string(self.text, begin + piece * PIECE, at, states[piece])

    def piece(self, begin: int, budget: int) -> Steps[tuple[int, int]]:
        """Where a piece of so many tokens begins and ends."""
        begin = boundaries.character(self.text, begin)
        most = yield from within(self.text, begin, budget, min(MOST, budget * MOST_BYTES))
        if most >= len(self.text):
            return begin, len(self.text)
        number, start, end = self.part_at(most)
        if start > boundaries.edge(begin, most):
            return begin, start
        first = max(begin, start)
        if not self.is_json(number, start, end):
            return begin, boundaries.of_lines(self.text, first, most)
        in_string = (yield from self.in_string(first)) if first > start else False
        return begin, (yield from boundaries.inside_json(self.text, first, most, in_string))
