"""The decision, held against the specification's table, and the check of arguments against a schema."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any, Final

from mcpproxy_py import jsonrpc
from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.decide import decide, explain
from mcpproxy_py.core.values import (
    VARIANT_OF,
    VARIANTS,
    Ask,
    LocalAnswer,
    Override,
    Policy,
    Refusal,
    Relay,
    Route,
    Snapshot,
)
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.lists.build_tools import build_tools
from mcpproxy_py.upstream.spec import UpstreamSpec
from tests.core.example_snapshot import read, snapshot, tool
from tests.core.matrix import VERDICTS

DENIED: Final = "hidden"
CLASSES: Final[Mapping[str, str]] = {
    "look": "read", "put": "write", "wipe": "destructive", "odd": "unknown", "claimed": "unknown",
    "raised": "destructive",
    DENIED: "read", "a:b": "read", "checked": "read",
}  # fmt: skip
"""Of each tool in the world below, what it counts as by the specification, before the rule for tools without hints."""
READING: Final = ("resources/read", "prompts/get", "completion/complete")
RANK: Final = {"read": 0, "write": 1, "destructive": 2}
POLICIES: Final = (
    Policy(), Policy(strict=False), Policy(unannotated="write"), Policy(unannotated="destructive", frozen=True),
    Policy(strict=False, frozen=True), Policy(missing_intent="infer", max_depth=5),
)  # fmt: skip


def _world(policy: Policy) -> Snapshot:
    return snapshot(
        tool("look", {"readOnlyHint": True}),
        tool("put", {"readOnlyHint": False, "destructiveHint": False}),
        tool("wipe", {"destructiveHint": True}),
        tool("odd"),
        tool("claimed", {"readOnlyHint": True}, trusted=False),
        tool("raised", {"readOnlyHint": True}, overrides=(Override("destructive"),)),
        tool(DENIED, {"readOnlyHint": True}),
        tool("a:b", {"readOnlyHint": True}),
        tool("checked", {"readOnlyHint": True}, violation=lambda args: None if args.get("n") == 1 else "n is not 1"),
        policy=policy, deny_tools=(DENIED,), confirm="destructive",
    )  # fmt: skip


WORLDS: Final = tuple(map(_world, POLICIES))


def read_ask(data: bytes) -> Hashable:
    """Whatever is asked: a decision, the same every time, with a code and a sentence where it is a refusal. What goes
    is declared, offered, not above its variant, not above read while frozen, and carries what was given."""
    value = _decoded(data)
    if not isinstance(value, list) or len(value) < 3:
        return "none"
    world, outer, params = value[:3]
    surface = {0: "gate", 1: "direct", 2: "passthrough"}.get(world % 3 if type(world) is int else 0, "gate")
    here = WORLDS[world // 3 % len(WORLDS) if type(world) is int else 0]
    if not isinstance(outer, str):
        return "none"
    method = value[3] if surface == "passthrough" and len(value) > 3 and isinstance(value[3], str) else "tools/call"
    one = Ask("x", 0.0, outer, params, surface=surface, server="s" if surface == "passthrough" else None, method=method)  # type: ignore[arg-type]
    decision = decide(one, here)
    again = decide(one, here)
    assert type(decision) is type(again)
    match decision:
        case Refusal():
            assert (decision.code, decision.message, decision.rule) == (again.code, again.message, again.rule)  # type: ignore[union-attr]
            assert isinstance(decision.code, Code) and 0 < len(decision.message) < 20_000
            json.loads(jsonrpc.write({"message": decision.message, "name": decision.name}))
            _explained(one, here, decision)
            return surface, decision.rule, decision.code
        case LocalAnswer():
            assert outer not in VARIANTS
            return surface, "local", decision.tool
        case Relay():
            assert method != "tools/call" and surface == "passthrough"
            assert method.strip().casefold() != "tools/call", "a tool call is relayed"
            assert decision.risk != "read" or method in READING, "what nobody knows counts as a read"
            assert not (here.policy.frozen and decision.risk != "read"), "it is frozen"
            return surface, "relay", decision.risk
        case Route():
            _may_go(one, here, decision)
            return surface, decision.rule, decision.tool.name, decision.variant, decision.confirm


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _explained(one: Ask, here: Snapshot, decision: Refusal) -> None:
    if one.surface == "gate" and one.tool in VARIANTS:
        failed = [step for step in explain(one, here) if step.outcome == "failed"]
        assert [(step.rule, step.message) for step in failed] == [(decision.rule, decision.message)]


def _may_go(one: Ask, here: Snapshot, decision: Route) -> None:
    policy, name = here.policy, decision.tool.name
    assert name != DENIED, "it is denied"
    counted = CLASSES[name]
    if counted == "unknown" and policy.unannotated != "allow":
        counted = policy.unannotated
    verdict = VERDICTS[decision.variant, counted]
    assert verdict != "refuse" or not policy.strict, f"{decision.variant} is not enough for {counted}"
    assert verdict != "refuse" or decision.warning or one.surface != "gate", "permissive mode says nothing"
    risk = max(decision.variant, "write" if counted == "unknown" else counted, key=RANK.__getitem__)
    assert decision.risk == risk, f"the risk is {risk}, not {decision.risk}"
    assert not policy.frozen or risk == "read", "it is frozen"
    assert decision.confirm == (risk == "destructive"), "who confirms what"
    assert json_values.flaw(decision.args, policy.max_depth) is None, "these arguments cannot be sent on"
    if name == "checked" and one.surface != "passthrough":
        assert decision.args.get("n") == 1, "the schema was not looked at"
    if one.surface == "gate":
        _declared(one, policy, decision)
    elif one.surface == "passthrough":
        assert decision.args == one.params and name == one.tool
    elif name == one.tool:
        raise AssertionError("a direct tool is named with its server")


def _declared(one: Ask, policy: Policy, decision: Route) -> None:
    params: Mapping[str, Any] = one.params
    assert VARIANT_OF[decision.variant] == one.tool, "another variant than was called"
    assert params["name"] == f"s:{decision.tool.name}", "another tool than was named"
    assert decision.intent.operation_type == decision.variant, "the two keys differ"
    said = params.get("intent")
    if isinstance(said, str):
        said = json.loads(said)
    claims = [(said or {}).get("operation_type"), params.get("intent_operation_type")]
    claims = [claim for claim in claims if claim is not None]
    assert all(claim == decision.variant for claim in claims), "something else was declared"
    assert claims or policy.missing_intent == "infer", "nothing was declared"
    given = [params["args"]] if "args" in params else []
    given += [json.loads(params["args_json"])] if "args_json" in params else []
    assert all(json_values.same(each, decision.args) for each in given), "other arguments than were given"


# Arguments against a schema.

MARK: Final = "zq7-SECRET-zq7"


def read_schema(data: bytes) -> Hashable:
    """A server's schema is compiled or its tool goes unchecked; arguments go, or get one short sentence that shows no
    value of theirs; and an operator's `when` that nobody can tell never lowers what is counted. Nothing is fetched."""
    value = _decoded(data)
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("schema"), dict)
        or not isinstance(value.get("args"), dict)
    ):
        return "none"
    schema, args = value["schema"], value["args"]
    if json_values.flaw(args) is not None or json_values.flaw(schema, 1000) is not None:
        return "none"
    lowers, raises = (("read", schema), ("destructive", None)), (("destructive", schema), ("read", None))
    spec = UpstreamSpec("s", "stdio", overrides={"lowers": lowers, "raises": raises})
    wires = [
        {"name": name, "inputSchema": schema if name == "t" else {}, "annotations": {"readOnlyHint": True}}
        for name in ("t", "lowers", "raises")
    ]  # fmt: skip
    tools = build_tools(spec, wires)
    here = snapshot(*tools.values())
    goes, wrong = _asked(here, "t", args)
    lowered, raised = _asked(here, "lowers", args)[0], not _asked(here, "raises", args)[0]
    assert raised or not lowered, "what nobody can tell, or what is no match, counts as a read both times"
    told = _asked(here, "t", {**args, "marked": MARK})[1]
    assert MARK not in told or MARK in json.dumps(schema), "a value is shown"
    return goes, lowered, raised, wrong.rpartition(" ")[2][:12]


def _asked(here: Snapshot, name: str, args: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether a read of it may go, and what is said about its arguments."""
    decision = decide(read(f"s:{name}", args=dict(args)), here)
    if isinstance(decision, Route):
        return True, ""
    assert isinstance(decision, Refusal)
    assert (decision.rule, decision.code) in (("schema", Code.INVALID_ARGUMENTS), ("class", Code.SERVER_MISMATCH))
    assert 0 < len(decision.message) < 1000 and "\n" not in decision.message, decision.message
    return False, decision.message if decision.rule == "schema" else ""
