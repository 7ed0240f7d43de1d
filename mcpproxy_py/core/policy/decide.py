"""The decision: pure ladders from (ask, snapshot) to a route, a relay, a local answer, or a refusal.

The rungs of a `call_tool_*` ask, in order; the first that fails decides, and its name goes on record:

 1. `shape`      the outer arguments are an object and hold no unknown key
 2. `name`       `name` is `server:tool`
 3. `arguments`  `args` / `args_json` are one JSON object that survives being sent on
 4. `intent`     an intent is declared and well formed
 5. `two_keys`   intent.operation_type equals the variant (phase one; never relaxed)
 6. `server`     the server exists and is enabled
 7. `connected`  its connection is up
 8. `tool`       the server has the tool
 9. `offered`    the operator's allow and deny lists let it be called, and its name looks like no other
10. `class`      the variant covers what the tool does (phase two; permissive mode warns instead)
11. `freeze`     nothing above read runs while frozen
12. `confirm`    whether a person has to say yes first; refuses nothing itself
13. `schema`     the arguments fit the tool's input schema

For a principal whose scope has a ceiling (SEC-2), `ceiling` stands before `freeze`: what the call risks is not above
it. What is above it whatever the arguments, and a variant above it, is not there at all: such a snapshot is narrowed.
What is above the ceiling of the token only, and would not be with another token that the client can get, is there and
refused with `INSUFFICIENT_SCOPE`; a variant is, before anything else of the call is looked at.

On the direct and passthrough surfaces nothing is declared, so the same rungs stand in another order, with
four of their own: `outer_name` finds the tool, `arguments` takes them as they are, `passive` takes off the
optional `intent` of the direct surface, and `implied` lets the class say which variant this is. On
passthrough the server judges its arguments itself, so `schema` is left to it. For a request that is no tool call
`method` looks whether its method is one that only looks like another, and `offered` applies the lists to methods that
nobody knows; what such a one does nobody can say, so it counts as a write. A request about a call's task risks what the
call does, unless it only looks; `offered` looks at the call's tool again, and `freeze` lets a task be cancelled.

Not rungs: what a person says, whether the record can be written and whether the server has room. Those need I/O, so
`gateway.call` meets them while acting and answers with the same kind of refusal.

A new kind of check is a new rung, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy import rungs, surface_tools
from mcpproxy_py.core.policy.rungs import DecisionDraft, RungRefusal, Step
from mcpproxy_py.core.protocol.methods import RISKS
from mcpproxy_py.core.values import (
    RANK,
    UNDECLARING,
    VARIANTS,
    Ask,
    Decision,
    LocalAnswer,
    Operation,
    Refusal,
    Relay,
    Route,
    Snapshot,
    Surface,
)
from mcpproxy_py.errors import FACTS, Code

GONE: Final = (
    "Tool 'call_tool' not found. Use call_tool_read, call_tool_write, or call_tool_destructive "
    "with matching intent.operation_type. See retrieve_tools for annotations and recommendations."
)

GATE: Final[tuple[Step, ...]] = (
    rungs.SHAPE, rungs.NAME, rungs.ARGUMENTS, rungs.INTENT, rungs.TWO_KEYS, rungs.SERVER, rungs.CONNECTED, rungs.TOOL,
    rungs.OFFERED, rungs.CLASS, rungs.FREEZE, rungs.CONFIRM, rungs.SCHEMA,
)  # fmt: skip
UNDECLARED: Final[tuple[Step, ...]] = (
    rungs.OUTER_NAME, rungs.PLAIN_ARGUMENTS, rungs.SERVER, rungs.CONNECTED, rungs.TOOL, rungs.OFFERED, rungs.PASSIVE,
    rungs.IMPLIED, rungs.FREEZE, rungs.CONFIRM, rungs.SCHEMA,
)  # fmt: skip
PASSED_THROUGH: Final[tuple[Step, ...]] = tuple(
    step for step in UNDECLARED if step not in (rungs.PASSIVE, rungs.SCHEMA)
)
"""On passthrough a server judges arguments in its own words, as it would without us."""
RELAYED: Final[tuple[Step, ...]] = (
    rungs.METHOD, rungs.RELAYED_ARGUMENTS, rungs.SERVER, rungs.CONNECTED, rungs.LISTED, rungs.FREEZE, rungs.CONFIRM,
)  # fmt: skip


def _with_ceiling(ladder: tuple[Step, ...]) -> tuple[Step, ...]:
    """For a principal that may not do everything (SEC-2); no other needs to climb that rung."""
    at = ladder.index(rungs.FREEZE)
    return (*ladder[:at], rungs.CEILING, *ladder[at:])


BELOW_CEILING: Final = {each: _with_ceiling(each) for each in (GATE, UNDECLARED, PASSED_THROUGH, RELAYED)}
_LADDERS: Final[Mapping[Surface, tuple[Step, ...]]] = {
    "gate": GATE, "rest": GATE, "direct": UNDECLARED, "passthrough": PASSED_THROUGH,
}  # fmt: skip
_LADDERS_BELOW: Final = {surface: BELOW_CEILING[ladder] for surface, ladder in _LADDERS.items()}
"""Looked up with each call: the hash of a ladder is made of those of all its rungs."""

WISH_ON: Final[Mapping[Surface, str]] = {"direct": "request_capability"}
"""Beside its upstream tools, whose names all hold a separator, the direct surface has this one of its own."""


def decide(ask: Ask, snapshot: Snapshot) -> Decision:
    """What becomes of this ask. Pure: same ask, same snapshot, same answer."""
    if ask.method != "tools/call":
        return _relay(ask, snapshot)
    if ask.surface in UNDECLARING:
        own = ask.tool == WISH_ON.get(ask.surface)
    else:
        own = (variant := VARIANTS.get(ask.tool)) is None or RANK[variant] > RANK[snapshot.policy.token_ceiling]
    if own:
        return _local(ask, snapshot)
    draft, ladder = _begin(ask, snapshot)
    for rule, rung in ladder:
        refused = rung(ask, snapshot, draft)
        if refused is not None:
            return _refusal(rule, refused, draft)
    return Route(  # by position: names cost as much as a rung
        draft.server.name, draft.tool, draft.args, draft.variant, draft.intent, draft.tool_class or "unknown",
        draft.risk, "class_relaxed" if draft.relaxed else "allowed", draft.origin, draft.warning,
        draft.confirm, draft.view, draft.pending,
    )  # fmt: skip


def _begin(ask: Ask, snapshot: Snapshot) -> tuple[DecisionDraft, tuple[Step, ...]]:
    surface = ask.surface
    ladders = _LADDERS if snapshot.policy.token_ceiling == "destructive" else _LADDERS_BELOW
    return DecisionDraft("write" if surface in UNDECLARING else VARIANTS[ask.tool]), ladders[surface]


@dataclass(frozen=True, slots=True)
class RungResult:
    """One rung of a dry run: `passed`, `would wait`, `failed` or `not reached`."""

    number: int
    rule: str
    outcome: str
    message: str = ""


def explain(ask: Ask, snapshot: Snapshot) -> list[RungResult]:
    """The ladder run dry, with every rung shown (GATE-9)."""
    draft, ladder = _begin(ask, snapshot)
    steps: list[RungResult] = []
    failed = False
    for number, (rule, rung) in enumerate(ladder, 1):
        if failed:
            steps.append(RungResult(number, rule, "not reached"))
            continue
        refused = rung(ask, snapshot, draft)
        if refused is not None and refused.awaits is not None and hasattr(draft, "tool"):
            steps.append(RungResult(number, rule, "would wait", refused.message))
            continue
        failed = refused is not None
        note = refused.message if refused else _note(rule, draft)
        steps.append(RungResult(number, rule, "failed" if failed else "passed", note))
    return steps


def _note(rule: str, draft: DecisionDraft) -> str:
    """What is worth saying of a rung that let the call pass."""
    confirm = "a person is asked first" if draft.confirm else None
    notes = {"class": draft.warning, "implied": draft.undecided, "confirm": confirm, "schema": draft.unchecked}
    return notes.get(rule) or ""


def refuse(to: Route | Relay, code: Code, rule: str, message: str, details: Mapping[str, Any] | None = None) -> Refusal:
    """A refusal met while acting on a decision: no room, no record, no answer."""
    if isinstance(to, Relay):
        return Refusal(code, message, rule, FACTS[code].hint, name=to.full_name, details=details or {})
    return Refusal(
        code=code, message=message, rule=rule, remedy=FACTS[code].hint, name=to.tool.full_name,
        variant=to.variant, intent=to.intent, tool=to.tool, tool_class=to.tool_class, args=to.args,
        origin=to.origin, details=details or {},
    )  # fmt: skip


def _relay(ask: Ask, snapshot: Snapshot) -> Relay | Refusal:
    subject = ask.tool or ask.method
    risk: Operation = RISKS.get(ask.method, "write")
    if ask.method not in RISKS and snapshot.policy.token_ceiling != "destructive":
        risk = "destructive"  # who may not do everything may not do what nobody knows either
    elif ask.task is not None and risk != "read":
        risk = ask.task.risk  # of the call that it goes on with, to which a person has said yes
    server = ask.server or ""
    draft = DecisionDraft(risk)
    draft.split, draft.name, draft.risk = (server, subject), f"{server}:{subject}", risk
    for rule, rung in RELAYED if snapshot.policy.token_ceiling == "destructive" else BELOW_CEILING[RELAYED]:
        refused = rung(ask, snapshot, draft)
        if refused is not None:
            return _refusal(rule, refused, draft, variant=None)
    return Relay(server, ask.method, draft.params, subject, risk, confirm=draft.confirm and ask.task is None)


def _local(ask: Ask, snapshot: Snapshot) -> Decision:
    variant = VARIANTS.get(ask.tool)
    if variant is not None and RANK[variant] <= RANK[snapshot.policy.ceiling]:
        return _refusal("token_scope", rungs.needs_scopes(ask.tool, variant), DecisionDraft(variant), variant=None)
    exists = ask.tool in surface_tools.PARAMS and (snapshot.policy.offers_requests or ask.tool != "request_capability")
    if not exists:
        gone = ask.tool == "call_tool"
        message = GONE if gone else f"Unknown tool: {json_values.quoted(ask.tool)}"
        rule = "call_tool_is_gone" if gone else "outer_name"
        return Refusal(Code.TOOL_NOT_FOUND, message, rule, FACTS[Code.TOOL_NOT_FOUND].hint)
    checked = surface_tools.check(ask.tool, ask.params)
    if isinstance(checked, str):
        remedy = FACTS[Code.INVALID_ARGUMENTS].hint
        return Refusal(Code.INVALID_ARGUMENTS, f"{ask.tool}: {checked}", "local_arguments", remedy)
    return LocalAnswer(ask.tool, checked)


def _refusal(rule: str, no: RungRefusal, draft: DecisionDraft, **other: Any) -> Refusal:
    known = vars(draft) | other
    return Refusal(
        code=no.code, message=no.message, rule=rule, remedy=no.remedy or FACTS[no.code].hint, name=draft.name,
        variant=known["variant"], intent=known.get("intent"), claimed=draft.claimed, tool=known.get("tool"),
        tool_class=draft.tool_class, args=known.get("args"), awaits=no.awaits, details=no.details, origin=draft.origin,
        pending=draft.pending,
    )  # fmt: skip
