"""What another class of a tool would have done to calls that are on record. Pure.

Only what the class decides is looked at: whether the variant that was called covers it, and whether a person would be
asked first. A record has no more than what was masked and capped, so an override that depends on arguments counts as
the highest class that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.policy.tool_class import class_of, effective
from mcpproxy_py.core.values import RANK, VARIANTS, Operation, Policy, Tool, ToolClass, risk
from mcpproxy_py.errors import Code

MOST_EXAMPLES: Final = 5
DECLARING: Final = ("gate", "rest")
"""Doors at which a variant is called, so that a class can contradict it."""


class ClassEffect(NamedTuple):
    """Of so many records that were looked at. `examples` are some of those that would have gone otherwise."""

    looked_at: int
    refused: int
    """Went through, and would have been refused."""
    allowed: int
    """Were refused for the class, and would have gone through."""
    asked: int
    """Went through without a question, and a person would have been asked."""
    examples: list[dict[str, Any]]


def counted_class(tool: Tool, policy: Policy) -> ToolClass:
    """What the tool counts as, by the highest class that it can have."""
    return effective(tool, class_of(tool, None)[0], policy)


def effect(rows: Iterable[Mapping[str, Any]], before: Tool, after: Tool, policy: Policy, confirm: str) -> ClassEffect:
    """`rows` are records of calls of this tool, as they are shown; `confirm` is the server's."""
    was, now = counted_class(before, policy), counted_class(after, policy)
    counts = {"refused": 0, "allowed": 0, "asked": 0}
    examples: list[dict[str, Any]] = []
    looked_at = 0
    for row in rows:
        looked_at += 1
        for what in _changes(row, was, now, policy, confirm):
            counts[what] += 1
            if len(examples) < MOST_EXAMPLES:
                examples.append({"id": row["id"], "timestamp": row["timestamp"], "would": what})
    return ClassEffect(looked_at, counts["refused"], counts["allowed"], counts["asked"], examples)


def _changes(row: Mapping[str, Any], was: ToolClass, now: ToolClass, policy: Policy, confirm: str) -> Iterator[str]:
    about: Mapping[str, Any] = row.get("metadata") or {}
    variant = VARIANTS.get(about.get("tool_variant", ""))
    if variant is None:
        return
    wrong: Mapping[str, Any] = row.get("error") or {}
    error = wrong.get("code")
    declared = row.get("surface") in DECLARING
    if row.get("status") == "blocked":
        if declared and error == Code.SERVER_MISMATCH.value and not _refuses(variant, now, policy):
            yield "allowed"
    elif declared and _refuses(variant, now, policy):
        yield "refused"
    else:
        said_variant: Operation = variant if declared else "read"  # elsewhere the class itself says it
        if _asks(said_variant, now, confirm) and not _asks(said_variant, was, confirm):
            yield "asked"


def _refuses(variant: Operation, tool_class: ToolClass, policy: Policy) -> bool:
    """As the rung `class` does: in permissive mode it warns."""
    return policy.strict and tool_class != "unknown" and RANK[tool_class] > RANK[variant]


def _asks(variant: Operation, tool_class: ToolClass, confirm: str) -> bool:
    return confirm in ("write", "destructive") and RANK[risk(variant, tool_class)] >= RANK[confirm]  # type: ignore[index]


def said(found: ClassEffect) -> str:
    """In a sentence, for people."""
    if not found.looked_at:
        return "No call of it is on record."
    calls = "the last call" if found.looked_at == 1 else f"the last {found.looked_at} calls"
    parts = [
        f"{count} of {calls} {says}"
        for count, says in (
            (found.refused, "would have been refused"),
            (found.allowed, "would not have been refused"),
            (found.asked, "would have asked a person first"),
        )
        if count
    ]
    return f"{'; '.join(parts)}." if parts else f"Of {calls}, none would have gone otherwise."
