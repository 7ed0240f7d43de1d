"""Which tools fit a query: BM25 over the segments of all servers (FIND-3).

Ranking visits as few tools as it can (Turtle and Flood's MaxScore): the words that weigh most come first, and
once the rest together could not lift a tool that has none of the first into the cut, the rest is only looked
up for the tools that are still in the running. The result is the same as that of adding everything up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice, pairwise
from math import log
from types import MappingProxyType
from typing import Final, NamedTuple

from mcpproxy_py.core.segments import PEAK, Segment, count, counted, joined, owners, segment
from mcpproxy_py.core.synonyms import implied, senses, spelled_out, topics
from mcpproxy_py.core.values import Tool
from mcpproxy_py.core.words import lookalikes, tokens

__all__ = ["Accept", "Hit", "Index", "Ranking", "Segment", "segment"]

Accept = Callable[[Tool], bool]
Scores = dict[int, float]  # by the tool's number in the index

# What counts for a word that is meant, hinted at or misspelled, as a share of what it would count if it were there.
SENSE_SHARE: Final = 0.8
TOPIC_SHARE: Final = 0.3
LOOKS_SHARE: Final = 0.5
# A sense that more than one in so many tools have says little, and costs most.
COMMON: Final = 4
QUERY_CHARS: Final = 1_000
QUERY_TERMS: Final = 48
# How many words an index remembers the tools of: a bound for what strangers' queries can make it hold.
PARTS: Final = 512
# Where the tools of a word are parted, as shares of the most that any gets for it.
LAYERS: Final = (0.3, 0.6)
# How far what is still to come must have sunk before looking for the cut, and again.
DUE: Final = 0.5
# Sums of the same floats in another order differ by less than this; a bound has to clear it to be believed.
SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Hit:
    """`score` is the share of the best score that any tool could have for the query."""

    tool: Tool
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """`total` counts every accepted tool that matched, `hits` are the best of them."""

    hits: tuple[Hit, ...] = ()
    total: int = 0


class Layer(NamedTuple):
    """Tools that get about the same: the most any gets, how much less the next layer has, and what each gets."""

    most: float
    drop: float
    impacts: dict[int, float]


class Part(NamedTuple):
    """A word of a query: what it is worth, what tools get for it, best first, and who gets any, a byte for each."""

    name: str
    worth: float
    layers: tuple[Layer, ...]
    owners: int


class Index:
    """The segments of all servers as one collection. An update gives a new index.

    What tools get for a word is joined over the segments when it is first asked for, and kept: a refresh makes the
    next query somewhat slower, and no index is ever built for words that nobody uses.
    """

    __slots__ = ("_frequencies", "_parts", "_segments", "_tools", "_vocabulary")

    def __init__(self, segments: Mapping[str, Segment], *, frequencies: Mapping[str, int] | None = None) -> None:
        """`frequencies` is for `with_segment`, which knows how many tools contain each term already."""
        self._segments = MappingProxyType(dict(segments))
        self._tools = [tool for part in self._segments.values() for tool in part.tools]
        self._frequencies = counted(self._segments.values()) if frequencies is None else frequencies
        self._parts: dict[tuple[str, ...], Part] = {}
        self._vocabulary: list[str] = []

    @property
    def segments(self) -> Mapping[str, Segment]:
        return self._segments

    def with_segment(self, server: str, segment: Segment | None) -> Index:
        """This index with one server's tools replaced, or gone. The other segments are taken over as they are."""
        others = {name: part for name, part in self._segments.items() if name != server}
        frequencies = dict(self._frequencies)
        if (old := self._segments.get(server)) is not None:
            count(frequencies, old, -1)
        if segment is not None:
            others[server] = segment
            count(frequencies, segment, 1)
        return Index(others, frequencies=frequencies)

    def rank(self, query: str, limit: int, accept: Accept | None = None) -> Ranking:
        """The best `limit` of the tools that `accept` lets through, best first, ties by name.

        Filtering comes before the cut, so a filter never leaves fewer hits than there are matches (FIND-2).
        """
        asked = self._asked(query)
        accepted = None if accept is None else self._accepted(asked, accept)
        total = _matches(asked) if accepted is None else len(accepted)
        if not total or limit < 1:
            return Ranking((), total)
        best = PEAK * sum(part.worth for part in asked)
        rows = [(score, self._tools[number]) for number, score in _best(_layers(asked), limit, accepted).items()]
        rows.sort(key=lambda row: (-row[0], row[1].full_name))
        return Ranking(tuple(Hit(tool, min(score / best, 1.0)) for score, tool in rows[:limit]), total)

    def _asked(self, query: str) -> list[Part]:
        """The parts of the query, those included that no tool has: they are part of what was asked, and a query
        that is answered in half should not look answered in full."""
        words = tuple(islice(dict.fromkeys(spelled_out(tokens(query, QUERY_CHARS))), QUERY_TERMS))
        asked = [self._part((word,)) for word in words]
        asked.extend(
            self._part(pair) for pair in pairwise(words) if senses(*pair) or "".join(pair) in self._frequencies
        )
        if any(part.layers for part in asked):  # a shape alone finds nothing
            asked.extend(self._part((sense,)) for sense in implied(query[:QUERY_CHARS]))
        return asked

    def _part(self, words: tuple[str, ...]) -> Part:
        found = self._parts.get(words)
        if found is None:
            if len(self._parts) >= PARTS:
                self._parts.clear()
            found = self._parts[words] = self._blended(words)
        return found

    def _blended(self, words: tuple[str, ...]) -> Part:
        """For each tool the word itself or, at a discount, what means or looks like it: whichever gives most."""
        impacts: dict[int, float] = {}
        most = self._idf(words[0]) if len(words) == 1 else 0.0
        for term, share in self._meanings(words):
            worth = share * self._idf(term)
            most = max(most, worth)
            for number, impact in joined(term, self._segments.values()):
                impacts[number] = max(impacts.get(number, 0.0), worth * impact)
        return Part("_".join(words), most, _layered(impacts), owners(impacts, len(self._tools)))

    def _meanings(self, words: tuple[str, ...]) -> list[tuple[str, float]]:
        """The terms that some tool has and that say what these words say, and how much of it. What is only about
        the same trade, or only looks the same, is for words that nothing better is known for."""
        means = [("".join(words), 1.0), *((sense, SENSE_SHARE) for sense in senses(*words))]
        vaguer = [(topic, TOPIC_SHARE) for topic in topics(*words)]
        if found := self._known(means) or self._known(vaguer):
            return found
        guessed = len(words) == 1 and len(means) == 1 and not vaguer
        return [(term, LOOKS_SHARE) for term in self._lookalikes(words[0])] if guessed else []

    def _known(self, terms: list[tuple[str, float]]) -> list[tuple[str, float]]:
        """Those that some tool has; a sense that most tools share tells them apart as little as a word left out."""
        found = [(term, share) for term, share in terms if term in self._frequencies]
        most = len(self._tools) / COMMON
        return [row for row in found if row[1] == 1.0 or self._frequencies[row[0]] <= most] or found

    def _lookalikes(self, word: str) -> list[str]:
        self._vocabulary = self._vocabulary or sorted(self._frequencies)
        return lookalikes(word, self._frequencies, self._vocabulary)

    def _idf(self, term: str) -> float:
        frequency = self._frequencies.get(term, 0)
        return log(1 + (len(self._tools) - frequency + 0.5) / (frequency + 0.5))

    def _accepted(self, parts: list[Part], accept: Accept) -> Scores:
        """The matching tools that the filter lets through, none of them scored yet."""
        matched = set[int]().union(*(layer.impacts for part in parts for layer in part.layers))
        return {number: 0.0 for number in matched if accept(self._tools[number])}


