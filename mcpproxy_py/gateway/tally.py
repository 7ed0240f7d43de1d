"""What became of all asks, counted. Every label is from a closed set: what an agent made up is counted as `other`."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from mcpproxy_py.core.values import UNDECLARING, VARIANTS, Ask, Decision, Refusal, Route, Status

OWN_TOOLS: Final = frozenset({*VARIANTS, "retrieve_tools", "request_capability"})
NONE: Final = "none"
"""The class of an ask that was turned down before its tool was known, or is about no tool."""


class Kind(NamedTuple):
    """What is counted as one."""

    variant: str
    tool_class: str
    outcome: Status
    rule: str


class Tally:
    def __init__(self) -> None:
        self.asks: Counter[Kind] = Counter()

    def count(self, ask: Ask, decision: Decision, rule: str, outcome: Status) -> None:
        """An ask has ended. `rule` decided in the end: a call that was allowed may still find no room."""
        variant = ask.tool if ask.surface == "gate" and ask.tool in OWN_TOOLS else variant_of(ask)
        tool_class = (decision.tool_class or NONE) if type(decision) is Route else class_of(decision)
        self.asks[Kind(variant, tool_class, outcome, rule)] += 1

    def by_variant(self) -> dict[str, dict[str, int]]:
        table: dict[str, dict[str, int]] = {}
        for kind, count in sorted(self.asks.items()):
            row = table.setdefault(kind.variant, {})
            row[kind.outcome] = row.get(kind.outcome, 0) + count
        return table


def variant_of(ask: Ask) -> str:
    """The gate's own tool that was called, or the surface where there is no choice of them."""
    if ask.surface in UNDECLARING:
        return ask.surface
    return ask.tool if ask.tool in OWN_TOOLS else "other"


def class_of(decision: Decision) -> str:
    return (decision.tool_class if isinstance(decision, Route | Refusal) else None) or NONE
