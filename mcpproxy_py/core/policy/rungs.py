"""The rungs that ladders are made of: each looks at one thing, and notes what the next may rely on.

A rung gives `None` to go on, or the first thing that is wrong. `core.policy.decide` says which rungs make up
which ladder, in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcpproxy_py.core import json_values, values
from mcpproxy_py.core.pending_checks import PendingCheck
from mcpproxy_py.core.policy import argument_checks, declaration
from mcpproxy_py.core.policy.tool_class import BY, MARK, call_with, class_of, effective
from mcpproxy_py.core.policy.tool_names import MAX_NAME, normal_form
from mcpproxy_py.core.protocol.apps import APP_ONLY, is_shown_at
from mcpproxy_py.core.protocol.methods import RISKS
from mcpproxy_py.core.protocol.tasks import CANCEL
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.core.values import (
    NOTHING,
    OPERATIONS,
    RANK,
    UNDECLARING,
    VARIANT_OF,
    Ask,
    ClassOrigin,
    Intent,
    Operation,
    Policy,
    Server,
    Snapshot,
    Surface,
    Tool,
    ToolClass,
    ToolView,
    ViewKey,
    risk,
)
from mcpproxy_py.errors import Code


class DecisionDraft:
    """What the ladder has learned so far. Lives for one decision. What has no value here is set by the rung that finds
    it out, and the order of the ladder guarantees that to those after it."""

    variant: Operation
    params: Mapping[str, Any] = NOTHING
    name: str | None = None
    split: tuple[str, str] = ("", "")
    key: ViewKey = ("gate", None, "")
    """Under which the snapshot has, or will have, its view of the tool."""
    view: ToolView | None = None
    args: Mapping[str, Any]
    intent: Intent
    claimed: Any = None
    server: Server
    tool: Tool
    tool_class: ToolClass | None = None
    origin: ClassOrigin = "server"
    risk: Operation = "write"
    warning: str | None = None
    relaxed: bool = False
    confirm: bool = False
    pending: PendingCheck | None = None
    undecided: str | None = None
    unchecked: str | None = None
    """Why nobody can tell whether an override's `when` fits, or the input schema."""
    said: str | None = None
    """What an agent wrote into the optional `intent` of a direct tool."""

    def __init__(self, variant: Operation) -> None:
        self.variant = variant


@dataclass(frozen=True, slots=True)
class RungRefusal:
    """A rung's refusal, before the ladder adds what was known by then."""

    code: Code
    message: str
    remedy: str | None = None
    awaits: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


KNOWN_PARAMS: Final = frozenset(declaration.CALL_PARAMS)
Rung = Callable[[Ask, Snapshot, DecisionDraft], RungRefusal | None]
Step = tuple[str, Rung]


