"""What a tool does to the world: read, write, destructive, or unknown (SPEC section 3).

Read from the wire object, never from a typed model: models rename the hints and drop what they do not
know, and a hint that is misread lets a deletion through the read door (UP-10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.pending_checks import CheckVerdict, PendingCheck
from mcpproxy_py.core.values import RANK, VARIANT_OF, ClassOrigin, Operation, Policy, Tool, ToolClass

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


def _overridden(tool: Tool, args: Mapping[str, Any] | None) -> Operation:
    return highest_of(tool) if args is None else matched(tool, args, ())[0]


def highest_of(tool: Tool) -> Operation:
    """What its override can class it at most."""
    if tool.overrides[-1].when is not None:
        return "destructive"
    return max((entry.tool_class for entry in tool.overrides), key=RANK.__getitem__)


def matched(
    tool: Tool, args: Mapping[str, Any], verdicts: Sequence[CheckVerdict]
) -> tuple[Operation, PendingCheck | None]:
    """The class that its override gives a call with these arguments. Where it cannot be told whether a `when` fits, the
    highest there is, and which check that is about."""
    for entry in tool.overrides:
        fits = entry.when is None or entry.when(args)
        if isinstance(fits, PendingCheck):
            verdict = verdict_on(fits, verdicts)
            if verdict is None or verdict.cannot is not None:
                return highest_of(tool), fits
            fits = verdict.wrong is None
        if fits:
            return entry.tool_class, None
    return "destructive", None  # settings demand a last entry without `when`; if one is missing, fail closed


def verdict_on(pending: PendingCheck, verdicts: Sequence[CheckVerdict]) -> CheckVerdict | None:
    """What was found out about these arguments and this schema, and about no others."""
    for verdict in verdicts:
        same = verdict.args is pending.args or verdict.args == pending.args
        if same and verdict.schema == pending.schema.text:
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


def call_with(tool: Tool, policy: Policy) -> str:
    """The variant an agent should use: safe for the highest class the tool can have (FIND-1, GATE-8)."""
    highest, _ = class_of(tool, None)
    counted = effective(tool, highest, policy)
    return VARIANT_OF["write" if counted == "unknown" else counted]
