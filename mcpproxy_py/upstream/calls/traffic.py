"""What went to one server and how long it took, in buckets whose number does not grow with the traffic."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from mcpproxy_py.core.values import ServerState
from mcpproxy_py.errors import Code

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds. From a local server that looks something up to a remote one that thinks."""


class Traffic:
    """Of one server since the gateway started, whatever became of its connections."""

    __slots__ = ("_buckets", "failures", "seconds")

    def __init__(self) -> None:
        self.failures: Counter[Code] = Counter()
        self.seconds = 0.0
        self._buckets = [0] * (len(BOUNDS) + 1)

    def took(self, seconds: float) -> None:
        """One request has come back, or was given up, after this time."""
        self._buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def requests(self) -> int:
        return sum(self._buckets)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """How many took at most so many seconds; the last bound is infinite."""
        return zip((*BOUNDS, float("inf")), accumulate(self._buckets), strict=True)


@dataclass(frozen=True, slots=True)
class Measured:
    """One server at this moment, for whoever watches it."""

    name: str
    state: ServerState
    in_flight: int
    waiting: int
    sessions: int
    restarts: int
    ignored: Mapping[str, int]
    traffic: Traffic
