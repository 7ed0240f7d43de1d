"""What a tool does to the world: read, write, destructive, or unknown (SPEC section 3).

Read from the wire object, never from a typed model: models rename the hints and drop what they do not
know, and a hint that is misread lets a deletion through the read door (UP-10).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.pending_checks import CheckVerdict, PendingCheck
from mcpproxy_py.core.values import RANK, VARIANT_OF, ClassOrigin, Operation, Override, Policy, Tool, ToolClass, risk

# The table of what hints mean, in order; the first row whose hint holds exactly that boolean decides.
# Strings, numbers and nulls in a hint say nothing: only a JSON boolean is a declaration.
HINTS: Final[tuple[tuple[str, bool, ToolClass], ...]] = (
    ("destructiveHint", True, "destructive"),
    ("readOnlyHint", True, "read"),
    ("readOnlyHint", False, "write"),
    ("destructiveHint", False, "write"),
)

BY: Final[Mapping[ClassOrigin, str]] = {
    "server": "by server",
    "override": "by the operator's override",
    "undecided": "by the operator's override, of which a `when` could not be checked,",
    "unannotated": "by the rule for unannotated tools",
    "untrusted": "by the rule for unannotated tools",
}
MARK: Final[Mapping[ToolClass, str]] = {"destructive": "destructive", "write": "not read-only", "read": "read-only"}


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


def lowest_risk(tool: Tool, policy: Policy) -> Operation:
    """The lowest risk that a call of this tool can have, whatever its arguments."""
    if not tool.overrides:
        return risk(effective(tool, tool.declared, policy))
    return _higher(_lowest_of(entries) for entries in tool.overrides)


def _lowest_of(entries: Sequence[Override]) -> Operation:
    return min((entry.tool_class for entry in entries), key=RANK.__getitem__)


def by_class(tools: Iterable[Tool]) -> dict[ToolClass, int]:
    """How many tools are of each class, by the highest that a call of it can have."""
    counted = Counter(class_of(tool, None)[0] for tool in tools)
    return {each: counted[each] for each in ("read", "write", "destructive", "unknown")}


def _overridden(tool: Tool, args: Mapping[str, Any] | None) -> Operation:
    if args is None:
        return _higher(highest_of(entries) for entries in tool.overrides)
    return matched(tool, args, ())[0]


def _higher(found: Iterable[Operation]) -> Operation:
    return max(found, key=RANK.__getitem__)


def highest_of(entries: Sequence[Override]) -> Operation:
    """What this override can class a tool at most."""
    if entries[-1].when is not None:
        return "destructive"
    return _higher(entry.tool_class for entry in entries)


def matched(
    tool: Tool, args: Mapping[str, Any], verdicts: Sequence[CheckVerdict]
) -> tuple[Operation, PendingCheck | None]:
    """The class that its overrides give a call with these arguments: of several the highest. Where it cannot be told
    whether a `when` fits, the highest that its override has, and which check that is about."""
    found = [_first_that_fits(entries, args, verdicts) for entries in tool.overrides]
    unknown = (pending for _, pending in found if pending is not None)
    return _higher(tool_class for tool_class, _ in found), next(unknown, None)


def _first_that_fits(
    entries: Sequence[Override], args: Mapping[str, Any], verdicts: Sequence[CheckVerdict]
) -> tuple[Operation, PendingCheck | None]:
    for entry in entries:
        fits = entry.when is None or entry.when(args)
        if isinstance(fits, PendingCheck):
            verdict = verdict_on(fits, verdicts)
            if verdict is None or verdict.cannot is not None:
                return highest_of(entries), fits
            fits = verdict.wrong is None
        if fits:
            return entry.tool_class, None
    return "destructive", None  # settings demand a last entry without `when`; if one is missing, fail closed


def verdict_on(pending: PendingCheck, verdicts: Sequence[CheckVerdict]) -> CheckVerdict | None:
    """What was found out about these arguments and this schema, and about no others."""
    for verdict in verdicts:
        if verdict.schema == pending.schema.text and json_values.same(verdict.args, pending.args):
            return verdict
    return None


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


_COUNTED: Final[Mapping[str, str]] = {
    "allow": "the read door lets {them} through",
    "write": "{they} as write, so the read door refuses {them}",
    "destructive": "{they} as destructive, so only the destructive door lets {them} through",
}


def is_unannotated(tool: Tool) -> bool:
    """Whether neither its server nor the operator has said what it does."""
    return not tool.overrides and tool.declared == "unknown"


def said_of_unannotated(count: int, policy: str) -> str:
    """What a person has to know of so many of them, under this `intent_declaration.unannotated`."""
    one = count == 1
    they = ("tool has", "it counts", "it") if one else ("tools have", "they count", "them")
    return f"{count} {they[0]} no hints; " + _COUNTED.get(policy, _COUNTED["allow"]).format(they=they[1], them=they[2])


def next_step_for(server: str) -> str:
    return f"mcpproxy tools classify {server}"


def call_with(tool: Tool, policy: Policy) -> str:
    """The variant an agent should use: safe for the highest class the tool can have (FIND-1, GATE-8), as far as its
    ceiling allows."""
    highest, _ = class_of(tool, None)
    counted = effective(tool, highest, policy)
    return VARIANT_OF[min("write" if counted == "unknown" else counted, policy.ceiling, key=RANK.__getitem__)]
