"""The decision: one pure ladder from (ask, snapshot) to a route, a local answer, or a refusal.

The rungs of a `call_tool_*` ask, in order; the first that fails decides, and its name goes on record:

 1. `shape`      the outer arguments are an object and hold no unknown key
 2. `name`       `name` is `server:tool`
 3. `arguments`  `args` / `args_json` are one JSON object that survives being sent on
 4. `intent`     an intent is declared and well formed
 5. `two_keys`   intent.operation_type equals the variant (phase one; never relaxed)
 6. `server`     the server exists and is enabled
 7. `connected`  its connection is up
 8. `tool`       the server has the tool
 9. `offered`    the operator's allow and deny lists let it be called
10. `class`      the variant covers what the tool does (phase two; permissive mode warns instead)
11. `freeze`     nothing above read runs while frozen
12. `confirm`    what the operator wants confirmed is confirmed
13. `schema`     the arguments fit the tool's input schema

Not rungs: whether the record can be written and whether the server has room. Those need I/O, so
`gateway.call` meets them while acting and answers with the same kind of refusal.

A new kind of check is a new rung here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mcpproxy_py.core import asking, intent, jsonvalue, localtools
from mcpproxy_py.core.classes import call_with, class_of, effective
from mcpproxy_py.core.values import (
    OPERATIONS,
    RANK,
    VARIANT_OF,
    VARIANTS,
    Ask,
    ClassOrigin,
    Decision,
    Intent,
    Local,
    Operation,
    Refusal,
    Route,
    Server,
    Snapshot,
    Tool,
    ToolClass,
    risk,
)
from mcpproxy_py.core.words import nearest
from mcpproxy_py.errors import FACTS, Code

GONE: Final = (
    "Tool 'call_tool' not found. Use call_tool_read, call_tool_write, or call_tool_destructive "
    "with matching intent.operation_type. See retrieve_tools for annotations and recommendations."
)
BY: Final[Mapping[ClassOrigin, str]] = {
    "server": "by server",
    "override": "by the operator's override",
    "unannotated": "by the rule for unannotated tools",
    "untrusted": "by the rule for unannotated tools",
}
MARK: Final[Mapping[ToolClass, str]] = {"destructive": "destructive", "write": "not read-only", "read": "read-only"}


@dataclass(slots=True)
class Draft:
    """What the ladder has learned so far. Lives for one decision; every rung may rely on those before it."""

    variant: Operation
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str | None = None
    split: tuple[str, str] = ("", "")
    args: Mapping[str, Any] | None = None
    intent: Intent | None = None
    claimed: Any = None
    server: Server | None = None
    tool: Tool | None = None
    tool_class: ToolClass | None = None
    origin: ClassOrigin = "server"
    risk: Operation = "write"
    warning: str | None = None
    relaxed: bool = False


@dataclass(frozen=True, slots=True)
class No:
    """A rung's refusal, before the ladder adds what was known by then."""

    code: Code
    message: str
    remedy: str | None = None
    awaits: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


T = TypeVar("T")
Rung = Callable[[Ask, Snapshot, Draft], No | None]


