"""The ladder that an ask went up, as far as its record tells: which rungs it passed, which one refused, what stopped
it after that.

Nothing is decided anew: the same rungs stand in the same order for every ask of a surface, and the record names the one
that refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.json_values import as_object
from mcpproxy_py.core.policy import decide, rungs

_OF_TYPE: Final = {"resource_read", "prompt_get", "completion", "request"}
"""The types of asks that are relayed and call no tool."""

LOOKS_AT: Final[Mapping[str, str]] = {
    "shape": "the outer arguments are an object without unknown keys",
    "name": "the name is server:tool",
    "arguments": "the arguments are one JSON object",
    "intent": "an intent is declared and well formed",
    "two_keys": "the declared operation equals the variant",
    "server": "the server exists and is enabled",
    "connected": "its connection is up",
    "tool": "the server has the tool",
    "offered": "the lists of the operator let it be called",
    "class": "the variant covers what the tool does",
    "ceiling": "it risks no more than this principal may",
    "freeze": "nothing above read runs while frozen",
    "confirm": "whether a person has to say yes first",
    "schema": "the arguments fit the tool's schema",
    "outer_name": "the name leads to a tool",
    "passive": "an intent beside the call is well formed",
    "implied": "the class of the tool says which variant it is",
    "method": "the method is not one that only looks like another",
}
"""What each rung looks at, in a few words for people."""
_AFTER: Final = "stopped after the decision"


def rungs_on_record(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each with `number`, `rule`, `looks_at`, `outcome` (`passed`, `failed` or `not reached`) and `message`. What was
    refused after the ladder ends with one more step, which no number has. Empty for what was not decided on one."""
    decision, ladder = as_object(_inner(record, "metadata", "decision")), _ladder(record)
    if decision is None or decision.get("verdict") == "local" or ladder is None:
        return []
    rule, refused = decision.get("rule"), record.get("status") == "blocked"
    if rule == "ceiling":
        ladder = decide.BELOW_CEILING[ladder]
    names = [name for name, _ in ladder]
    if decision.get("verdict") == "refuse" and rule not in names:
        return []  # refused before the ladder was begun
    said = _text(_inner(record, "error", "message"))
    at = names.index(rule) if refused and rule in names else len(names)
    steps: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        outcome = "passed" if number < at else "failed" if number == at else "not reached"
        note = said if number == at else _text(decision.get("warning")) if name == "class" and number < at else ""
        steps.append(_step(number + 1, name, LOOKS_AT[name], outcome, note))
    if refused and at == len(names):
        after = _text(_inner(record, "metadata", "refused_by")) or _text(_inner(record, "error", "code"))
        steps.append(_step(None, after or "refused", LOOKS_AT.get(after, _AFTER), "failed", said))
    return steps


def _step(number: int | None, rule: str, looks_at: str, outcome: str, message: str) -> dict[str, Any]:
    return {"number": number, "rule": rule, "looks_at": looks_at, "outcome": outcome, "message": message}


def _ladder(record: Mapping[str, Any]) -> tuple[rungs.Step, ...] | None:
    surface, kind = record.get("surface"), record.get("type")
    if kind in _OF_TYPE:
        return decide.RELAYED
    if kind != "tool_call":
        return None
    if surface in ("gate", "rest"):
        return decide.GATE
    return decide.PASSED_THROUGH if surface == "passthrough" else decide.UNDECLARED


def _inner(value: Any, *path: str) -> Any:
    for key in path:
        value = (as_object(value) or {}).get(key)
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
