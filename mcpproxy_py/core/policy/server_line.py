"""The line that names the servers in reach, for agents: they do not search for what they do not know of (SURF-11).

Every agent pays for it on each turn, so it has a budget. There is no tokenizer here. What a name costs is counted with
the length that pieces of such names have; for names as people choose them that is a little more than they cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

BUDGET: Final = 54
"""Tokens for the names. With the words around them, twenty names stay below 60; a test measures it."""
_LETTERS: Final = 5
"""Of a token, at least, in names that consist of words."""
_PIECES: Final = re.compile(r"[a-z]+|[0-9]{1,3}|[_-]+")


def server_line(names: Iterable[str]) -> str:
    """One sentence, always the same for the same names, or nothing where there are none."""
    ordered = sorted(names)
    shown: list[str] = []
    left = BUDGET
    for name in ordered:
        left -= cost(name)
        if left < 0:
            break
        shown.append(name)
    if not shown:
        return ""
    more = len(ordered) - len(shown)
    return f"Servers: {' '.join(shown)}{f' and {more} more' if more else ''}."


def cost(name: str) -> int:
    """About how many tokens a server's name takes."""
    return sum(-(-len(piece) // _LETTERS) if piece.isalpha() else 1 for piece in _PIECES.findall(name))