def _shape(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    params = jsonvalue.as_object(ask.params)
    if params is None:
        return No(Code.INVALID_ARGUMENTS, f"{ask.tool} takes an object of arguments, not {jsonvalue.kind(ask.params)}")
    draft.params = params
    problem = asking.unknown_param(draft.params, asking.CALL_PARAMS)
    return No(Code.INVALID_ARGUMENTS, f"{ask.tool}: {problem}") if problem else None


def _name(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    split = asking.split_name(draft.params.get("name"))
    if isinstance(split, str):
        return No(Code.INVALID_NAME, split)
    draft.split = split
    draft.name = f"{split[0]}:{split[1]}"
    return None


def _arguments(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    try:
        draft.args = asking.arguments(draft.params, snapshot.policy.max_depth)
    except asking.ArgsConflictError as error:
        return No(Code.ARGS_CONFLICT, str(error))
    except ValueError as error:
        return No(Code.INVALID_ARGUMENTS, str(error))
    return None


def _intent(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    parsed = intent.parse(draft.params, VARIANT_OF[draft.variant])
    if isinstance(parsed, Intent):
        draft.intent = parsed
        return None
    if parsed.code is Code.MISSING_INTENT and snapshot.policy.missing_intent == "infer":
        draft.intent = Intent(draft.variant, source="inferred")
        return None
    draft.claimed = parsed.claimed
    return No(parsed.code, parsed.message)


def _two_keys(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    declared = _known(draft.intent).operation_type
    if declared == draft.variant:
        return None
    remedy = f"call {VARIANT_OF[declared]}, or declare {draft.variant} if that is what you mean"
    return No(
        Code.INTENT_MISMATCH,
        f"Intent mismatch: tool is {VARIANT_OF[draft.variant]} but intent declares {declared}",
        remedy,
    )


def _server(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    server = snapshot.servers.get(draft.split[0])
    if server is None:
        return _not_found(draft, snapshot)
    draft.server = server
    draft.tool = server.tools.get(draft.split[1])
    if server.state == "disabled":
        return No(Code.TOOL_UNAVAILABLE, f"Tool '{draft.name}' is unavailable: server '{server.name}' is disabled")
    return None


def _connected(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    server = _known(draft.server)
    if server.state == "connected":
        return None
    why = f": {server.error}" if server.error else ""
    awaits = server.name if server.state in ("connecting", "sleeping") else None
    return No(Code.SERVER_UNAVAILABLE, f"Server '{server.name}' is {server.state}{why}", awaits=awaits)


def _tool(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    return None if draft.tool is not None else _not_found(draft, snapshot)


def _offered(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    server, tool = _known(draft.server), _known(draft.tool)
    if server.offers(tool.name):
        return None
    return No(Code.TOOL_UNAVAILABLE, f"Tool '{draft.name}' is unavailable: the operator's lists exclude it")


def _class(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    tool, policy = _known(draft.tool), snapshot.policy
    found, draft.origin = class_of(tool, _known(draft.args))
    draft.tool_class = found
    counted = effective(tool, found, policy)
    by = BY[draft.origin if counted == found else "unannotated"]
    draft.risk = risk(draft.variant, counted)
    if counted == "unknown" or RANK[counted] <= RANK[draft.variant]:
        if draft.variant == "write" and counted == "read":
            draft.warning = f"Tool '{draft.name}' is marked read-only {by}, call_tool_read is enough"
        return None
    target = VARIANT_OF[OPERATIONS[RANK[counted]]]
    message = f"Tool '{draft.name}' is marked {MARK[counted]} {by}, use {target}"
    if not policy.strict:
        draft.warning, draft.relaxed = message, True
        return None
    return No(Code.SERVER_MISMATCH, message, f"call {target} with intent.operation_type {OPERATIONS[RANK[counted]]}")


def _freeze(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    if not snapshot.policy.frozen or draft.risk == "read":
        return None
    return No(Code.FROZEN, f"Tool '{draft.name}' is refused: this gateway is frozen, and only reads run")


def _confirm(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    wanted = _known(draft.server).confirm
    if wanted == "none" or RANK[draft.risk] < RANK[wanted]:
        return None
    message = f"Tool '{draft.name}' needs a person's confirmation, and this gateway cannot ask for one yet"
    return No(Code.NOT_CONFIRMED, message)


def _schema(ask: Ask, snapshot: Snapshot, draft: Draft) -> No | None:
    tool = _known(draft.tool)
    wrong = tool.violation(_known(draft.args)) if tool.violation else None
    if wrong is None:
        return None
    details = {"inputSchema": tool.wire.get("inputSchema")}
    return No(Code.INVALID_ARGUMENTS, f"Invalid arguments for '{draft.name}': {wrong}", details=details)


LADDER: Final[tuple[tuple[str, Rung], ...]] = (
    ("shape", _shape),
    ("name", _name),
    ("arguments", _arguments),
    ("intent", _intent),
    ("two_keys", _two_keys),
    ("server", _server),
    ("connected", _connected),
    ("tool", _tool),
    ("offered", _offered),
    ("class", _class),
    ("freeze", _freeze),
    ("confirm", _confirm),
    ("schema", _schema),
)


def decide(ask: Ask, snapshot: Snapshot) -> Decision:
    """What becomes of this ask. Pure: same ask, same snapshot, same answer."""
    variant = VARIANTS.get(ask.tool)
    if variant is None:
        return _local(ask, snapshot)
    draft = Draft(variant)
    for rule, rung in LADDER:
        refused = rung(ask, snapshot, draft)
        if refused is not None:
            return _refusal(rule, refused, draft)
    return Route(
        server=_known(draft.server).name,
        tool=_known(draft.tool),
        args=_known(draft.args),
        variant=variant,
        intent=_known(draft.intent),
        tool_class=draft.tool_class or "unknown",
        risk=draft.risk,
        rule="class_relaxed" if draft.relaxed else "allowed",
        warning=draft.warning,
        origin=draft.origin,
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One rung of a dry run: `passed`, `would wait`, `failed` or `not reached`."""

    number: int
    rule: str
    outcome: str
    message: str = ""


def explain(ask: Ask, snapshot: Snapshot) -> list[Step]:
    """The ladder run dry, with every rung shown (GATE-9)."""
    draft = Draft(VARIANTS[ask.tool])
    steps: list[Step] = []
    failed = False
    for number, (rule, rung) in enumerate(LADDER, 1):
        if failed:
            steps.append(Step(number, rule, "not reached"))
            continue
        refused = rung(ask, snapshot, draft)
        if refused is not None and refused.awaits is not None and draft.tool is not None:
            steps.append(Step(number, rule, "would wait", refused.message))
            continue
        failed = refused is not None
        note = refused.message if refused else (draft.warning or "") if rule == "class" else ""
        steps.append(Step(number, rule, "failed" if failed else "passed", note))
    return steps


def refuse(route: Route, code: Code, rule: str, message: str, details: Mapping[str, Any] | None = None) -> Refusal:
    """A refusal met while acting on a route: no room, no record, no answer."""
    return Refusal(
        code=code, message=message, rule=rule, remedy=FACTS[code].hint, name=route.tool.full_name,
        variant=route.variant, intent=route.intent, tool=route.tool, tool_class=route.tool_class, args=route.args,
        origin=route.origin, details=details or {},
    )  # fmt: skip


def _local(ask: Ask, snapshot: Snapshot) -> Decision:
    exists = ask.tool in localtools.PARAMS and (snapshot.policy.wishes or ask.tool != "request_capability")
    if not exists:
        gone = ask.tool == "call_tool"
        message = GONE if gone else f"Unknown tool: {jsonvalue.quoted(ask.tool)}"
        rule = "call_tool_is_gone" if gone else "unknown_outer_tool"
        return Refusal(Code.TOOL_NOT_FOUND, message, rule, FACTS[Code.TOOL_NOT_FOUND].hint)
    checked = localtools.check(ask.tool, ask.params)
    if isinstance(checked, str):
        remedy = FACTS[Code.INVALID_ARGUMENTS].hint
        return Refusal(Code.INVALID_ARGUMENTS, f"{ask.tool}: {checked}", "local_arguments", remedy)
    return Local(ask.tool, checked)


def _refusal(rule: str, no: No, draft: Draft) -> Refusal:
    return Refusal(
        code=no.code, message=no.message, rule=rule, remedy=no.remedy or FACTS[no.code].hint, name=draft.name,
        variant=draft.variant, intent=draft.intent, claimed=draft.claimed, tool=draft.tool,
        tool_class=draft.tool_class, args=draft.args, awaits=no.awaits, details=no.details, origin=draft.origin,
    )  # fmt: skip


def _not_found(draft: Draft, snapshot: Snapshot) -> No:
    """Tools in reach with a similar name; of a server that exists only its own, so that the search stays short."""
    server = draft.server
    pool = [server] if server else [s for s in snapshot.servers.values() if s.state != "disabled"]
    names = (f"{s.name}:{tool}" for s in pool for tool in s.tools if s.offers(tool))
    near = nearest(draft.name or "", names, 3)
    hint = f". Nearest: {', '.join(near)}" if near else ""
    use = f"call {call_with_of(near[0], snapshot)} with {near[0]}, or search with retrieve_tools" if near else None
    return No(Code.TOOL_NOT_FOUND, f"Tool '{draft.name}' not found{hint}", use, details={"nearest": near})


def call_with_of(full_name: str, snapshot: Snapshot) -> str:
    server, _, tool = full_name.partition(":")
    return call_with(snapshot.servers[server].tools[tool], snapshot.policy)


def _known(value: T | None) -> T:
    """An earlier rung has set this; the order of the ladder guarantees it."""
    assert value is not None
    return value
