"""Which tools fit a query: BM25 over the segments of all servers (FIND-3).

Ranking visits as few tools as it can (Turtle and Flood's MaxScore): the words that weigh most come first, and
once the rest together could not lift a tool that has none of the first into the cut, the rest is only looked
up for the tools that are still in the running. The result is the same as that of adding everything up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from math import log
from types import MappingProxyType
from typing import Final, NamedTuple

from mcpproxy_py.core.segments import PEAK, Segment, segment
from mcpproxy_py.core.synonyms import implied, senses, spelled_out
from mcpproxy_py.core.values import Tool
from mcpproxy_py.core.words import tokens

__all__ = ["Accept", "Hit", "Index", "Ranking", "Segment", "segment"]

Accept = Callable[[Tool], bool]
Scores = dict[int, float]
"""By the tool's number in the index."""

SENSE_WEIGHT: Final = 0.7
QUERY_CHARS: Final = 1_000
QUERY_TERMS: Final = 48
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


class Postings(NamedTuple):
    """A term over all segments: what it says of each tool, the greatest of that, and who has it, a byte for each."""

    impacts: dict[int, float]
    peak: float
    owners: int


class Term(NamedTuple):
    """A term of a query: its weight, the most it can add to a score, and where it occurs."""

    weight: float
    most: float
    postings: Postings


class Index:
    """The segments of all servers as one collection. An update gives a new index.

    Postings are joined over the segments when a term is first asked for and kept as long as this index: a refresh
    costs the next query some microseconds, and no index is ever built for words that nobody uses.
    """

    __slots__ = ("_frequencies", "_joined", "_segments", "_tools")

    def __init__(self, segments: Mapping[str, Segment], *, frequencies: Mapping[str, int] | None = None) -> None:
        """`frequencies` is for `with_segment`, which knows how many tools contain each term already."""
        self._segments = MappingProxyType(dict(segments))
        self._tools = [tool for part in self._segments.values() for tool in part.tools]
        self._frequencies = _counted(self._segments.values()) if frequencies is None else frequencies
        self._joined: dict[str, Postings] = {}

    @property
    def segments(self) -> Mapping[str, Segment]:
        return self._segments

    def with_segment(self, server: str, segment: Segment | None) -> Index:
        """This index with one server's tools replaced, or gone. The other segments are taken over as they are."""
        others = {name: part for name, part in self._segments.items() if name != server}
        frequencies = dict(self._frequencies)
        if (old := self._segments.get(server)) is not None:
            _count(frequencies, old, -1)
        if segment is not None:
            others[server] = segment
            _count(frequencies, segment, 1)
        return Index(others, frequencies=frequencies)

    def rank(self, query: str, limit: int, accept: Accept | None = None) -> Ranking:
        """The best `limit` of the tools that `accept` lets through, best first, ties by name.

        Filtering comes before the cut, so a filter never leaves fewer hits than there are matches (FIND-2).
        """
        weights = self._weights(query)
        terms = self._terms(weights)
        accepted = None if accept is None else self._accepted(terms, accept)
        total = _matches(terms) if accepted is None else len(accepted)
        if not total or limit < 1:
            return Ranking((), total)
        best = PEAK * sum(weights.values())
        rows = [(score, self._tools[number]) for number, score in _best(terms, limit, accepted).items()]
        rows.sort(key=lambda row: (-row[0], row[1].full_name))
        return Ranking(tuple(Hit(tool, min(score / best, 1.0)) for score, tool in rows[:limit]), total)

    def _weights(self, query: str) -> dict[str, float]:
        """What each term of the query is worth. A term that no tool has counts too: it is part of what was asked,
        and a query that is answered in half should not look answered in full."""
        words = tuple(islice(dict.fromkeys(spelled_out(tokens(query, QUERY_CHARS))), QUERY_TERMS))
        weights = {word: self._idf(word) for word in words}
        hints = [sense for word in words for sense in senses(word)]
        if any(term in self._frequencies for term in (*words, *hints)):  # a shape alone finds nothing
            hints.extend(implied(query[:QUERY_CHARS]))
        return {hint: SENSE_WEIGHT * self._idf(hint) for hint in hints} | weights

    def _idf(self, term: str) -> float:
        frequency = self._frequencies.get(term, 0)
        return log(1 + (len(self._tools) - frequency + 0.5) / (frequency + 0.5))

    def _terms(self, weights: Mapping[str, float]) -> list[Term]:
        """The terms that occur at all, those that can add most first; the order depends on nothing but the tools."""
        rows: list[tuple[float, str, Term]] = []
        for term, weight in weights.items():
            if term in self._frequencies:
                postings = self._postings(term)
                most = weight * postings.peak
                rows.append((-most, term, Term(weight, most, postings)))
        return [row[2] for row in sorted(rows, key=lambda row: row[:2])]

    def _postings(self, term: str) -> Postings:
        found = self._joined.get(term)
        if found is None:
            found = self._joined[term] = _joined(term, self._segments.values(), len(self._tools))
        return found

    def _accepted(self, terms: list[Term], accept: Accept) -> Scores:
        """The matching tools that the filter lets through, none of them scored yet."""
        matched = set[int]().union(*(term.postings.impacts for term in terms))
        return {number: 0.0 for number in matched if accept(self._tools[number])}


