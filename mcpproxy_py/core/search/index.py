"""Which tools fit a query: BM25 over the segments of all servers (FIND-3).

What a tool gets for a word is kept twice: exactly, and rounded up to whole steps in a lane of its own (`packed_lanes`).
The lanes of a query's words, added up, say for all tools at once how much each can have at most, so that only the few
that can make the cut are scored. The result is the same as that of scoring every tool.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from itertools import islice, pairwise, repeat
from math import ceil, fsum, log
from types import MappingProxyType
from typing import Final, NamedTuple

from mcpproxy_py.core.search import fusion, packed_lanes
from mcpproxy_py.core.search.fusion import NearnessOfTools
from mcpproxy_py.core.search.narrowed import FrequenciesOfSome
from mcpproxy_py.core.search.segments import PEAK, IndexSegment, ToolFilter, count, counted, joined, segment
from mcpproxy_py.core.search.synonyms import implied, senses, spelled_out, topics
from mcpproxy_py.core.search.tokens import lookalikes, tokens
from mcpproxy_py.core.values import Tool

__all__ = ["Hit", "Index", "IndexSegment", "Ranking", "ToolFilter", "segment"]

Scores = dict[int, float]  # by the tool's number in the index
Row = tuple[float, int]

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
# The same for an index of some of its tools, and how many of these an index remembers.
PARTS_OF_SOME: Final = 64
OF_SOME: Final = 16
# More parts than a query can have: its words, its pairs of words, and what its shape implies.
MOST_PARTS: Final = 2 * QUERY_TERMS + 16
# A bound has to clear the error of floats to be believed.
SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Hit:
    """`score` is the share of the best score that any tool could have for the query."""

    tool: Tool
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """`total` counts every tool that matched and was let through, `hits` are the best of them. `matched` is the mask
    of all that matched, let through or not."""

    hits: tuple[Hit, ...] = ()
    total: int = 0
    matched: int = field(default=0, compare=False, repr=False)
    by_meaning: bool = False
    """Whether meaning counted too."""


class Part(NamedTuple):
    """A word of a query: what it is worth, what tools get for it, and, in steps, the most any gets and what each gets
    at most."""

    worth: float
    impacts: Mapping[int, float]
    most: int
    bounds: int


class Index:
    """The segments of all servers as one collection. An update gives a new index.

    What tools get for a word is joined over the segments when it is first asked for, and kept: a refresh makes the
    next query somewhat slower, and no index is ever built for words that nobody uses.
    """

    __slots__ = (
        "_every", "_frequencies", "_of", "_of_some", "_parts", "_segments", "_steps", "_successors", "_tools",
        "_vocabulary",
    )  # fmt: skip

    def __init__(
        self, segments: Mapping[str, IndexSegment], *, frequencies: Mapping[str, int] | None = None,
        of: Index | None = None,
    ) -> None:  # fmt: skip
        """`frequencies` is for who knows how many tools contain each term already, `of` for an index of some of the
        tools of another one."""
        self._of = of
        self._of_some: dict[Hashable, Index] = {}
        self._segments = MappingProxyType(dict(segments))
        self._tools = [tool for part in self._segments.values() for tool in part.tools]
        self._frequencies = counted(self._segments.values()) if frequencies is None else frequencies
        self._parts: dict[tuple[str, ...], Part] = {}
        self._successors = _joined_successors(self._segments.values())
        self._vocabulary: list[str] = []
        self._every = packed_lanes.every(len(self._tools))
        # As many steps to a unit as there can be without any sum of bounds outgrowing its lane.
        self._steps = (packed_lanes.TOP / MOST_PARTS - 1) // (PEAK * self._rarity(1))

    @property
    def segments(self) -> Mapping[str, IndexSegment]:
        return self._segments

    def health(self) -> dict[str, int]:
        """How many tools are indexed, and of how many the vectors are there."""
        sizes = [(len(part.tools), part.vectors is not None) for part in self._segments.values()]
        return {"tools": len(self._tools), "by_meaning": sum(size for size, given in sizes if given)}

    def with_segment(self, server: str, segment: IndexSegment | None) -> Index:
        """This index with one server's tools replaced, or gone. The other segments are taken over as they are."""
        others = {name: part for name, part in self._segments.items() if name != server}
        frequencies = dict(self._frequencies)
        if (old := self._segments.get(server)) is not None:
            count(frequencies, old, -1)
        if segment is not None:
            others[server] = segment
            count(frequencies, segment, 1)
        return Index(others, frequencies=frequencies)

    def of_some(self, key: Hashable, parts: Callable[[], Mapping[str, IndexSegment]]) -> Index:
        """An index of some of its tools, of each server those in its part, from which nothing can be told of the
        others; made once for what `key` names."""
        found = self._of_some.pop(key, None)
        if found is None:
            if len(self._of_some) >= OF_SOME:
                del self._of_some[next(iter(self._of_some))]
            segments = parts()
            found = Index(segments, frequencies=FrequenciesOfSome(self._frequencies, [*segments.values()]), of=self)
        self._of_some[key] = found
        return found

    def mask(self, lets_through: Callable[[str], ToolFilter | bool]) -> int:
        """A filter for `rank`: for each server whether all of its tools are let through, none, or those of a rule."""
        return packed_lanes.mask(b"".join([part.marks(lets_through(name)) for name, part in self._segments.items()]))

    def rank(self, query: str, limit: int, among: int | None = None) -> Ranking:
        """The best `limit` of the tools in the mask `among`, or of all, best first, ties by name.

        Filtering comes before the cut, so a filter never leaves fewer hits than there are matches (FIND-2).
        """
        asked = self._asked(query)
        bounds = sum(part.bounds for part in asked)
        matched = packed_lanes.held(bounds, self._every)
        near = self._near(query)
        if near is not None:
            matched |= packed_lanes.mask(near.marked(fusion.NEAR))
        running = matched if among is None else matched & among
        total = running.bit_count()
        if not total or limit < 1:
            return Ranking((), total, matched, near is not None)
        worth = PEAK * sum(part.worth for part in asked)
        if near is None:
            scores = self._best(asked, bounds, running, limit)
        else:
            scores, worth = self._best_of_both(near, asked, bounds, running, limit, worth), 1.0
        hits = self._hits(worth, scores, limit, among)
        return Ranking(hits, max(total, len(hits)), matched, near is not None)

    def _near(self, query: str) -> NearnessOfTools | None:
        """Nobody's, where none of the tools has its vector."""
        parts = [(part.vectors, len(part.tools)) for part in self._segments.values()]
        there = next((vectors for vectors, _ in parts if vectors is not None), None)
        return None if there is None else there.nearness(query[: fusion.QUERY_CHARS], parts)

    def _hits(self, worth: float, scores: Scores, limit: int, among: int | None) -> tuple[Hit, ...]:
        best = nsmallest(limit, scores.items(), key=lambda row: (-row[1], self._tools[row[0]].full_name))
        rows = self._after_successors([(score, number) for number, score in best], limit, among)
        return tuple(Hit(self._tools[number], min(score / worth, 1.0)) for score, number in rows)

    def _after_successors(self, rows: list[Row], limit: int, among: int | None) -> list[Row]:
        """A tool that says it is deprecated lets those go first that it names in its place, if they can be had."""
        if not self._successors:
            return rows[:limit]
        found: dict[int, float] = {}
        for score, number in rows:
            for other in self._successors.get(number, ()):
                if among is None or packed_lanes.holds(among, other):
                    found.setdefault(other, score)
            found.setdefault(number, score)
        return [(score, number) for number, score in islice(found.items(), limit)]

    def _asked(self, query: str) -> list[Part]:
        """The parts of the query, those included that no tool has: they are part of what was asked, and a query
        that is answered in half should not look answered in full."""
        words = tuple(islice(dict.fromkeys(spelled_out(tokens(query, QUERY_CHARS))), QUERY_TERMS))
        asked = [self._part((word,)) for word in words]
        asked.extend(
            self._part(pair) for pair in pairwise(words) if senses(*pair) or "".join(pair) in self._frequencies
        )
        if any(part.impacts for part in asked):  # a shape alone finds nothing
            asked.extend(self._part((sense,)) for sense in implied(query[:QUERY_CHARS]))
        return asked

    def _part(self, words: tuple[str, ...]) -> Part:
        found = self._parts.get(words)
        if found is None:
            if len(self._parts) >= (PARTS if self._of is None else PARTS_OF_SOME):
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
            gives: dict[int, float] = {}
            for first, theirs in joined(term, self._segments.values()):
                gives |= {first + number: worth * impact for number, impact in theirs.items()}
            if impacts:
                gives |= {number: impact for number, impact in impacts.items() if impact > gives.get(number, 0.0)}
            impacts = gives
        bounds = {impact: ceil(impact * self._steps) for impact in set(impacts.values())}
        lanes = packed_lanes.packed(impacts, bounds, len(self._tools))
        return Part(most, impacts, max(bounds.values(), default=0), lanes)

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
        whole = self if self._of is None else self._of
        whole._vocabulary = whole._vocabulary or sorted(whole._frequencies)
        return lookalikes(word, self._frequencies, whole._vocabulary)

    def _idf(self, term: str) -> float:
        return self._rarity(self._frequencies.get(term, 0))

    def _rarity(self, frequency: int) -> float:
        return log(1 + (max(len(self._tools) - frequency, 0) + 0.5) / (frequency + 0.5))

    def _best_of_both(
        self, near: NearnessOfTools, asked: list[Part], bounds: int, running: int, limit: int, worth: float
    ) -> Scores:
        gets = [part.impacts.get for part in asked]
        size, share = 2 * len(self._tools), 1 / worth if worth else 0.0
        return fusion.best(
            near, bounds.to_bytes(size, "little"), share / self._steps, running.to_bytes(size, "little"), limit,
            lambda numbers: [min(each / worth, 1.0) if worth else 0.0 for each in _scores(gets, numbers)],
        )  # fmt: skip

    def _best(self, asked: list[Part], bounds: int, running: int, limit: int) -> Scores:
        """The scores of the best `limit` tools in the running, and of all that tie with the last of them.

        First of those with the highest bounds. The last of these that makes the cut says how low a bound may be that
        is still worth a look.
        """
        gets = [part.impacts.get for part in asked]
        most = sum(part.most for part in asked)
        levels = packed_lanes.levels(bounds, most, running, len(self._tools))
        level = packed_lanes.reached_by(levels, limit)
        first = [*packed_lanes.at_least(levels, level)]
        scores = dict(zip(first, _scores(gets, first), strict=True))
        if level > 1:
            least = nlargest(limit, scores.values())[-1]
            level = packed_lanes.level_of(int((least - SLACK) * self._steps), most)
            more = [number for number in packed_lanes.at_least(levels, level) if number not in scores]
            scores |= zip(more, _scores(gets, more), strict=True)
        return scores


def _joined_successors(segments: Iterable[IndexSegment]) -> dict[int, list[int]]:
    """By the numbers that the tools have in the index."""
    found: dict[int, list[int]] = {}
    first = 0
    for part in segments:
        for number, theirs in part.successors.items():
            found[first + number] = [first + each for each in theirs]
        first += len(part.tools)
    return found


def _scores(gets: list[Callable[[int, float], float]], numbers: list[int]) -> Iterable[float]:
    """Exactly rounded, so that tools which get the same, in whatever order, tie."""
    if not gets:
        return repeat(0.0, len(numbers))
    return map(fsum, zip(*[map(get, numbers, repeat(0.0)) for get in gets], strict=False))