def _layered(impacts: Mapping[int, float]) -> tuple[Layer, ...]:
    """Cut where what tools get falls below a share of the most, so that the many that get little can be left out."""
    most = max(impacts.values(), default=0.0)
    parts: list[dict[int, float]] = [{} for _ in range(len(LAYERS) + 1)]
    bounds = [most * share for share in LAYERS]
    for number, impact in impacts.items():
        parts[bisect_left(bounds, impact)][number] = impact
    filled = [part for part in reversed(parts) if part]
    tops = [max(part.values()) for part in filled] + [0.0]
    return tuple(Layer(top, top - below, part) for part, (top, below) in zip(filled, pairwise(tops), strict=True))


def _layers(parts: Iterable[Part]) -> list[Layer]:
    """Those that can add most first; the order depends on nothing but the tools and the query."""
    rows = [(-layer.most, part.name, layer) for part in parts for layer in part.layers]
    return [row[2] for row in sorted(rows, key=lambda row: row[:2])]


def _matches(parts: Iterable[Part]) -> int:
    """How many tools have any of the parts."""
    matched = 0
    for part in parts:
        matched |= part.owners
    return matched.bit_count()


def _best(layers: list[Layer], limit: int, accepted: Scores | None) -> Scores:
    """The scores of the best `limit` tools, and of all that tie with the last of them.

    `ahead` is the most that layers still to come can add. When the cut takes more already, no tool without any of
    the layers so far can make it any more, and of the others only those that it can lift.
    """
    scores: Scores = {}
    running = accepted
    ahead = sum(layer.drop for layer in layers)
    due = ahead * DUE
    for layer in layers:
        _visit(layer.impacts, scores, running)
        ahead -= layer.drop
        if ahead < due:
            due = ahead * DUE
            if (least := _cut(scores, limit)) > ahead + SLACK:
                lowest = least - ahead - SLACK
                running = scores = {number: score for number, score in scores.items() if score >= lowest}
    return scores


def _visit(impacts: Mapping[int, float], scores: Scores, running: Scores | None) -> None:
    """Add what each tool gets to its score if it is in the running. The hot loop."""
    if running is not None:
        impacts = {number: impacts[number] for number in impacts.keys() & running.keys()}
    elif not scores:
        return scores.update(impacts)
    get = scores.get
    for number, impact in impacts.items():
        scores[number] = get(number, 0.0) + impact


def _cut(scores: Scores, limit: int) -> float:
    """The score of the last tool that makes the cut so far; zero while there is room."""
    best = nlargest(limit, scores.values())
    return best[-1] if len(best) == limit else 0.0
