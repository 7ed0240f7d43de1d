"""What of a long text holds certain words: its lines, or the items of its JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mcpproxy_py.core.results.boundaries import CLOSING, REST, STEP, TOKEN, character
from mcpproxy_py.core.results.kept_text import MOST, PIECE, KeptText
from mcpproxy_py.core.results.tokens import Steps, tokens

LARGEST: Final = 2000
"""Bytes of an item of JSON that is given back whole; of what is larger, each of its items is one."""
MOST_WORDS: Final = 32
MOST_PIECES: Final = 128
"""Pieces that are looked at closely for one answer."""
AROUND: Final = 200
"""Bytes before and after a word that stands in a longer line."""
OVERHEAD: Final = 8
"""Tokens of the place that stands before each."""


class Unit(NamedTuple):
    begin: int
    end: int


class Matches(NamedTuple):
    units: Sequence[tuple[int, bytes]]
    """By their place; of long ones, what is around the words."""
    searched: int
    """Up to where."""


def words_of(query: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(query.casefold().split()))


def matches(kept: KeptText, words: Sequence[str], begin: int, budget: int) -> Steps[Matches]:
    """Units that hold all the words, in any case, from `begin` on."""
    found: list[tuple[int, bytes]] = []
    looked, left, at = 0, MOST, character(kept.text, begin)
    longest = max(len(word.encode()) for word in words)
    overlap = max(LARGEST, longest)
    while at < len(kept.text):
        number, start, end = kept.part_at(at)
        window = start + (at - start) // PIECE * PIECE
        stop = min(window + PIECE, end)
        seen = min(stop + overlap, end)
        yield
        folded = kept.text[window:seen].decode(errors="replace").casefold()
        if all(word in folded for word in words):
            looked += 1
            if kept.is_json(number, start, end):
                states = yield from kept.states(number, start, end)
                units = json_units(kept.text, window, seen, states[(window - start) // PIECE])
            else:
                units = lines(kept.text, start, window, seen, end)
            taken = at
            for unit in units:
                if unit is None:
                    yield
                    continue
                if not taken <= unit.begin < stop and not (unit.begin < taken < unit.end and not found):
                    continue
                shown = _shown(kept.text, unit, words)
                if shown is None:
                    continue
                budget, left = budget - tokens(shown) - OVERHEAD, left - len(shown) - OVERHEAD
                if min(budget, left) < 0 and found:
                    return Matches(found, unit.begin)
                found.append((unit.begin, shown))
                taken = unit.begin + 1
        at = stop
        if looked == MOST_PIECES:
            break
    return Matches(found, min(at, len(kept.text)))


def _shown(text: bytes, unit: Unit, words: Sequence[str]) -> bytes | None:
    """What is shown of a unit, if all the words are in it."""
    whole = text[unit.begin : unit.end]
    folded = whole.decode(errors="replace").casefold()
    if not all(word in folded for word in words):
        return None
    if len(whole) <= LARGEST:
        return whole
    pieces: list[bytes] = []
    for word in words:
        found = re.search(re.escape(word), whole.decode(errors="replace"), re.IGNORECASE)
        where = len(whole.decode(errors="replace")[: found.start()].encode()) if found else 0
        first = character(whole, max(0, where - AROUND))
        pieces.append(whole[first : character(whole, min(len(whole), where + len(word.encode()) + AROUND))])
    return " … ".join(dict.fromkeys(piece.decode(errors="replace") for piece in pieces)).encode()


def lines(text: bytes, start: int, begin: int, end: int, last: int) -> Iterator[Unit]:
    """Those of a window. One that began before it belongs to the window before, if that could see its end."""
    if begin > start and text[begin - 1 : begin] != b"\n":
        found = text.find(b"\n", begin, end)
        if 0 <= found < begin + LARGEST:
            begin = found + 1
    while begin < end:
        found = text.find(b"\n", begin, end)
        stop = end if found < 0 else found
        if stop > begin:
            yield Unit(begin, stop)
        begin = stop + 1


def json_units(text: bytes, begin: int, end: int, state: int) -> Iterator[Unit | None]:
    """Of a window of JSON: the largest items and members that are not too large, and strings that are. `None` in
    between, so that others get their turn."""
    found: list[Unit] = []
    open_at: list[int] = []
    element = -1
    first = begin
    if state:
        rest = REST.match(text, begin + (state == 2), end)
        begin = rest.end() if rest else end
        if begin - first > LARGEST:
            found.append(Unit(first, begin))
    for number, token in enumerate(TOKEN.finditer(text, begin, end), 1):
        if not number % STEP:
            yield None
        sign, at = token[0], token.start()
        if sign in CLOSING:
            open_at.append(element if element >= 0 else at)
            element = -1
        elif sign == b"]" or sign == b"}":
            element = -1
            if open_at and token.end() - (started := open_at.pop()) <= LARGEST:
                while found and found[-1].begin >= started:
                    found.pop()
                found.append(Unit(started, token.end()))
        elif sign == b",":
            element = -1
        elif sign != b":":
            if element < 0:
                element = at
            elif found and found[-1].begin == element:
                found.pop()  # a key, which goes with its value
            found.append(Unit(element, token.end()))
    yield from found
