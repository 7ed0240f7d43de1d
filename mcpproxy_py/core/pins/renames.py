"""Which new tool is a pinned one under another name.

A tool that is dropped and comes back with other hints would have lost its pin. So a new tool is a rename where its name
looks like a pinned one, or where it takes what a tool took that is gone. What cannot be compared for its number counts
as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.pins.canonical import digest
from mcpproxy_py.core.pins.listing import PinnedListing
from mcpproxy_py.core.pins.schema_values import TEXTS
from mcpproxy_py.core.policy.confusables import identical
from mcpproxy_py.core.policy.tool_names import compared

SIMILAR: Final = 0.6
"""From this share of words in common two descriptions are similar."""
MANY: Final = 20
"""Tools that are gone and took the same, whose descriptions are compared with that of a new one."""
FEW_WORDS: Final = 4
"""The same description with fewer says nothing."""
LOOKED_AT: Final = 4_000
"""Characters of a description."""
MAX_NODES: Final = 5_000
"""Of a schema that is looked through for what it takes."""
Reason = tuple[str, str]


class PinnedNames:
    """The tools of an approved listing, as new ones are held against them. Built once for each comparison."""

    def __init__(self, approved: PinnedListing, listed: PinnedListing) -> None:
        self._looks: dict[str, str] = {}
        for name in approved.tools:
            for look in _looks(name):
                self._looks.setdefault(look, name)
        self._by_shape: dict[str, list[tuple[str, frozenset[str]]]] = {}
        self._by_words: dict[frozenset[str], str] = {}
        for name, wire in approved.tools.items():
            if name not in listed.tools:
                words = _words(wire)
                self._by_shape.setdefault(_shape(wire), []).append((name, words))
                if len(words) >= FEW_WORDS:
                    self._by_words.setdefault(words, name)

    def renamed(self, name: str, wire: Mapping[str, Any]) -> Reason | None:
        """Which tool this new one is, or could be taken for, and why."""
        for look in _looks(name):
            if (like := self._looks.get(look)) is not None:
                return like, f"its name looks like '{quoted(like)}', which is pinned"
        if not self._by_shape:
            return None
        words = _words(wire)
        if (gone := self._same(_shape(wire), words)) is not None:
            return gone, f"'{quoted(gone)}' is gone and took the same arguments"
        if len(words) >= FEW_WORDS and (gone := self._by_words.get(words)) is not None:
            return gone, f"'{quoted(gone)}' is gone and had the same description"
        return None

    def _same(self, shape: str, words: frozenset[str]) -> str | None:
        took = self._by_shape.get(shape)
        if not took:
            return None
        if shape not in _SAYS_NOTHING or len(took) > MANY:
            return took[0][0]
        return next((name for name, others in took if _similar(words, others)), None)


def _looks(name: str) -> Iterable[str]:
    each = compared(name)
    return f"n{each.normal}", f"s{each.by_shape}", f"i{identical(name)}"


def _words(wire: Mapping[str, Any]) -> frozenset[str]:
    text = wire.get("description")
    return frozenset(text[:LOOKED_AT].casefold().split()) if isinstance(text, str) else frozenset()


def _similar(one: frozenset[str], other: frozenset[str]) -> bool:
    either = len(one | other)
    return either == 0 or len(one & other) / either >= SIMILAR


def _shape(wire: Mapping[str, Any]) -> str:
    """What it takes, without the texts, as a digest."""
    return digest(_without_texts(wire.get("inputSchema")))


def _without_texts(schema: Any) -> Any:
    """A schema without what only says something. One that is large keeps it all, and is like its very copy alone."""
    left = [MAX_NODES]
    made = _bare(schema, left, False)
    return made if left[0] >= 0 else schema


def _bare(value: Any, left: list[int], names: bool, depth: int = 0) -> Any:
    """`names`: whether the keys are names that the server chose, and no keywords."""
    left[0] -= 1
    if left[0] < 0 or depth > 64:
        left[0] = -1
        return None
    if (said := json_values.as_object(value)) is not None:
        return {
            key: _bare(each, left, not names and key in _OF_NAMES, depth + 1)
            for key, each in said.items()
            if names or (key not in TEXTS and key not in _SAYING_NOTHING)
        }
    if (array := json_values.as_array(value)) is not None:
        return [_bare(each, left, False, depth + 1) for each in array]
    return value


_OF_NAMES: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_SAYING_NOTHING: Final = frozenset(("$schema", "default", "additionalProperties"))
_NOTHING: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"type": "object"},
    {"properties": {}},
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {}, "required": []},
)
_SAYS_NOTHING: Final = frozenset(map(digest, _NOTHING))
"""Shapes that many tools have: those that take nothing."""
