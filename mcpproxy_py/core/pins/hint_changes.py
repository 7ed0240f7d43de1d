"""What a change of annotations, and of `_meta` that hosts act on, does to risk.

Two look at hints. The gateway makes a class of them, and what that lets through depends on `unannotated`: a change that
lets something through under any setting that it stopped before, lowers. Hosts take a hint that is missing for what the
protocol says (not read-only, destructive, not idempotent, open world), whatever the gateway makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.json_values import quoted, same
from mcpproxy_py.core.pins.parts import pinned_meta
from mcpproxy_py.core.policy.tool_class import classify, effective
from mcpproxy_py.core.values import RANK, Policy, Tool, ToolClass

RiskMove = Literal["raises_risk", "lowers_risk", "breaks_callers", "rewords"]
CLASSES: Final[tuple[ToolClass, ...]] = ("read", "unknown", "write", "destructive")
POLICIES: Final = (Policy(unannotated="allow"), Policy(unannotated="write"), Policy(unannotated="destructive"))


class HintMove(NamedTuple):
    part: str
    move: RiskMove
    before: Any
    after: Any
    text: str


class KnownHint(NamedTuple):
    absent: bool
    """What the protocol says it is where it is missing."""
    risky: bool
    """Which of the two is the one with more risk."""


HINTS: Final[Mapping[str, KnownHint]] = {
    "readOnlyHint": KnownHint(absent=False, risky=False),
    "destructiveHint": KnownHint(absent=True, risky=True),
    "idempotentHint": KnownHint(absent=False, risky=False),
    "openWorldHint": KnownHint(absent=True, risky=True),
}
_CLASSING: Final = ("readOnlyHint", "destructiveHint")


def _strength(tool_class: ToolClass, trusted: bool) -> tuple[float, ...]:
    """How much stands before a call of this class, under each setting. Where `unknown` is let through as if it were a
    read, it still counts as write for the record and for who is asked, so it stands between the two."""
    tool = Tool("s", "t", {}, tool_class, trusted)
    counted: list[ToolClass] = [effective(tool, tool_class, policy) for policy in POLICIES]
    return tuple(0.5 if each == "unknown" else RANK[each] for each in counted)


_STRENGTH: Final = {(each, trusted): _strength(each, trusted) for each in CLASSES for trusted in (True, False)}


def class_move(before: ToolClass, after: ToolClass, trusted: bool) -> RiskMove:
    """Between two classes that a server's hints declare. What lowers under one setting lowers."""
    old, new = _STRENGTH[before, trusted], _STRENGTH[after, trusted]
    if any(then < now for now, then in zip(old, new, strict=True)):
        return "lowers_risk"
    return "raises_risk" if old != new else "rewords"


def annotation_moves(before: Any, after: Any, trusted: bool) -> Iterator[HintMove]:
    """`None` where a tool has none."""
    old, new = _said(before), _said(after)
    if old is None or new is None:
        if not same(before, after):
            yield HintMove("annotations", "breaks_callers", before, after, "annotations is no object, or was none")
        return
    begin = 0
    for key in dict.fromkeys((*old, *new)):
        if (key in old) is not (key in new) or not same(old.get(key), new.get(key)):
            begin += 1
            yield _hint_move(key, old, new, trusted)
    if (whole := _class_move(old, new, trusted)) is not None:
        yield whole
    elif not begin and type(before) is not type(after):
        yield HintMove("annotations", "rewords", before, after, "annotations is empty or missing, which is the same")


def _said(annotations: Any) -> Mapping[str, Any] | None:
    return {} if annotations is None else json_values.as_object(annotations)


def _class_move(old: Any, new: Any, trusted: bool) -> HintMove | None:
    before, after = classify(old, trusted), classify(new, trusted)
    if before == after:
        return None
    text = f"by its hints it is {_ARTICLE[after]} now, and was {_ARTICLE[before]}"
    return HintMove("annotations", class_move(before, after, trusted), old, new, text)


_ARTICLE: Final[Mapping[ToolClass, str]] = {
    "read": "a read", "write": "a write", "destructive": "destructive", "unknown": "of an unknown class",
}  # fmt: skip


