"""What is missing, and who has to do what about it (GAP-1).

A pure function from seven yes-or-no facts to one answer, by a ladder of rules: the first whose conditions all
hold decides. The last has no condition, so every combination has exactly one answer. `docs/reference/gap.md` is
printed from this table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

State = Literal["connected_enabled", "connected_disabled", "cataloged_not_connected", "uncataloged"]
Gap = Literal["tool_missing", "connector_missing", "connector_disabled", "unknown"]
NextAction = Literal["use_tool", "ask_human_to_connect", "ask_human_to_enable", "file_capability_request", "stop"]

STATES: Final[tuple[State, ...]] = ("connected_enabled", "connected_disabled", "cataloged_not_connected", "uncataloged")
GAPS: Final[tuple[Gap, ...]] = ("tool_missing", "connector_missing", "connector_disabled", "unknown")
NEXT_ACTIONS: Final[tuple[NextAction, ...]] = (
    "use_tool", "ask_human_to_connect", "ask_human_to_enable", "file_capability_request", "stop"
)  # fmt: skip
MOST_TOOLS: Final = 50


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one server, for one caller.

    `tool_present` says whether every tool that was asked for is there; it means nothing where none was.
    """

    cataloged: bool
    configured: bool
    enabled: bool
    connected: bool
    authorised: bool
    tool_asked: bool
    tool_present: bool


FACT_NAMES: Final = tuple(one.name for one in fields(Facts))


@dataclass(frozen=True, slots=True)
class Rule:
    """`when` lists the facts that must hold; a leading `not ` turns one round."""

    name: str
    when: tuple[str, ...]
    gap: Gap
    next_action: NextAction
    approval_needed: bool
    reason: str


RULES: Final[tuple[Rule, ...]] = (
    Rule("disabled", ("connected", "not enabled"), "connector_disabled", "ask_human_to_enable", True,
         "The server is there but turned off; a person can enable it."),
    Rule("unauthorised", ("connected", "not authorised"), "unknown", "stop", True,
         "The server is connected, but this caller may not use it; a person would have to allow that."),
    Rule("tool_missing", ("connected", "tool_asked", "not tool_present"), "tool_missing", "file_capability_request",
         True, "The server is connected, but it does not offer every tool that was asked for."),
    Rule("usable", ("connected",), "unknown", "use_tool", False,
         "Nothing is known to be missing: the server is connected and enabled, so use its tools."),
    Rule("configured_disabled", ("configured", "not enabled"), "connector_disabled", "ask_human_to_enable", True,
         "The server is configured but turned off; a person can enable it."),
    Rule("configured_down", ("configured",), "connector_missing", "ask_human_to_connect", True,
         "The server is configured but not connected now; a person can see why and fix it."),
    Rule("cataloged", ("cataloged",), "connector_missing", "ask_human_to_connect", True,
         "The catalog knows the server, but nobody has connected it; a person can."),
    Rule("uncataloged", (), "connector_missing", "file_capability_request", True,
         "Neither the catalog nor the configuration knows the server; ask for it with mcp_request_capability."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Classification:
    state: State
    rule: Rule
    available_tools: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "gap": self.rule.gap,
            "available_tools": list(self.available_tools[:MOST_TOOLS]),
            "next_action": self.rule.next_action,
            "approval_needed": self.rule.approval_needed,
            "reason": self.rule.reason,
        }


def classify(facts: Facts, tools: Sequence[str] = ()) -> Classification:
    """The one answer for these facts. `tools` are those the caller could call; they count where the server can."""
    rule = next(rule for rule in RULES if all(_holds(condition, facts) for condition in rule.when))
    usable = facts.connected and facts.enabled and facts.authorised
    return Classification(state_of(facts), rule, tuple(tools) if usable else ())


def state_of(facts: Facts) -> State:
    if facts.connected:
        return "connected_enabled" if facts.enabled else "connected_disabled"
    return "cataloged_not_connected" if facts.cataloged else "uncataloged"


def _holds(condition: str, facts: Facts) -> bool:
    negated = condition.startswith("not ")
    return getattr(facts, condition.removeprefix("not ")) is not negated
