"""What a tool does to the world: read, write, destructive, or unknown (SPEC section 3).

Read from the wire object, never from a typed model: models rename the hints and drop what they do not
know, and a hint that is misread lets a deletion through the read door (UP-10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.values import (
    OPERATIONS,
    RANK,
    VARIANT_OF,
    ClassOrigin,
    Operation,
    Override,
    Policy,
    Tool,
    ToolClass,
)

# The table of what hints mean, in order; the first row whose hint holds exactly that boolean decides.
# Strings, numbers and nulls in a hint say nothing: only a JSON boolean is a declaration.
HINTS: Final[tuple[tuple[str, bool, ToolClass], ...]] = (
    ("destructiveHint", True, "destructive"),
    ("readOnlyHint", True, "read"),
    ("readOnlyHint", False, "write"),
    ("destructiveHint", False, "write"),
)


def classify(annotations: object, trusted: bool = True) -> ToolClass:
    """The class that a server's own annotations declare.

    Hints of a server that is not trusted may raise a class, never lower it: there `read` is not believed.
    """
    said = json_values.as_object(annotations)
    if said is None:
        return "unknown"
    for hint, value, declared in HINTS:
        if said.get(hint) is value:
            return declared if trusted or declared != "read" else "unknown"
    return "unknown"


def class_of(tool: Tool, args: Mapping[str, Any] | None) -> tuple[ToolClass, ClassOrigin]:
    """The class of this tool for these arguments, and who says so. Without arguments: the highest possible."""
    if tool.overrides:
        return _overridden(tool, args), "override"
    return tool.declared, _origin(tool)


def _overridden(tool: Tool, args: Mapping[str, Any] | None) -> Operation:
    if args is None:
        return max((entry.tool_class for entry in tool.overrides), key=RANK.__getitem__)
    return _first_that_fits(tool.overrides, args)


def _first_that_fits(entries: Sequence[Override], args: Mapping[str, Any]) -> Operation:
    for entry in entries:
        if entry.when is None or entry.when(args):
            return entry.tool_class
    return "destructive"  # settings demand a last entry without `when`; if one is missing, fail closed


def highest_of(overrides: Sequence[Sequence[Override]]) -> tuple[Override, ...]:
    """One override in place of several that match the same tool: of what they say of a call the highest class."""
    if len(overrides) < 2:
        return tuple(overrides[0]) if overrides else ()

    def at_least(rank: int) -> Callable[[Mapping[str, Any]], bool]:
        return lambda args: any(RANK[_first_that_fits(each, args)] >= rank for each in overrides)

    every = {RANK[entry.tool_class] for each in overrides for entry in each}
    surely = max(min(RANK[entry.tool_class] for entry in each) for each in overrides)
    classes: list[Operation] = [one for one in OPERATIONS if RANK[one] in every and RANK[one] >= surely]
    return (*(Override(one, at_least(RANK[one])) for one in reversed(classes[1:])), Override(classes[0]))


def _origin(tool: Tool) -> ClassOrigin:
    if tool.declared != "unknown":
        return "server"
    return "unannotated" if tool.trusted else "untrusted"


def effective(tool: Tool, tool_class: ToolClass, policy: Policy) -> ToolClass:
    """What a class counts as in phase two. Where the operator said what unannotated tools are, unknown is that,
    and the hints of a server that is not trusted do not get below it."""
    floor = policy.unannotated
    if floor == "allow" or tool.overrides:
        return tool_class
    if tool_class == "unknown":
        return floor
    return tool_class if tool.trusted else max(tool_class, floor, key=RANK.__getitem__)


def call_with(tool: Tool, policy: Policy) -> str:
    """The variant an agent should use: safe for the highest class the tool can have (FIND-1, GATE-8)."""
    highest, _ = class_of(tool, None)
    counted = effective(tool, highest, policy)
    return VARIANT_OF["write" if counted == "unknown" else counted]