def _counted(segments: Iterable[Segment]) -> dict[str, int]:
    frequencies: dict[str, int] = {}
    for part in segments:
        _count(frequencies, part, 1)
    return frequencies


def _count(frequencies: dict[str, int], part: Segment, sign: int) -> None:
    for term, impacts in part.impacts.items():
        count = frequencies.get(term, 0) + sign * len(impacts)
        if count:
            frequencies[term] = count
        else:
            del frequencies[term]


def _joined(term: str, segments: Iterable[Segment], size: int) -> Postings:
    impacts: dict[int, float] = {}
    first = 0
    for part in segments:
        if theirs := part.impacts.get(term):
            impacts.update({first + number: impact for number, impact in theirs.items()})
        first += len(part.tools)
    owners = bytearray(size)
    for number in impacts:
        owners[number] = 1
    return Postings(impacts, max(impacts.values()), int.from_bytes(owners, "little"))


def _matches(terms: list[Term]) -> int:
    """How many tools have any of the terms."""
    owners = 0
    for term in terms:
        owners |= term.postings.owners
    return owners.bit_count()


def _best(terms: list[Term], limit: int, accepted: Scores | None) -> Scores:
    """The scores of the best `limit` tools, and of all that tie with the last of them.

    `ahead` is the most that the terms still to come can add. When it is less than what the cut takes already, no
    tool that has none of the terms so far can make it any more, and of the others only those that it can lift.
    """
    scores: Scores = {}
    running = accepted
    ahead = sum(term.most for term in terms)
    for term in terms:
        _visit(term, scores, running)
        ahead -= term.most
        if ahead < max(scores.values(), default=0.0) and (least := _cut(scores, limit)) > ahead + SLACK:
            running = scores = _above(scores, least - ahead - SLACK)
    return scores


def _visit(term: Term, scores: Scores, running: Scores | None) -> None:
    """Add the term to the score of every tool that has it and is in the running. The hot loop."""
    weight, impacts = term.weight, term.postings.impacts
    if running is not None:
        impacts = {number: impacts[number] for number in impacts.keys() & running.keys()}
    for number, impact in impacts.items():
        scores[number] = scores.get(number, 0.0) + weight * impact


def _cut(scores: Scores, limit: int) -> float:
    """The score of the last tool that makes the cut so far; zero while there is room."""
    best = nlargest(limit, scores.values())
    return best[-1] if len(best) == limit else 0.0


def _above(scores: Scores, least: float) -> Scores:
    return {number: score for number, score in scores.items() if score >= least}