def _hint_move(key: str, old: Mapping[str, Any], new: Mapping[str, Any], trusted: bool) -> HintMove:
    part = f"annotations.{quoted(key)}"
    before, after = old.get(key), new.get(key)
    known = HINTS.get(key)
    if known is None:
        text = f"{part} is {'reworded' if key in old and key in new else 'new' if key in new else 'gone'}"
        return HintMove(part, "rewords", before, after, text)
    moves = {_host_move(known, before, after)}
    if key in _CLASSING:
        moves |= {_alone(key, old, new, trusted), _alone(key, new, old, trusted, backwards=True)}
    move: RiskMove = next(each for each in _WORST_FIRST if each in moves)
    return HintMove(part, move, before, after, f"{part} is {_shown(key, new)} now, and was {_shown(key, old)}")


_WORST_FIRST: Final[tuple[RiskMove, ...]] = ("lowers_risk", "raises_risk", "rewords")


def _shown(key: str, said: Mapping[str, Any]) -> str:
    return json_values.quoted(said[key]) if key in said else "missing"


def _host_move(known: KnownHint, before: Any, after: Any) -> RiskMove:
    old, new = (each if isinstance(each, bool) else known.absent for each in (before, after))
    if old is new:
        return "rewords"
    return "raises_risk" if new is known.risky else "lowers_risk"


def _alone(
    key: str, old: Mapping[str, Any], new: Mapping[str, Any], trusted: bool, backwards: bool = False
) -> RiskMove:
    """What this hint does to the class when nothing else changes; backwards: when all else has changed."""
    moved = {name: value for name, value in old.items() if name != key}
    if key in new:
        moved[key] = new[key]
    before, after = classify(old, trusted), classify(moved, trusted)
    return class_move(after, before, trusted) if backwards else class_move(before, after, trusted)


def meta_moves(before: Any, after: Any) -> Iterator[HintMove]:
    """Of `_meta`, as far as it is pinned."""
    old, new = json_values.as_object(before) or {}, json_values.as_object(after) or {}
    for key in dict.fromkeys((*old, *new)):
        row = pinned_meta(key)
        if row is None or ((key in old) is (key in new) and same(old.get(key), new.get(key))):
            continue
        switched_on = row.set_to_true is not None and new.get(key) is True
        move: RiskMove = row.set_to_true if switched_on and row.set_to_true is not None else row.change
        if row.set_to_true is not None and old.get(key) is not True and new.get(key) is not True:
            move = "rewords"
        part = f"_meta.{quoted(key)}"
        yield HintMove(part, move, old.get(key), new.get(key),
                       f"{part} is {_shown(key, new)} now, and was {_shown(key, old)}: {row.why}")  # fmt: skip


def raised(approved: Mapping[str, Any], listed: Mapping[str, Any], trusted: bool) -> Mapping[str, Any]:
    """The approved tool, with those hints of the listed one that raise its risk. Nothing else of it is taken over."""
    annotations = _raised_annotations(approved.get("annotations"), listed.get("annotations"), trusted)
    meta = _raised_meta(approved.get("_meta"), listed.get("_meta"))
    changed = {key: each for key, each in (("annotations", annotations), ("_meta", meta)) if each is not None}
    return {**approved, **changed} if changed else approved


def _raised_annotations(before: Any, after: Any, trusted: bool) -> dict[str, Any] | None:
    old, new = _said(before), _said(after)
    if old is None or new is None:
        return None
    raising = {each.part for each in annotation_moves(before, after, trusted) if each.move == "raises_risk"}
    made = dict(old)
    for key in HINTS:
        if f"annotations.{key}" not in raising:
            continue
        if key in new and _plain(new[key]):
            made[key] = new[key]
        else:
            made.pop(key, None)
    if same(made, old) or class_move(classify(old, trusted), classify(made, trusted), trusted) == "lowers_risk":
        return None
    return made


def _plain(value: Any) -> bool:
    """Anything else says nothing as a hint, and could be text."""
    return value is None or isinstance(value, bool)


def _raised_meta(before: Any, after: Any) -> dict[str, Any] | None:
    keys = [each.part.removeprefix("_meta.") for each in meta_moves(before, after) if each.move == "raises_risk"]
    return {**(json_values.as_object(before) or {}), **dict.fromkeys(keys, True)} if keys else None
