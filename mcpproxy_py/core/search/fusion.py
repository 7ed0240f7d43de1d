"""Words and meaning as one ranking (FIND-5).

What a tool says in words, and how close what it means is to what was asked, are two shares of what could be had, and
are added up here and nowhere else. Meaning comes with vectors, which are made elsewhere: this module knows what can be
asked of them, and not how they do it. A tool whose vector is not there yet counts by its words alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from itertools import islice
from typing import Any, Final, Protocol

from mcpproxy_py.core import json_values
from mcpproxy_py.core.search.tokens import words
from mcpproxy_py.core.values import Tool

MEANING: Final = 0.5
"""What being close counts for where the best that words can give is 1. Chosen on the halves for tuning of
`tests.bench.strangers`; between 0.4 and 0.7 there is little difference."""
NEAR: Final = 0.1
"""What is this close is found without any word in common. With 0.25 a query of few known words got fewer results than
it asked for, and the right one was among what was left out."""
SLACK: Final = 1e-9
QUERY_CHARS: Final = 1_000
NAME_CHARS: Final = 256
TEXT_CHARS: Final = 600
PARAMETERS: Final = 16


class NearnessOfTools(Protocol):
    def closeness(self, numbers: list[int]) -> list[float | None]: ...
    def marked(self, least: float) -> bytes: ...
    def bound(self, lanes: bytes, worth: float, weight: float, running: bytes) -> None: ...
    def first(self, many: int) -> list[int]: ...
    def reaching(self, least: float) -> list[int]: ...


class VectorsOfTools(Protocol):
    def only(self, kept: Iterable[int]) -> VectorsOfTools: ...
    def nearness(self, query: str, parts: Sequence[tuple[Any, int]]) -> NearnessOfTools | None: ...


def fused(by_words: float, closeness: float | None) -> float:
    """Both as one share, 0 to 1."""
    return by_words if closeness is None else (by_words + MEANING * closeness) / (1 + MEANING)


def best(
    near: NearnessOfTools,
    lanes: bytes,
    worth: float,
    running: bytes,
    limit: int,
    by_words: Callable[[list[int]], Iterable[float]],
) -> dict[int, float]:
    """The scores of the best `limit` tools in the `running`, and of all that tie with the last of them. `lanes` say
    what words can give each tool at most, in steps that are `worth` so much."""

    def scores(numbers: list[int]) -> dict[int, float]:
        return dict(zip(numbers, map(fused, by_words(numbers), near.closeness(numbers)), strict=True))

    near.bound(lanes, worth, MEANING, running)
    found = scores(near.first(limit))
    least = nlargest(limit, found.values())[-1] - SLACK if len(found) >= limit else 0.0
    return found | scores([number for number in near.reaching(least) if number not in found])


def meaning_of(tool: Tool) -> str:
    """What the vector of a tool is made of: bounded, whatever its listing holds."""
    wire = tool.wire
    title, about = wire.get("title") or tool.annotations.get("title"), wire.get("description")
    schema = json_values.as_object(wire.get("inputSchema")) or {}
    properties = json_values.as_object(schema.get("properties")) or {}
    named = [_spaced(name, 64) for name in islice(properties, PARAMETERS)]
    said = [_spaced(tool.name, NAME_CHARS), _text(title, NAME_CHARS), _text(about, TEXT_CHARS)]
    return ". ".join(filter(None, [*said, " ".join([_spaced(tool.server, NAME_CHARS), *named])]))


def _spaced(name: object, most: int) -> str:
    return " ".join(words(name, most)) if isinstance(name, str) else ""


def _text(text: object, most: int) -> str:
    return text[:most].strip() if isinstance(text, str) else ""