def _shape(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    params: Mapping[str, Any] = ask.params
    if not isinstance(ask.params, dict):
        return RungRefusal(
            Code.INVALID_ARGUMENTS, f"{ask.tool} takes an object of arguments, not {json_values.kind(ask.params)}"
        )
    draft.params = params
    if params.keys() <= KNOWN_PARAMS:
        return None
    problem = declaration.unknown_param(draft.params, declaration.CALL_PARAMS)
    return RungRefusal(Code.INVALID_ARGUMENTS, f"{ask.tool}: {problem}") if problem else None


def _name(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    name = draft.params.get("name")
    if isinstance(name, str):
        draft.key = (ask.surface, ask.server, name)
        if (view := snapshot.views.get(draft.key)) is not None:
            draft.view, draft.split, draft.name = view, view.split, view.name
            return None
    split = declaration.split_name(name)
    if isinstance(split, str):
        return RungRefusal(Code.INVALID_NAME, split)
    draft.split = split
    draft.name = f"{split[0]}:{split[1]}"
    return None


def _arguments(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    try:
        draft.args = declaration.arguments(draft.params, snapshot.policy.max_depth, ask.plain)
    except declaration.ArgsConflictError as error:
        return RungRefusal(Code.ARGS_CONFLICT, str(error))
    except ValueError as error:
        return RungRefusal(Code.INVALID_ARGUMENTS, str(error))
    return None


def _intent(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    parsed = declaration.parse(draft.params, VARIANT_OF[draft.variant])
    if isinstance(parsed, Intent):
        draft.intent = parsed
        return None
    if parsed.code is Code.MISSING_INTENT and snapshot.policy.missing_intent == "infer":
        draft.intent = Intent(draft.variant, source="inferred")
        return None
    draft.claimed = parsed.claimed
    return RungRefusal(parsed.code, parsed.message)


def _two_keys(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    declared = draft.intent.operation_type
    if declared == draft.variant:
        return None
    remedy = f"call {VARIANT_OF[declared]}, or declare {draft.variant} if that is what you mean"
    return RungRefusal(
        Code.INTENT_MISMATCH,
        f"Intent mismatch: tool is {VARIANT_OF[draft.variant]} but intent declares {declared}",
        remedy,
    )


def _server(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    server = view.server if (view := draft.view) is not None else snapshot.servers.get(draft.split[0])
    if server is None:
        return not_found(ask, draft, snapshot)
    draft.server = server
    if (tool := view.tool if view is not None else server.tools.get(draft.split[1])) is not None:
        draft.tool = tool
    if server.state == "disabled":
        return RungRefusal(
            Code.TOOL_UNAVAILABLE, f"Tool '{draft.name}' is unavailable: server '{server.name}' is disabled"
        )
    if ask.asked_by is not None and not ask.asked_by(server.identity):
        why = "it is another program or address now than the one that this continues; start anew"
        return RungRefusal(Code.TOOL_UNAVAILABLE, f"Server '{server.name}' was replaced: {why}")
    return None


def _connected(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    server = draft.server
    if server.state == "connected":
        return None
    why = f": {server.error}" if server.error else ""
    awaits = server.name if server.state in ("connecting", "sleeping") else None
    return RungRefusal(Code.SERVER_UNAVAILABLE, f"Server '{server.name}' {server.condition}{why}", awaits=awaits)


def _tool(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    if draft.view is not None:
        return None
    if not hasattr(draft, "tool"):
        return not_found(ask, draft, snapshot)
    draft.view = snapshot.views[draft.key] = _view_of(draft, snapshot.policy)
    return None


def _view_of(draft: DecisionDraft, policy: Policy) -> ToolView:
    server, tool = draft.server, draft.tool
    fixed = all(entry.when is None for entries in tool.overrides for entry in entries)
    found, origin = class_of(tool, NOTHING if fixed else None)
    return ToolView(
        server=server, tool=tool, split=draft.split, name=draft.name or "", tool_class=found if fixed else None,
        origin=origin, effective=effective(tool, found, policy), offered=_is_offered(draft.key[0], server, tool),
    )  # fmt: skip


def _is_offered(surface: Surface, server: Server, tool: Tool) -> bool:
    return server.offers(tool.name) and is_shown_at(surface, tool.wire)


def _class_for(ask: Ask, draft: DecisionDraft, policy: Policy) -> ToolClass:
    """The class for these arguments, noted with who says so; gives what it counts as."""
    view = draft.view
    if view is not None and view.tool_class is not None:
        draft.tool_class, draft.origin = view.tool_class, view.origin
        return view.effective
    argument_checks.note_class(ask, draft, draft.args)
    return effective(draft.tool, draft.tool_class or "unknown", policy)


def _offered(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    if draft.view is not None and draft.view.offered:
        return None
    why = draft.server.forbids(draft.tool.name) or APP_ONLY
    details = {"reason": "changed"} if why == draft.tool.changed else NOTHING
    return RungRefusal(Code.TOOL_UNAVAILABLE, f"Tool '{draft.name}' is unavailable: {why}", details=details)


def _class(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    policy = snapshot.policy
    counted = _class_for(ask, draft, policy)
    by = BY[draft.origin if counted == draft.tool_class else "unannotated"]
    draft.risk = OPERATIONS[max(RANK[draft.variant], RANK[counted])]
    if counted == "unknown" or RANK[counted] <= RANK[draft.variant]:
        if draft.variant == "write" and counted == "read":
            draft.warning = f"Tool '{draft.name}' is marked read-only {by}, call_tool_read is enough"
        return None
    target = VARIANT_OF[OPERATIONS[RANK[counted]]]
    message = f"Tool '{draft.name}' is marked {MARK[counted]} {by}, use {target}"
    if not policy.strict:
        draft.warning, draft.relaxed = message, True
        return None
    return RungRefusal(
        Code.SERVER_MISMATCH, message, f"call {target} with intent.operation_type {OPERATIONS[RANK[counted]]}"
    )


def _ceiling(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    """What is always above it is not there at all; this is for what the arguments make of a tool, and for what the
    client can get another token for."""
    ceiling, token_ceiling = snapshot.policy.ceiling, snapshot.policy.token_ceiling
    if RANK[draft.risk] <= RANK[token_ceiling]:
        return None
    if RANK[draft.risk] <= RANK[ceiling]:
        return needs_scopes(f"A {draft.risk} call", draft.risk)
    message = f"Tool '{draft.name}' is unavailable: with these arguments it is {draft.risk}, and you may {ceiling} only"
    return RungRefusal(Code.TOOL_UNAVAILABLE, message)


def needs_scopes(what: str, operation: Operation) -> RungRefusal:
    """A client can get a token that allows this. The message tells nothing of the tool."""
    message = f"{what} needs a token with more scopes"
    return RungRefusal(Code.INSUFFICIENT_SCOPE, message, details={"operation": operation})


def _freeze(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    if not snapshot.policy.frozen or draft.risk == "read" or (ask.task and ask.method == CANCEL):
        return None
    return RungRefusal(Code.FROZEN, f"Tool '{draft.name}' is refused: this gateway is frozen, and only reads run")


def _confirm(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    wanted = draft.server.confirm
    draft.confirm = wanted != "none" and RANK[draft.risk] >= RANK[wanted]
    return None


def _schema(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    tool = draft.tool
    wrong = tool.violation(draft.args) if tool.violation else None
    if isinstance(wrong, PendingCheck):
        wrong = argument_checks.what_is_wrong(ask, draft, wrong)
    if wrong is None:
        return None
    details = {"inputSchema": tool.wire.get("inputSchema")}
    return RungRefusal(Code.INVALID_ARGUMENTS, f"Invalid arguments for '{draft.name}': {wrong}", details=details)


def not_found(ask: Ask, draft: DecisionDraft, snapshot: Snapshot) -> RungRefusal:
    """Tools in reach with a similar name; of a server that exists only its own, so that the search stays short."""
    server: Server | None = getattr(draft, "server", None)
    pool = [server] if server else [s for s in snapshot.servers.values() if s.state != "disabled"]
    spelled = {tool.full_name: tool for s in pool for tool in s.tools.values() if _is_offered(ask.surface, s, tool)}
    near = nearest(draft.name or "", spelled, 3)
    named = [_as_called(ask.surface, spelled[each]) for each in near]
    hint = f". Nearest: {', '.join(named)}" if near else ""
    use = f"call {call_with_of(near[0], snapshot)} with {near[0]}, or search with retrieve_tools" if near else None
    if near and ask.surface in UNDECLARING:
        use = f"call {named[0]}"
    return RungRefusal(Code.TOOL_NOT_FOUND, f"Tool '{draft.name}' not found{hint}", use, details={"nearest": named})


def _as_called(surface: Surface, tool: Tool) -> str:
    """A suggestion is only worth something under the name that works at this door."""
    return {"direct": tool.direct_name, "passthrough": tool.name}.get(surface, tool.full_name)


def call_with_of(full_name: str, snapshot: Snapshot) -> str:
    server, _, tool = full_name.partition(":")
    return call_with(snapshot.servers[server].tools[tool], snapshot.policy)


# The doors without a declaration: direct and passthrough.


def _outer(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    """The server and tool that an outer name stands for: its own on passthrough, `server__tool` on direct."""
    draft.key = (ask.surface, ask.server, ask.tool)
    if (view := snapshot.views.get(draft.key)) is not None:
        draft.view, draft.split, draft.name = view, view.split, view.name
        return None
    split = (ask.server, ask.tool) if ask.server is not None else named_directly(ask.tool, snapshot)
    if split is None:
        return RungRefusal(Code.TOOL_NOT_FOUND, f"Unknown tool: {json_values.quoted(ask.tool)}")
    draft.split = split
    draft.name = f"{split[0]}:{split[1]}"
    return None


def named_directly(outer: str, snapshot: Snapshot) -> tuple[str, str] | None:
    """Server and tool behind a name of the direct surface."""
    split = values.split(outer)
    if split is not None and split[0] in snapshot.servers:
        tool = snapshot.servers[split[0]].tools.get(split[1])
        if tool is not None and tool.direct_name == outer:
            return split
    if values.is_altered(outer):
        tools = (tool for server in snapshot.servers.values() for tool in server.tools.values())
        found = [(tool.server, tool.name) for tool in tools if tool.direct_name == outer]
        return found[0] if len(found) == 1 else None
    return split


def _plain_arguments(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    args = json_values.as_object(ask.params)
    if args is None:
        return RungRefusal(Code.INVALID_ARGUMENTS, f"Arguments must be an object, not {json_values.kind(ask.params)}")
    if problem := json_values.flaw(args, snapshot.policy.max_depth, ask.plain):
        return RungRefusal(Code.INVALID_ARGUMENTS, f"Arguments cannot be sent on: {problem}")
    draft.args = draft.params = args
    return None


def _passive(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    """The optional `intent` that the direct surface adds is taken off again before anybody else looks (MISS-2)."""
    args = draft.args
    if "intent" not in args or declaration.has_own_intent(draft.tool):
        return None
    said = args["intent"]
    if not isinstance(said, str):
        return RungRefusal(Code.INVALID_INTENT, f"intent must be a string, not {json_values.kind(said)}")
    if len(said) > (most := declaration.MAX_REASON):
        return RungRefusal(Code.REASON_TOO_LONG, f"intent exceeds maximum length of {most} characters")
    draft.said = said
    draft.args = {key: value for key, value in args.items() if key != "intent"}
    return None


def _implied(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    """Nothing was declared, so the tool's class says which variant this is; unknown is a write (SURF-2)."""
    draft.variant = draft.risk = risk(_class_for(ask, draft, snapshot.policy))
    draft.intent = Intent(draft.variant, reason=draft.said, source="passive" if draft.said else "implied")
    return None


# Requests that are no tool call, as passthrough relays them.


def _method(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    if ask.method in RISKS:
        return None
    short = len(ask.method) <= MAX_NAME
    meant = _NORMAL.get("".join(normal_form(ask.method).split()).strip("/")) if short else "a shorter name"
    if meant is None:
        return None
    return RungRefusal(
        Code.INVALID_NAME, f"There is no method '{json_values.quoted(ask.method)}'", f"use {meant}, if it is meant"
    )


_NORMAL: Final = {method.casefold(): method for method in RISKS}


def _relayed_arguments(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    draft.params = json_values.as_object(ask.params) or {}
    problem = json_values.flaw(draft.params, snapshot.policy.max_depth)
    return RungRefusal(Code.INVALID_ARGUMENTS, f"The parameters cannot be sent on: {problem}") if problem else None


def _listed(ask: Ask, snapshot: Snapshot, draft: DecisionDraft) -> RungRefusal | None:
    """What a method that the protocol does not name does is up to its server: it may be a tool by another name."""
    if ask.method in RISKS and (ask.task is None or ask.method == CANCEL):
        return None
    for name in (ask.method, draft.params.get("name")) if ask.task is None else (ask.task.tool,):
        if isinstance(name, str) and (why := draft.server.forbids(name)):
            return RungRefusal(Code.TOOL_UNAVAILABLE, f"'{json_values.quoted(name)}' is unavailable: {why}")
    return None


SHAPE: Final[Step] = ("shape", _shape)
NAME: Final[Step] = ("name", _name)
ARGUMENTS: Final[Step] = ("arguments", _arguments)
INTENT: Final[Step] = ("intent", _intent)
TWO_KEYS: Final[Step] = ("two_keys", _two_keys)
SERVER: Final[Step] = ("server", _server)
CONNECTED: Final[Step] = ("connected", _connected)
TOOL: Final[Step] = ("tool", _tool)
OFFERED: Final[Step] = ("offered", _offered)
CLASS: Final[Step] = ("class", _class)
CEILING: Final[Step] = ("ceiling", _ceiling)
FREEZE: Final[Step] = ("freeze", _freeze)
CONFIRM: Final[Step] = ("confirm", _confirm)
SCHEMA: Final[Step] = ("schema", _schema)
OUTER_NAME: Final[Step] = ("outer_name", _outer)
PLAIN_ARGUMENTS: Final[Step] = ("arguments", _plain_arguments)
PASSIVE: Final[Step] = ("passive", _passive)
IMPLIED: Final[Step] = ("implied", _implied)
METHOD: Final[Step] = ("method", _method)
RELAYED_ARGUMENTS: Final[Step] = ("arguments", _relayed_arguments)
LISTED: Final[Step] = ("offered", _listed)
