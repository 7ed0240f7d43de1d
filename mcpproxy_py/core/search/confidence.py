"""How sure it is that a result is the right tool (FIND-5): the share of results of this score that were.

Measured on the halves for tuning of `tests.bench.strangers`, with queries among them that no tool is for, once for
words alone and once for words and meaning. So 0.5 says the same in both: of as many first results every second one was
right. The first result is far likelier to be right than a later one of the same score.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

SCORES: Final = (0.0, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
FIRST: Final = {
    False: (0.0, 0.04, 0.10, 0.17, 0.24, 0.41, 0.56, 0.69, 0.71, 0.73, 0.77, 0.83, 0.95, 1.0),
    True: (0.0, 0.01, 0.02, 0.05, 0.11, 0.28, 0.50, 0.58, 0.69, 0.77, 0.79, 0.83, 0.95, 1.0),
}
LATER: Final = {
    False: (0.0, 0.01, 0.02, 0.02, 0.03, 0.05, 0.08, 0.08, 0.09, 0.12, 0.13, 0.15, 0.43, 0.5),
    True: (0.0, 0.01, 0.02, 0.02, 0.02, 0.03, 0.04, 0.07, 0.08, 0.11, 0.13, 0.19, 0.43, 0.5),
}
"""By whether meaning counted."""
FITS: Final = 0.1
"""A first result that is less sure than this fits nobody."""


def confidence(score: float, place: int, *, by_meaning: bool) -> float:
    """0 to 1, for the result at this place, counted from 0; never more than for the one before it."""
    known = (LATER if place else FIRST)[by_meaning]
    at = min(bisect_right(SCORES, score), len(SCORES) - 1)
    low, high = SCORES[at - 1], SCORES[at]
    share = known[at - 1] + (known[at] - known[at - 1]) * (score - low) / (high - low)
    return round(min(max(share, 0.0), 1.0), 2)
