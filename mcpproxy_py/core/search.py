"""Which tools fit a query: BM25 over the segments of all servers (FIND-3).

Ranking visits as few tools as it can (Turtle and Flood's MaxScore): the words that weigh most come first, and
once the rest together could not lift a tool that has none of the first into the cut, the rest is only looked
up for the tools that are still in the running. The result is the same as that of adding everything up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice, pairwise
from math import log
from types import MappingProxyType
from typing import Final, NamedTuple

from mcpproxy_py.core.segments import PEAK, Segment, segment
from mcpproxy_py.core.synonyms import implied, senses, spelled_out
from mcpproxy_py.core.values import Tool
from mcpproxy_py.core.words import one_edit_away, tokens

__all__ = ["Accept", "Hit", "Index", "Ranking", "Segment", "segment"]

Accept = Callable[[Tool], bool]
Scores = dict[int, float]
"""By the tool's number in the index."""

SENSE_SHARE: Final = 0.7
TOPIC_SHARE: Final = 0.3
LOOKS_SHARE: Final = 0.5
REST = 0.0
FUZZY = True
SHORTEST: Final = 6
LONGEST: Final = 20
LOOKALIKES: Final = 5
PARTS: Final = 4_000
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


class Part(NamedTuple):
    """A word of a query: what it is worth, what each tool gets for it, the greatest of that, and who gets any, a
    byte for each."""

    name: str
    worth: float
    impacts: dict[int, float]
    most: float
    owners: int


class Index:
    """The segments of all servers as one collection. An update gives a new index.

    Postings are joined over the segments when a term is first asked for and kept as long as this index: a refresh
    costs the next query some microseconds, and no index is ever built for words that nobody uses.
    """

    __slots__ = ("_frequencies", "_parts", "_segments", "_sorted", "_tools")

    def __init__(self, segments: Mapping[str, Segment], *, frequencies: Mapping[str, int] | None = None) -> None:
        """`frequencies` is for `with_segment`, which knows how many tools contain each term already."""
        self._segments = MappingProxyType(dict(segments))
        self._tools = [tool for part in self._segments.values() for tool in part.tools]
        self._frequencies = _counted(self._segments.values()) if frequencies is None else frequencies
        self._parts: dict[tuple[str, ...], Part] = {}
        self._sorted: list[str] | None = None

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
        asked = self._asked(query)
        terms = sorted((part for part in asked if part.impacts), key=lambda part: (-part.most, part.name))
        accepted = None if accept is None else self._accepted(terms, accept)
        total = _matches(terms) if accepted is None else len(accepted)
        if not total or limit < 1:
            return Ranking((), total)
        best = PEAK * sum(part.worth for part in asked)
        rows = [(score, self._tools[number]) for number, score in _best(terms, limit, accepted).items()]
        rows.sort(key=lambda row: (-row[0], row[1].full_name))
        return Ranking(tuple(Hit(tool, min(score / best, 1.0)) for score, tool in rows[:limit]), total)

    def _asked(self, query: str) -> list[Part]:
        """The parts of the query, those included that no tool has: they are part of what was asked, and a query
        that is answered in half should not look answered in full."""
        words = tuple(islice(dict.fromkeys(spelled_out(tokens(query, QUERY_CHARS))), QUERY_TERMS))
        asked = [self._part((word,)) for word in words]
        asked.extend(part for pair in pairwise(words) if (part := self._part(pair)).impacts)
        if any(part.impacts for part in asked):  # a shape alone finds nothing
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
        """What a tool has of the word itself or, at a discount, of what means or looks like it; whatever counts most."""
        impacts: dict[int, float] = {}
        most = self._idf(words[0]) if len(words) == 1 and words[0][0] != "~" else 0.0
        for term, share in self._meanings(words):
            worth = share * self._idf(term)
            most = max(most, worth)
            for number, impact in _joined(term, self._segments.values()):
                impacts[number] = max(impacts.get(number, 0.0), worth * impact) + (REST*min(impacts.get(number, 0.0), worth * impact))
        return Part("_".join(words), most, impacts, max(impacts.values(), default=0.0), _owners(impacts, len(self._tools)))

    def _meanings(self, words: tuple[str, ...]) -> list[tuple[str, float]]:
        """The terms that some tool has and that say what these words say, and how much of it."""
        means = [("".join(words), 1.0), *((sense, TOPIC_SHARE if sense[1]=="~" else SENSE_SHARE) for sense in senses(*words))]
        known = [(term, share) for term, share in means if term in self._frequencies]
        if known or len(means) > 1 or len(words) > 1:
            return known
        return [(term, LOOKS_SHARE) for term in self._lookalikes(words[0])]

    def _lookalikes(self, word: str) -> list[str]:
        """Terms that a word nobody knows may be a slip of, or begin."""
        if not FUZZY or not SHORTEST <= len(word) <= LONGEST or not word.isalpha():
            return []
        if slips := sorted(near for near in one_edit_away(word) if near in self._frequencies):
            return slips
        if self._sorted is None:
            self._sorted = sorted(self._frequencies)
        at = bisect_left(self._sorted, word)
        return [term for term in self._sorted[at : at + LOOKALIKES] if term.startswith(word)]

    def _idf(self, term: str) -> float:
        frequency = self._frequencies.get(term, 0)
        return log(1 + (len(self._tools) - frequency + 0.5) / (frequency + 0.5))

    def _accepted(self, parts: list[Part], accept: Accept) -> Scores:
        """The matching tools that the filter lets through, none of them scored yet."""
        matched = set[int]().union(*(part.impacts for part in parts))
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


def _joined(term: str, segments: Iterable[Segment]) -> Iterator[tuple[int, float]]:
    first = 0
    for part in segments:
        if theirs := part.impacts.get(term):
            for number, impact in theirs.items():
                yield first + number, impact
        first += len(part.tools)


def _owners(impacts: Iterable[int], size: int) -> int:
    owners = bytearray(size)
    for number in impacts:
        owners[number] = 1
    return int.from_bytes(owners, "little")


def _matches(terms: list[Part]) -> int:
    """How many tools have any of the terms."""
    owners = 0
    for term in terms:
        owners |= term.owners
    return owners.bit_count()


def _best(terms: list[Part], limit: int, accepted: Scores | None) -> Scores:
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


def _visit(term: Part, scores: Scores, running: Scores | None) -> None:
    """Add the term to the score of every tool that has it and is in the running. The hot loop."""
    impacts = term.impacts
    if running is not None:
        impacts = {number: impacts[number] for number in impacts.keys() & running.keys()}
    for number, impact in impacts.items():
        scores[number] = scores.get(number, 0.0) + impact


def _cut(scores: Scores, limit: int) -> float:
    """The score of the last tool that makes the cut so far; zero while there is room."""
    best = nlargest(limit, scores.values())
    return best[-1] if len(best) == limit else 0.0


def _above(scores: Scores, least: float) -> Scores:
    return {number: score for number, score in scores.items() if score >= least}
