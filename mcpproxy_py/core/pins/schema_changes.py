"""What is different between two JSON Schemas: whether the later one takes more, less, or the same.

Both are walked together, keyword by keyword, in a table. What no row knows, and what can be both more and less, is
`either`. References are not followed: a changed definition is told where it stands. The work is bounded: past a budget
the rest is one change, `either`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.json_values import quoted, same
from mcpproxy_py.core.late_patterns import late
from mcpproxy_py.core.pins.canonical import canonical
from mcpproxy_py.core.pins.schema_values import MISSING, Accepts, for_default, leaf_change

Side = Literal["input", "output"]
MAX_DEPTH: Final = 64
MAX_CHANGES: Final = 200
"""In one schema; nobody reads more, and the worst of them decides."""
NODES_A_SCHEMA: Final = 20_000


class WorkBudget:
    """How many keywords and values may still be looked at, of one schema and of a whole comparison."""

    def __init__(self, whole: int) -> None:
        self.whole = whole
        self.here = 0

    def begin(self) -> None:
        self.here = NODES_A_SCHEMA

    def spend(self, count: int = 1) -> None:
        self.here -= count
        self.whole -= count
        if self.here < 0 or self.whole < 0:
            raise TooLarge


class TooLarge(Exception):
    """The budget is spent."""


class SchemaChange(NamedTuple):
    part: str
    accepts: Accepts
    """`wider`: the later schema takes more."""
    before: Any
    after: Any
    text: str


def schema_changes(before: Any, after: Any, part: str, side: Side, budget: WorkBudget) -> list[SchemaChange]:
    """`part` is how the schema is called, with the path inside it behind."""
    budget.begin()
    walk = _SchemaWalk(before, after, side, budget)
    try:
        walk.schema(before, after, part, walk.is_monotone(), 0)
    except TooLarge:
        text = f"{part} is too large, or too different, to be compared whole"
        walk.found.append(SchemaChange(part, "either", None, None, text))
    if not walk.found and not same(before, after):
        walk.found.append(SchemaChange(part, "either", before, after, f"{part} is different"))
    return walk.found


class _SchemaWalk:
    """One comparison. `monotone` below: whether a part that takes more makes the whole take more, which under `not`,
    `oneOf` and `if` nobody can tell."""

    def __init__(self, before: Any, after: Any, side: Side, budget: WorkBudget) -> None:
        self.found: list[SchemaChange] = []
        self._side: Side = side
        self._budget = budget
        self._roots = before, after
        self._texts: tuple[str, str] | None = None

    def add(self, part: str, accepts: Accepts, before: Any, after: Any, text: str, monotone: bool = True) -> None:
        if len(self.found) >= MAX_CHANGES:
            raise TooLarge
        told: Accepts = accepts if monotone or accepts == "same" else "either"
        told_before, told_after = (None if each is MISSING else each for each in (before, after))
        self.found.append(SchemaChange(part, told, told_before, told_after, f"{part} {text}"))

    def schema(self, before: Any, after: Any, part: str, monotone: bool, depth: int) -> None:
        """Where one of them is missing, anything is accepted there."""
        self._budget.spend()
        if depth > MAX_DEPTH:
            raise TooLarge
        begin = len(self.found)
        left, right = _as_schema(before), _as_schema(after)
        if left is None or right is None:
            if not same(before, after):
                self.add(part, "either", before, after, "is no schema, or was none")
        elif left is False or right is False:
            if left is not right:
                self.add(part, *(("narrower", before, after, "allows nothing any more") if right is False
                                 else ("wider", before, after, "allows what it forbade")), monotone)  # fmt: skip
        else:
            self._keywords(left, right, part, monotone, depth)
        if len(self.found) == begin and type(before) is not type(after):
            self.add(part, "same", before, after, "is written differently and means the same")

    def _keywords(
        self, before: Mapping[str, Any], after: Mapping[str, Any], part: str, monotone: bool, depth: int
    ) -> None:
        for key in dict.fromkeys((*before, *after)):
            self._budget.spend()
            old, new = before.get(key, MISSING), after.get(key, MISSING)
            here = f"{part}.{quoted(key)}"
            if (way := _NESTED.get(key)) is not None:
                way(self, _Nested(old, new, before, after, here, monotone, depth + 1))
            elif old is MISSING or new is MISSING or not self._same(old, new):
                self._leaf(key, before, after, here, monotone)

    def _same(self, old: Any, new: Any) -> bool:
        for each in (old, new):
            if type(each) is list or type(each) is dict:
                self._budget.spend(len(each))  # pyright: ignore[reportUnknownArgumentType]
        return same(old, new)

    def _leaf(self, key: str, before: Mapping[str, Any], after: Mapping[str, Any], here: str, monotone: bool) -> None:
        old, new = before.get(key, MISSING), after.get(key, MISSING)
        if key == "default":
            accepts, text = for_default(old, new, self._side == "input")
        elif key == "$schema" and self._same_in_every_dialect(old, new):
            accepts, text = "same", "names another dialect, in which this schema means the same"
        else:
            accepts, text = leaf_change(key, before, after)
        self.add(here, accepts, old, new, text, monotone)

    def is_monotone(self) -> bool:
        """Not where something is turned around (`not`) and something is referred to: that may be turned around too."""
        texts = self._whole()
        return not any(_TURNS.search(text) and _REF.search(text) for text in texts)

    # Keywords that hold schemas.

    def one(self, at: _Nested) -> None:
        self.schema(at.old, at.new, at.part, at.monotone, at.depth)

    def items(self, at: _Nested) -> None:
        if type(at.old) is list or type(at.new) is list:
            self.by_position(at)
        else:
            self.one(at)

    def contains(self, at: _Nested) -> None:
        if at.appears_or_vanishes(self, "narrower"):
            return
        counted = "maxContains" in at.before or "maxContains" in at.after
        self.schema(at.old, at.new, at.part, at.monotone and not counted, at.depth)

    def condition(self, at: _Nested) -> None:
        """Of `not` and `if`."""
        if not at.appears_or_vanishes(self, "narrower" if at.part.endswith(".not") else "either"):
            self.schema(at.old, at.new, at.part, False, at.depth)

    def consequence(self, at: _Nested) -> None:
        if not at.appears_or_vanishes(self, "narrower"):
            self.schema(at.old, at.new, at.part, at.monotone, at.depth)

    def by_position(self, at: _Nested) -> None:
        old, new = json_values.as_array(at.old), json_values.as_array(at.new)
        if old is None or new is None or len(old) != len(new):
            if not same(at.old, at.new):
                self.add(at.part, "either", at.old, at.new, "has other places", at.monotone)
            return
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            self.schema(one, other, f"{at.part}[{number}]", at.monotone, at.depth)

    def choices(self, at: _Nested) -> None:
        """`anyOf`: one more is more. `allOf`: one more is less. `oneOf`: nobody can tell."""
        keyword = at.part.rpartition(".")[2]
        if at.appears_or_vanishes(self, "narrower"):
            return
        old, new = json_values.as_array(at.old), json_values.as_array(at.new)
        if old is None or new is None:
            self.one(at)
            return
        gone, come = self._unlike(old, new)
        monotone = at.monotone and keyword != "oneOf"
        more: Accepts = "narrower" if keyword == "allOf" else "wider"
        less: Accepts = "wider" if keyword == "allOf" else "narrower"
        if not gone and not come:
            if not all(map(same, old, new)):
                self.add(at.part, "same", at.old, at.new, "has them in another order")
        elif not gone:
            self.add(at.part, more, at.old, at.new, f"has {len(come)} more", monotone)
        elif not come:
            self.add(at.part, less, at.old, at.new, f"has {len(gone)} less", monotone)
        elif len(gone) == len(come):
            for (number, one), (_, other) in zip(gone, come, strict=True):
                self.schema(one, other, f"{at.part}[{number}]", monotone, at.depth)
        else:
            self.add(at.part, "either", at.old, at.new, "has others", monotone)

    def _unlike(self, old: list[Any], new: list[Any]) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]]:
        """Those of each that the other has not, with their places."""
        texts = [canonical(each) for each in old], [canonical(each) for each in new]
        for each in (*texts[0], *texts[1]):
            self._budget.spend(1 + len(each) // 100)
        left: dict[str, int] = {}
        for each in texts[0]:
            left[each] = left.get(each, 0) + 1
        come: list[tuple[int, Any]] = []
        for number, each in enumerate(texts[1]):
            if left.get(each, 0) > 0:
                left[each] -= 1
            else:
                come.append((number, new[number]))
        gone: list[tuple[int, Any]] = []
        for number in reversed(range(len(old))):
            if left[texts[0][number]] > 0:
                left[texts[0][number]] -= 1
                gone.append((number, old[number]))
        return gone[::-1], come

    def properties(self, at: _Nested) -> None:
        for name, old, new, here in self._each(at):
            if old is MISSING:
                accepts, text = self._new_property(name, at)
                self.add(here, accepts, None, new, text, at.monotone)
            elif new is MISSING:
                gone: Accepts = "narrower" if self._side == "input" else "wider"
                self.add(here, gone, old, None, "is gone", at.monotone)
            else:
                self.schema(old, new, here, at.monotone, at.depth)

    def _new_property(self, name: str, at: _Nested) -> tuple[Accepts, str]:
        required = name in (json_values.as_array(at.after.get("required")) or ())
        others = at.before.get("additionalProperties", True)
        if "patternProperties" in at.before or (type(others) is dict and others):
            return "either", "is new, and was something else among all others"
        if self._side == "output":
            closed = others is False or _UNEVALUATED in self._whole()[0]
            return ("wider", "is new where there were no others") if closed else ("narrower", "is new")
        return ("narrower", "is new and required") if required else ("wider", "is new and optional")

    def by_name(self, at: _Nested) -> None:
        """`patternProperties`: one more says something of what another may have said too."""
        for _, old, new, here in self._each(at):
            if old is MISSING or new is MISSING:
                self.add(here, "either", old, new, "is new" if old is MISSING else "is gone", at.monotone)
            else:
                self.schema(old, new, here, at.monotone, at.depth)

    def dependent(self, at: _Nested) -> None:
        for _, old, new, here in self._each(at):
            if old is MISSING or new is MISSING:
                accepts: Accepts = "narrower" if old is MISSING else "wider"
                self.add(here, accepts, old, new, "is new" if old is MISSING else "is gone", at.monotone)
            else:
                self.schema(old, new, here, at.monotone, at.depth)

    def definitions(self, at: _Nested) -> None:
        """One that nothing refers to says nothing."""
        texts = self._whole()
        for name, old, new, here in self._each(at):
            if old is not MISSING and new is not MISSING:
                self.schema(old, new, here, at.monotone, at.depth)
            elif _refers_to(texts[0] if old is MISSING else texts[1], name):
                self.add(here, "either", old, new, "is new" if old is MISSING else "is gone and still referred to")
            else:
                self.add(here, "same", old, new, "is new" if old is MISSING else "is gone, and nothing refers to it")

    def _each(self, at: _Nested) -> Sequence[tuple[str, Any, Any, str]]:
        old = {} if at.old is MISSING else json_values.as_object(at.old)
        new = {} if at.new is MISSING else json_values.as_object(at.new)
        if old is None or new is None:
            self.one(at)
            return ()
        if not old and not new and at.old is not at.new and (at.old is MISSING or at.new is MISSING):
            self.add(at.part, "same", at.old, at.new, "is written differently and means the same")
        names = tuple(dict.fromkeys((*old, *new)))
        self._budget.spend(len(names))
        return [(name, old.get(name, MISSING), new.get(name, MISSING), f"{at.part}.{quoted(name)}") for name in names]

    def _whole(self) -> tuple[str, str]:
        if self._texts is None:
            self._texts = canonical(self._roots[0]), canonical(self._roots[1])
            self._budget.spend((len(self._texts[0]) + len(self._texts[1])) // 100)
        return self._texts

    def _same_in_every_dialect(self, old: Any, new: Any) -> bool:
        known = all(each is MISSING or (isinstance(each, str) and _DIALECT.fullmatch(each)) for each in (old, new))
        return known and not any(_BY_DIALECT.search(text) for text in self._whole())


class _Nested(NamedTuple):
    """A keyword that holds schemas, in both."""

    old: Any
    new: Any
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    part: str
    monotone: bool
    depth: int

    def appears_or_vanishes(self, walk: _SchemaWalk, when_new: Accepts) -> bool:
        """Whether one of them has it only; then that is the change."""
        if self.old is not MISSING and self.new is not MISSING:
            return False
        gone: Accepts = "wider" if when_new == "narrower" else when_new
        if self.old is MISSING:
            walk.add(self.part, when_new, None, self.new, "is new", self.monotone)
        else:
            walk.add(self.part, gone, self.old, None, "is gone", self.monotone)
        return True


def _as_schema(value: Any) -> Mapping[str, Any] | Literal[False] | None:
    if value is MISSING or value is True:
        return {}
    return False if value is False else json_values.as_object(value)


_UNEVALUATED: Final = '"unevaluatedProperties":'
_TURNS: Final = late(r'"(?:not|oneOf|if|contains|dependencies|\$dynamicRef|\$recursiveRef)":')
_REF: Final = late(r'"\$(?:ref|dynamicRef|recursiveRef)":"((?:[^"\\]|\\.)*)"')
_PLAIN_REF: Final = late(r"#/[A-Za-z0-9_$./-]*")
_DIALECT: Final = late(r"https?://json-schema\.org/(?:draft-07|draft/2019-09|draft/2020-12)/schema#?")
_BY_DIALECT: Final = late(
    r'"items":\[|"(?:prefixItems|additionalItems|dependencies|dependent\w+|unevaluated\w+|minContains|maxContains|id'
    r'|\$(?:ref|id|anchor|recursive\w+|dynamic\w+|vocabulary))":'
)


def _refers_to(text: str, name: str) -> bool:
    """Whether a schema, as text, may refer to the definition of this name."""
    refs = _REF.findall(text)
    return any(not _PLAIN_REF.fullmatch(ref) or name in ref.split("/") for ref in refs)


_NESTED: Final[Mapping[str, Callable[[_SchemaWalk, _Nested], None]]] = {
    **dict.fromkeys(
        ("additionalProperties", "propertyNames", "additionalItems", "unevaluatedProperties", "unevaluatedItems"),
        _SchemaWalk.one,
    ),
    "items": _SchemaWalk.items,
    "prefixItems": _SchemaWalk.by_position,
    "contains": _SchemaWalk.contains,
    **dict.fromkeys(("not", "if"), _SchemaWalk.condition),
    **dict.fromkeys(("then", "else"), _SchemaWalk.consequence),
    **dict.fromkeys(("anyOf", "oneOf", "allOf"), _SchemaWalk.choices),
    "properties": _SchemaWalk.properties,
    "patternProperties": _SchemaWalk.by_name,
    "dependentSchemas": _SchemaWalk.dependent,
    **dict.fromkeys(("$defs", "definitions"), _SchemaWalk.definitions),
}
