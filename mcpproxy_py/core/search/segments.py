"""One server's tools as an inverted index that never changes.

Fields are weighted as BM25F does it: the term frequencies of a tool's name, title, description, parameter
and server names are weighted and normalised by field length, added up, and saturated once. Lengths are
measured against fixed typical lengths and not against the average of the moment, so that the impact of a
term on a tool depends on that tool alone. That is what lets a server's tools be indexed once, while only the
document frequencies are merged when another server changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple, cast

from mcpproxy_py.core.results.tokens import Steps, collect
from mcpproxy_py.core.search import packed_lanes
from mcpproxy_py.core.search.fusion import VectorsOfTools
from mcpproxy_py.core.search.narrowed import ImpactsOfSome
from mcpproxy_py.core.search.successors import successors
from mcpproxy_py.core.search.synonyms import senses, spelled_out, topics
from mcpproxy_py.core.search.tokens import tokens
from mcpproxy_py.core.values import Tool


class FieldRule(NamedTuple):
    """How a field counts: its weight, how strongly its length is held against it, and its typical length."""

    weight: float
    b: float
    typical: float


NAME: Final = FieldRule(3.0, 0.5, 3)
TITLE: Final = FieldRule(1.5, 0.3, 3)
DESCRIPTION: Final = FieldRule(1.3, 0.6, 15)
PARAMETERS: Final = FieldRule(0.35, 0.6, 5)
SERVER: Final = FieldRule(1.0, 0.0, 1)
K1: Final = 1.2
PEAK: Final = K1 + 1

# What is read of a tool at most. A server that writes more is indexed by its beginning and hurts nobody.
NAME_CHARS: Final = 256
DESCRIPTION_CHARS: Final = 2_000
PARAMETER_NAMES: Final = 64
# The filters whose answers a segment remembers. There are a handful, and each reload may bring one more.
RULES: Final = 16
# The parts that a segment remembers: one for each scope that is in use, at some bytes for each tool.
SELECTIONS: Final = 256


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """A filter that looks at tools. `key` names it, with all that it depends on: what a segment has said once for a
    key, it says again without asking."""

    key: Hashable
    lets_through: Callable[[Tool], bool]


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """One server's tools, indexed: how much each term says of each tool, by the tool's number."""

    tools: tuple[Tool, ...]
    impacts: Mapping[str, Mapping[int, float]]
    successors: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """Of those that say they are deprecated, the tools that they name in their place."""
    has_changed: bool = True
    """Whether any of them may be another one than was approved."""
    _marked: dict[Hashable, bytes] = field(default_factory=dict[Hashable, bytes], init=False, repr=False, compare=False)
    _parts: dict[Hashable, IndexSegment] = field(
        default_factory=dict[Hashable, "IndexSegment"], init=False, repr=False, compare=False
    )
    _vectors: VectorsOfTools | None = field(default=None, init=False, repr=False, compare=False)
    _source: IndexSegment | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def vectors(self) -> VectorsOfTools | None:
        """What its tools mean. They are made beside the event loop, and come later than the words; a part of a segment
        has its part of them."""
        source, impacts = self._source, self.impacts
        theirs = None if source is None or self._vectors is not None else source.vectors
        if theirs is not None and isinstance(impacts, ImpactsOfSome):
            self.give(theirs.only(impacts.kept()))
        return self._vectors

    def give(self, vectors: VectorsOfTools) -> None:
        object.__setattr__(self, "_vectors", vectors)

    def only(self, key: Hashable, wanted: Callable[[Tool], bool]) -> Steps[IndexSegment]:
        """The part of it that a rule lets through; what `key` names is found out once."""
        found = self._parts.get(key)
        if found is None:
            fits = yield from collect(map(wanted, self.tools))
            if len(self._parts) >= SELECTIONS:
                del self._parts[next(iter(self._parts))]
            found = self._parts[key] = self._only([number for number, fit in enumerate(fits) if fit])
        return found

    def _only(self, kept: Sequence[int]) -> IndexSegment:
        if len(kept) == len(self.tools):
            return self
        left = ImpactsOfSome(self.impacts, len(self.tools), kept)
        now = {number: at for at, number in enumerate(kept)} if self.successors else {}
        there = {
            now[number]: named
            for number, theirs in self.successors.items()
            if number in now and (named := tuple(now[each] for each in theirs if each in now))
        }
        part = IndexSegment(tuple(self.tools[number] for number in kept), left, there, self.has_changed)
        object.__setattr__(part, "_source", self)
        return part

    def marks(self, rule: ToolFilter | bool) -> bytes:
        """This segment's piece of a mask."""
        key = rule.key if isinstance(rule, ToolFilter) else rule
        found = self._marked.get(key)
        if found is None:
            if len(self._marked) >= RULES:
                self._marked.clear()
            chosen = map(rule.lets_through, self.tools) if isinstance(rule, ToolFilter) else [rule] * len(self.tools)
            found = self._marked[key] = packed_lanes.marks(chosen)
        return found


