"""What it costs to hold arguments against a schema, found out from the schema alone. Schemas are hostile until shown
otherwise, and a check that has begun cannot be stopped.

A unit is half a microsecond of the slowest kind. A check takes at most `Cost.value` units for each value in the
arguments and `Cost.char` for each byte of their texts. Both are upper bounds: all that may be applied to one value is
added up, down to `DEPTH` levels of arguments, which is where the bound ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

MAX_DEPTH: Final = 200
MAX_NODES: Final = 50_000
MAX_TEXT: Final = 1_000_000
MAX_STEPS: Final = 20_000
"""How many subschemas one value may be held against. Forty lines of `$ref` can ask for a billion (2**30)."""
MAX_INDIRECT: Final = 32
"""References that are no plain pointer cannot be followed by the count above, so there may only be a few."""

DEPTH: Final = 12
"""Levels of arguments that the cost of a schema is good for."""
NODES_HERE: Final = 5_000
TEXT_HERE: Final = 100_000
"""To compile more than that takes too long in one piece."""
_VISITS: Final = 20_000

_AT_ONCE: Final = ("not", "if", "then", "else")
_AT_ONCE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_AT_ONCE_MAPS: Final = ("dependentSchemas", "dependencies")
_BEYOND_COUNTING: Final = ("$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems")
"""Where these lead depends on the way there, or they look again at what was looked at."""
_READ_WHOLE: Final = {"format": 0.03, "contentMediaType": 0.05, "contentEncoding": 0.05, "enum": 0.005, "const": 0.005}
"""Keywords that look at a text from beginning to end, and what that costs for each byte."""
_UNIQUE: Final = (100.0, 1.0)
"""Items are compared whole, at each level anew."""


class BadSchema(ValueError):
    """A schema that is not compiled, and why."""


class Cost(NamedTuple):
    """Units for each value, and for each byte of text."""

    value: float
    char: float


NOTHING: Final = Cost(0, 0)


class _Uncountable(Exception):
    """No bound can be given."""


def check_size(schema: Any) -> bool:
    """Whether it is small enough to be compiled in this process. Raises `BadSchema` for one that is for none."""
    level, count, text = [schema], 0, 0
    for _ in range(MAX_DEPTH):
        text += sum(map(_text_in, level))
        level = [child for node in level for child in children(node)]
        count += len(level)
        if count > MAX_NODES:
            raise BadSchema(f"the schema has more than {MAX_NODES} parts")
        if text > MAX_TEXT:
            raise BadSchema(f"the schema has more than {MAX_TEXT} characters")
        if not level:
            return count <= NODES_HERE and text <= TEXT_HERE
    raise BadSchema(f"the schema is nested deeper than {MAX_DEPTH}")


def _text_in(node: Any) -> int:
    """Characters of the keys and texts that stand in this part itself; numbers count a little."""
    values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else (node,)
    own = sum(len(value) if isinstance(value, str) else 4 for value in values)
    return own + (sum(map(len, node)) if isinstance(node, dict) else 0)


def children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return [child for child in node.values() if isinstance(child, dict | list)]
    return [child for child in node if isinstance(child, dict | list)] if isinstance(node, list) else []


def everything(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object in it, whether it is applied to anything or not."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        waiting.extend(children(node))
        if isinstance(node, dict):
            yield node


def patterns_of(schema: Any) -> set[str]:
    """All that may be a pattern. More than are applied, never fewer."""
    found: set[str] = set()
    for node in everything(schema):
        if isinstance(pattern := node.get("pattern"), str):
            found.add(pattern)
        if isinstance(named := node.get("patternProperties"), dict):
            found.update(named)
    return found


def check_work(schema: Any) -> None:
    """Refuse schemas whose references multiply. Counts what is held against the same value, each part once."""
    steps: dict[int, int] = {}
    indirect = 0
    try:
        for node in everything(schema):
            indirect += is_indirect(node)
            if _steps(node, schema, steps) > MAX_STEPS or indirect > MAX_INDIRECT:
                raise BadSchema("the schema's references expand too far to be checked")
    except RecursionError:
        raise BadSchema("the schema's references go too deep") from None


def _steps(node: dict[str, Any], root: Any, steps: dict[int, int]) -> int:
    known = steps.get(id(node))
    if known is None:
        steps[id(node)] = 0  # a cycle ends where it began
        known = 1 + sum(_steps(part, root, steps) for part in _at_once(node, root))
        steps[id(node)] = known = min(known, MAX_STEPS + 1)
    return known


def _at_once(node: dict[str, Any], root: Any) -> Iterator[dict[str, Any]]:
    """The subschemas that the same value is held against."""
    parts = [node.get(key) for key in _AT_ONCE]
    for key in _AT_ONCE_LISTS:
        several = node.get(key)
        parts.extend(several if isinstance(several, list) else ())
    for key in _AT_ONCE_MAPS:
        dependent = node.get(key)
        parts.extend(dependent.values() if isinstance(dependent, dict) else ())
    parts.append(_pointed_at(node.get("$ref"), root))
    return (part for part in parts if isinstance(part, dict))


def _pointed_at(ref: Any, root: Any) -> Any:
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    found = root
    for step in ref.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdecimal() and len(key) < 6 and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, dict):
            found = found.get(key)
        else:
            return None
    return found


def is_indirect(node: dict[str, Any]) -> bool:
    ref = node.get("$ref")
    plain = not isinstance(ref, str) or ref == "#" or (ref.startswith("#/") and "%" not in ref)
    return not plain or "$dynamicRef" in node or "$recursiveRef" in node


def cost_of(schema: Any, of_pattern: Callable[[str], Cost]) -> Cost | None:
    """Of holding one value against this schema, and every value below it against what follows from that; `None` where
    no bound can be given."""
    for node in everything(schema):
        changes_base = node is not schema and ("$id" in node or isinstance(node.get("id"), str))
        if changes_base or is_indirect(node) or any(key in node for key in _BEYOND_COUNTING):
            return None
    try:
        return _Counting(schema, of_pattern).cost(schema, DEPTH)
    except (_Uncountable, RecursionError):
        return None


class _Counting:
    def __init__(self, root: Any, of_pattern: Callable[[str], Cost]) -> None:
        self._root = root
        self._of_pattern = of_pattern
        self._known: dict[tuple[int, int], Cost | None] = {}

    def cost(self, node: Any, depth: int) -> Cost:
        """For a value with at most so many levels below it."""
        if not isinstance(node, dict):
            return Cost(1, 0)
        key = id(node), depth
        if key in self._known:
            known = self._known[key]
            if known is None:  # it holds a value against itself again and again
                raise _Uncountable
            return known
        if len(self._known) >= _VISITS:
            raise _Uncountable
        self._known[key] = None
        parts = [self._own(node), *(self.cost(part, depth) for part in _at_once(node, self._root))]
        if depth > 0:
            parts.append(_highest(self._of_properties(node, depth - 1), self._of_items(node, depth - 1)))
        self._known[key] = found = _sum(parts)
        return found

    def _own(self, node: dict[str, Any]) -> Cost:
        """What this schema alone asks of a value."""
        value, char = 1.0, sum(of_each for key, of_each in _READ_WHOLE.items() if key in node)
        for key, said in node.items():
            if isinstance(said, dict | list):
                value += 0.2 * len(said) + (_compared(said) if key in ("enum", "const") else 0)
            else:
                value += 1 + (len(said) / 10_000 if isinstance(said, str) else 0)
        own = [Cost(value, char)]
        if isinstance(pattern := node.get("pattern"), str):
            own.append(self._of_pattern(pattern))
        if isinstance(named := node.get("patternProperties"), dict):
            own += [self._of_pattern(pattern) for pattern in named] * 2  # additionalProperties asks them again
        if node.get("uniqueItems"):
            own.append(Cost(*_UNIQUE))
        return _sum(own)

    def _of_properties(self, node: dict[str, Any], depth: int) -> Cost:
        """Of one property: of those named at most one applies, or else what is said of all others."""
        named = node.get("properties")
        either = [self.cost(part, depth) for part in (named.values() if isinstance(named, dict) else ())]
        if "additionalProperties" in node:
            either.append(self.cost(node["additionalProperties"], depth))
        matching = node.get("patternProperties")
        every = [self.cost(part, depth) for part in (matching.values() if isinstance(matching, dict) else ())]
        if "propertyNames" in node:
            every.append(self.cost(node["propertyNames"], depth))
        return _sum([_highest(*either), *every])

    def _of_items(self, node: dict[str, Any], depth: int) -> Cost:
        either: list[Any] = []
        for key in ("prefixItems", "items"):
            said = node.get(key)
            either.extend(said if isinstance(said, list) else [said])
        either.append(node.get("additionalItems"))
        found = _highest(*(self.cost(part, depth) for part in either if part is not None))
        return _sum([found, self.cost(node["contains"], depth)]) if "contains" in node else found


def _compared(said: Any) -> float:
    """Of values that a value is compared with, whole."""
    if isinstance(said, dict):
        return 1 + sum(map(_compared, said.values()))
    if isinstance(said, list):
        return 1 + sum(map(_compared, said))
    return 0.2 + (len(said) / 10_000 if isinstance(said, str) else said.bit_length() / 16 if type(said) is int else 0)


def _sum(costs: list[Cost]) -> Cost:
    return Cost(sum(each.value for each in costs), sum(each.char for each in costs))


def _highest(*costs: Cost) -> Cost:
    return Cost(max((each.value for each in costs), default=0.0), max((each.char for each in costs), default=0.0))