def segment(tools: Iterable[Tool]) -> IndexSegment:
    """Index the tools of one server. Whatever their listings hold, this ends, soon, with a segment."""
    known = tuple(tools)
    rows: dict[str, dict[int, float]] = {}
    shared: dict[float, float] = {}  # equal impacts are one object: a listing has few different ones
    for number, tool in enumerate(known):
        for term, frequency in _frequencies(tool).items():
            impact = PEAK * frequency / (K1 + frequency)
            rows.setdefault(term, {})[number] = shared.setdefault(impact, impact)
    return IndexSegment(known, rows, successors(known), any(tool.changed is not None for tool in known))


def _frequencies(tool: Tool) -> dict[str, float]:
    """Each term's frequency in this tool, weighted and length-normalised over all fields."""
    found: dict[str, float] = {}
    for rule, words in _fields(tool):
        scale = rule.weight / (1 - rule.b + rule.b * len(words) / rule.typical)
        for word, count in Counter(words).items():
            _add(found, (word, *_meant(rule, word)), count * scale)
        for pair in pairwise(words):
            _add(found, _meant(rule, *pair), scale)
    return found


def _meant(rule: FieldRule, *words: str) -> tuple[str, ...]:
    """What words stand for besides themselves. A parameter's name is too weak a sign to be taken for its synonyms."""
    return () if rule is PARAMETERS else (*senses(*words), *topics(*words))


def _add(found: dict[str, float], terms: Iterable[str], frequency: float) -> None:
    for term in terms:
        found[term] = found.get(term, 0.0) + frequency


def _fields(tool: Tool) -> Iterator[tuple[FieldRule, list[str]]]:
    yield NAME, _words(tool.name, NAME_CHARS)
    yield TITLE, _words(tool.wire.get("title") or tool.annotations.get("title"), NAME_CHARS)
    yield DESCRIPTION, _words(tool.wire.get("description"), DESCRIPTION_CHARS)
    yield PARAMETERS, [word for name in _parameters(tool) for word in _words(name, NAME_CHARS)]
    yield SERVER, _words(tool.server, NAME_CHARS)


def _words(text: object, cap: int) -> list[str]:
    return spelled_out(tokens(text, cap)) if isinstance(text, str) else []


def _parameters(tool: Tool) -> Iterable[object]:
    schema = tool.wire.get("inputSchema")
    properties = cast("Mapping[str, Any]", schema).get("properties") if isinstance(schema, Mapping) else None
    return islice(cast("Mapping[object, Any]", properties), PARAMETER_NAMES) if isinstance(properties, Mapping) else ()


def counted(segments: Iterable[IndexSegment]) -> dict[str, int]:
    frequencies: dict[str, int] = {}
    for part in segments:
        count(frequencies, part, 1)
    return frequencies


def count(frequencies: dict[str, int], part: IndexSegment, sign: int) -> None:
    for term, impacts in part.impacts.items():
        count = frequencies.get(term, 0) + sign * len(impacts)
        if count:
            frequencies[term] = count
        else:
            del frequencies[term]


def joined(term: str, segments: Iterable[IndexSegment]) -> Iterator[tuple[int, Mapping[int, float]]]:
    """What the term says of the tools of each segment, and the number of the segment's first one."""
    first = 0
    for part in segments:
        if theirs := part.impacts.get(term):
            yield first, theirs
        first += len(part.tools)
