from __future__ import annotations

import gc
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic_core import from_json

from mcpproxy_py.core.policy import decide as ladder
from mcpproxy_py.core.policy.decide import decide, explain
from mcpproxy_py.core.values import VARIANT_OF, VARIANTS, Ask, LocalAnswer, Override, Policy, Refusal, Route, Snapshot
from mcpproxy_py.errors import Code
from tests.bench.decide import world
from tests.core.example_snapshot import ask, read, snapshot, tool
from tests.core.matrix import CELLS, Cell


@pytest.mark.proves("GATE-2", "GATE-3", "GATE-4")
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("unannotated", ["allow", "write", "destructive"])
def test_every_cell_of_the_matrix_gets_the_verdict_and_the_words_of_the_specification(
    strict: bool, unannotated: str
) -> None:
    cells = [cell for cell in CELLS if cell.strict is strict and cell.unannotated == unannotated]
    assert len(cells) == 3 * 5 * 9
    for cell in cells:
        assert verdict(cell) == cell.expected(), cell


def verdict(cell: Cell) -> tuple[str, str | None, str | None]:
    policy = Policy(strict=cell.strict, unannotated=cell.unannotated)  # pyright: ignore[reportArgumentType]
    here = snapshot(tool(cell.tool, cell.hints), policy=policy)
    decision = decide(ask(cell.params, f"call_tool_{cell.variant}"), here)
    if isinstance(decision, Refusal):
        return "refuse", decision.code.value, decision.message
    assert isinstance(decision, Route)
    return ("warn" if decision.warning else "allow"), None, decision.warning


@pytest.mark.proves("GATE-3", "GATE-4")
@pytest.mark.parametrize(
    ("made", "outer", "message"),
    [
        (
            tool("delete_repo", {"destructiveHint": True}, server="github"),
            "read",
            "Tool 'github:delete_repo' is marked destructive by server, use call_tool_destructive",
        ),
        (
            tool("create_issue", {"readOnlyHint": False}, server="github"),
            "read",
            "Tool 'github:create_issue' is marked not read-only by server, use call_tool_write",
        ),
    ],
)
def test_the_two_messages_of_phase_two_are_the_sources_own(made: Any, outer: str, message: str) -> None:
    here = snapshot(made)
    servers = {"github": here.servers["s"].__class__("github", "connected", {made.name: made})}
    here = here.__class__(here.policy, servers, here.index)
    decision = decide(ask({"name": made.full_name, "intent": {"operation_type": outer}}), here)
    assert isinstance(decision, Refusal)
    assert (decision.code, decision.message) == (Code.SERVER_MISMATCH, message)


@pytest.mark.proves("GATE-3", "GATE-12")
def test_permissive_mode_relaxes_phase_two_and_nothing_else() -> None:
    lenient = Policy(strict=False)
    here = snapshot(tool("t", {"destructiveHint": True}), policy=lenient)
    allowed = decide(read(), here)
    assert isinstance(allowed, Route)
    assert allowed.rule == "class_relaxed"
    assert allowed.risk == "destructive", "risk follows the class, not the variant that was let through"
    for broken in ({"intent": {"operation_type": "write"}}, {"intent": None}, {"intent": {"operation_type": "x"}}):
        assert isinstance(decide(read(**broken), here), Refusal)


@pytest.mark.proves("GATE-12")
@pytest.mark.parametrize(
    ("hints", "variant", "risk"),
    [
        ({"readOnlyHint": True}, "read", "read"),
        (None, "read", "write"),
        ({"readOnlyHint": True}, "write", "write"),
        ({"readOnlyHint": True}, "destructive", "destructive"),
        ({"readOnlyHint": False}, "write", "write"),
        ({"destructiveHint": True}, "destructive", "destructive"),
    ],
)
def test_risk_is_the_higher_of_variant_and_class_and_unknown_counts_as_write(
    hints: Mapping[str, bool] | None, variant: str, risk: str
) -> None:
    here = snapshot(tool("t", hints))
    decision = decide(ask({"name": "s:t", "intent": {"operation_type": variant}}, f"call_tool_{variant}"), here)
    assert isinstance(decision, Route)
    assert decision.risk == risk


@pytest.mark.proves("GATE-13")
def test_a_freeze_refuses_everything_above_read_and_only_that() -> None:
    frozen = Policy(frozen=True)
    assert isinstance(decide(read(), snapshot(tool("t", {"readOnlyHint": True}), policy=frozen)), Route)
    for hints in (None, {"readOnlyHint": False}):
        for variant in ("read", "write", "destructive"):
            params = {"name": "s:t", "intent": {"operation_type": variant}}
            decision = decide(ask(params, f"call_tool_{variant}"), snapshot(tool("t", hints), policy=frozen))
            assert isinstance(decision, Refusal)
            if hints is None or variant != "read":
                assert decision.code is Code.FROZEN


@pytest.mark.proves("GATE-13", "GATE-12")
def test_permissive_mode_does_not_thaw_a_freeze() -> None:
    here = snapshot(tool("t", {"destructiveHint": True}), policy=Policy(strict=False, frozen=True))
    decision = decide(read(), here)
    assert isinstance(decision, Refusal)
    assert decision.code is Code.FROZEN


OVERRIDES = (Override("read", lambda args: args.get("sql", "").startswith("SELECT")), Override("destructive"))


@pytest.mark.proves("GATE-8")
def test_an_override_may_depend_on_the_arguments_and_the_first_match_wins() -> None:
    here = snapshot(tool("execute_sql", {"destructiveHint": True}, overrides=OVERRIDES))
    assert isinstance(decide(read("s:execute_sql", args={"sql": "SELECT 1"}), here), Route)
    refused = decide(read("s:execute_sql", args={"sql": "DROP TABLE t"}), here)
    assert isinstance(refused, Refusal)
    assert refused.message == (
        "Tool 's:execute_sql' is marked destructive by the operator's override, use call_tool_destructive"
    )


@pytest.mark.proves("GATE-8")
def test_an_override_goes_above_what_the_server_says_in_both_directions() -> None:
    raised = snapshot(tool("t", {"readOnlyHint": True}, overrides=(Override("destructive"),)))
    assert isinstance(decide(read(), raised), Refusal)
    lowered = snapshot(tool("t", {"destructiveHint": True}, overrides=(Override("read"),)))
    assert isinstance(decide(read(), lowered), Route)


@pytest.mark.proves("GATE-9")
def test_an_override_without_a_last_resort_fails_closed() -> None:
    here = snapshot(tool("t", {"readOnlyHint": True}, overrides=(Override("read", lambda args: False),)))
    assert isinstance(decide(read(), here), Refusal)


@pytest.mark.proves("GATE-9")
def test_the_first_rung_that_fails_decides_and_gives_its_name() -> None:
    here = snapshot(tool("t", {"destructiveHint": True}))
    broken: dict[str, Any] = {"name": "no colon", "args": [], "intent": 5, "extra": 1}
    seen = []
    for mend in ({"extra": ...}, {"name": "s:t"}, {"args": {}}, {"intent": {"operation_type": "write"}},
                 {"intent": {"operation_type": "read"}}):  # fmt: skip
        decision = decide(ask(broken), here)
        assert isinstance(decision, Refusal)
        seen.append(decision.rule)
        broken = {key: value for key, value in {**broken, **mend}.items() if value is not ...}
    assert seen == ["shape", "name", "arguments", "intent", "two_keys"]
    assert getattr(decide(ask(broken), here), "rule", None) == "class"


@pytest.mark.proves("GATE-9")
def test_the_ladder_in_the_docstring_is_the_ladder_that_runs() -> None:
    documented = [line.split("`")[1] for line in (ladder.__doc__ or "").splitlines() if line[:3].strip(" .").isdigit()]
    assert documented == [rule for rule, _ in ladder.GATE]


@pytest.mark.proves("GATE-9")
def test_a_dry_run_shows_every_rung_and_agrees_with_the_decision() -> None:
    for cell in CELLS:
        policy = Policy(strict=cell.strict, unannotated=cell.unannotated)  # pyright: ignore[reportArgumentType]
        here = snapshot(tool(cell.tool, cell.hints), policy=policy)
        asked = ask(cell.params, f"call_tool_{cell.variant}")
        steps, decision = explain(asked, here), decide(asked, here)
        assert [step.rule for step in steps] == [rule for rule, _ in ladder.GATE]
        failed = [step for step in steps if step.outcome == "failed"]
        if isinstance(decision, Refusal):
            assert [(step.rule, step.message) for step in failed] == [(decision.rule, decision.message)]
        else:
            assert not failed


@pytest.mark.proves("GATE-9")
def test_a_dry_run_goes_on_past_a_server_that_only_sleeps() -> None:
    here = snapshot(tool("t", {"destructiveHint": True}), state="sleeping")
    outcomes = {step.rule: step.outcome for step in explain(read(), here)}
    assert outcomes["connected"] == "would wait"
    assert outcomes["class"] == "failed"


@pytest.mark.parametrize(
    ("params", "code", "words"),
    [
        (None, Code.INVALID_ARGUMENTS, "takes an object of arguments, not null"),
        ([], Code.INVALID_ARGUMENTS, "not array"),
        ({"nmae": "s:t"}, Code.INVALID_ARGUMENTS, "unknown parameter 'nmae'; did you mean name?"),
        ({}, Code.INVALID_NAME, "it is missing"),
        ({"name": 5}, Code.INVALID_NAME, "not number"),
        ({"name": ""}, Code.INVALID_NAME, "has no colon"),
        ({"name": "no-colon"}, Code.INVALID_NAME, "has no colon"),
        ({"name": ":t"}, Code.INVALID_NAME, "lacks its server part"),
        ({"name": "s:"}, Code.INVALID_NAME, "lacks its tool part"),
        ({"name": "s:" + "x" * 10_000}, Code.INVALID_NAME, "10002 characters long"),
        ({"name": "s:t\x00\n"}, Code.INVALID_NAME, "control characters"),
        ({"name": "s:t", "args": "text"}, Code.INVALID_ARGUMENTS, "not string; JSON text goes into args_json"),
        ({"name": "s:t", "args": [1]}, Code.INVALID_ARGUMENTS, "not array"),
        ({"name": "s:t", "args": None}, Code.INVALID_ARGUMENTS, "not null; leave it out"),
        ({"name": "s:t", "args_json": {}}, Code.INVALID_ARGUMENTS, "must be a string of JSON"),
        ({"name": "s:t", "args_json": "{"}, Code.INVALID_ARGUMENTS, "args_json is not JSON"),
        ({"name": "s:t", "args_json": "[1]"}, Code.INVALID_ARGUMENTS, "args_json must be an object, not array"),
        ({"name": "s:t", "args_json": '{"a": NaN}'}, Code.INVALID_ARGUMENTS, "NaN is not a JSON number"),
        ({"name": "s:t", "args_json": "[" * 40_000}, Code.INVALID_ARGUMENTS, "nested too deeply"),
        ({"name": "s:t", "args_json": "[" * 100_000}, Code.INVALID_ARGUMENTS, "more than 50000 keys and values"),
        ({"name": "s:t", "args": {"a": float("inf")}}, Code.INVALID_ARGUMENTS, "not finite"),
        ({"name": "s:t", "args": {"a": "\ud800"}}, Code.INVALID_ARGUMENTS, "surrogate"),
        ({"name": "s:t", "args": {"a": 1}, "args_json": '{"a": true}'}, Code.ARGS_CONFLICT, "differ"),
    ],
)
@pytest.mark.proves("GATE-1", "GATE-4", "GATE-10")
def test_a_malformed_ask_gets_a_clear_error(params: Any, code: Code, words: str) -> None:
    decision = decide(ask(params), snapshot(tool("t")))
    assert isinstance(decision, Refusal)
    assert decision.code is code
    assert words in decision.message


def test_a_name_is_split_at_its_first_colon() -> None:
    assert isinstance(decide(read("s:a:b"), snapshot(tool("a:b"))), Route)


@pytest.mark.proves("GATE-10")
def test_equal_args_in_both_spellings_are_fine_and_big_numbers_survive() -> None:
    big = 2**80
    both = read(args={"n": big, "x": 1.5}, args_json='{"x": 1.5, "n": 1208925819614629174706176}')
    decision = decide(both, snapshot(tool("t")))
    assert isinstance(decision, Route)
    assert decision.args == {"n": big, "x": 1.5}


@pytest.mark.proves("GATE-4")
def test_an_unknown_tool_is_answered_with_the_nearest_names() -> None:
    here = snapshot(tool("create_issue"), tool("delete_issue"), tool("get_time"))
    decision = decide(read("s:creat_issue"), here)
    assert isinstance(decision, Refusal)
    assert decision.code is Code.TOOL_NOT_FOUND
    assert "s:create_issue" in decision.message
    assert "call_tool_write" in decision.remedy
    assert decide(read("t:create_issue"), here).code is Code.TOOL_NOT_FOUND  # type: ignore[union-attr]


@pytest.mark.proves("GATE-4")
@pytest.mark.parametrize(
    ("state", "code", "awaits"),
    [
        ("disabled", Code.TOOL_UNAVAILABLE, None),
        ("connecting", Code.SERVER_UNAVAILABLE, "s"),
        ("sleeping", Code.SERVER_UNAVAILABLE, "s"),
        ("failed", Code.SERVER_UNAVAILABLE, None),
    ],
)
def test_a_server_that_is_away_refuses_and_says_whether_waiting_helps(
    state: str, code: Code, awaits: str | None
) -> None:
    decision = decide(read(), snapshot(tool("t"), state=state))
    assert isinstance(decision, Refusal)
    assert (decision.code, decision.awaits) == (code, awaits)


def test_the_operators_lists_take_a_tool_away() -> None:
    for lists in ({"deny_tools": ("t",)}, {"allow_tools": ("other",)}):
        decision = decide(read(), snapshot(tool("t", {"readOnlyHint": True}), **lists))
        assert isinstance(decision, Refusal)
        assert decision.code is Code.TOOL_UNAVAILABLE


@pytest.mark.proves("SEC-4")
@pytest.mark.parametrize("wanted", ["none", "write", "destructive"])
@pytest.mark.parametrize("strict", [True, False])
def test_what_the_operator_wants_confirmed_is_marked_by_its_risk_and_no_mode_gets_around_it(
    wanted: Any, strict: bool
) -> None:
    hints = {
        "read": {"readOnlyHint": True},
        "write": {"destructiveHint": False},
        "destructive": {"destructiveHint": True},
    }
    asked = {"none": set[str](), "write": {"write", "destructive"}, "destructive": {"destructive"}}[wanted]
    for variant in VARIANTS.values():
        for kind, declared in hints.items():
            here = snapshot(tool("t", declared), confirm=wanted, policy=Policy(strict=strict))
            params = {"name": "s:t", "intent": {"operation_type": variant}}
            decision = decide(ask(params, VARIANT_OF[variant]), here)
            if isinstance(decision, Route):
                riskier = max(variant, kind, key=list(hints).index)
                assert decision.confirm == (riskier in asked), (variant, kind)
                (rung,) = [each for each in explain(ask(params, VARIANT_OF[variant]), here) if each.rule == "confirm"]
                assert rung.message == ("a person is asked first" if decision.confirm else "")
            else:
                assert strict


def test_arguments_that_miss_the_schema_are_answered_with_what_is_wrong_and_the_schema() -> None:
    made = tool("t", {"readOnlyHint": True}, violation=lambda args: "at 'n': 'x' is not a number")
    decision = decide(read(args={"n": "x"}), snapshot(made))
    assert isinstance(decision, Refusal)
    assert decision.code is Code.INVALID_ARGUMENTS
    assert "at 'n'" in decision.message
    assert decision.details["inputSchema"] == {"type": "object"}


@pytest.mark.proves("GATE-6")
def test_call_tool_is_gone_and_says_where_to_go() -> None:
    decision = decide(ask({"name": "s:t"}, "call_tool"), snapshot())
    assert isinstance(decision, Refusal)
    for word in ("call_tool_read", "call_tool_write", "call_tool_destructive", "intent", "retrieve_tools"):
        assert word in decision.message


@pytest.mark.proves("MISS-1")
def test_a_wish_that_nobody_takes_is_an_unknown_tool() -> None:
    wish = ask({"capability": "fly"}, "request_capability")
    assert isinstance(decide(wish, snapshot()), LocalAnswer)
    refused = decide(wish, snapshot(policy=Policy(offers_requests=False)))
    assert isinstance(refused, Refusal)
    assert refused.rule == "outer_name"


@pytest.mark.proves("GATE-11")
def test_deciding_touches_nothing_outside_its_arguments() -> None:
    """No file, socket, clock or thread: the interpreter itself would tell of any (PEP 578), and of those that threads
    of other tests still use, or what is collected as garbage just then."""
    here = snapshot(tool("t", {"readOnlyHint": True}))
    asks = [ask(cell.params, f"call_tool_{cell.variant}") for cell in CELLS]
    events: list[str] = []
    watched = [threading.get_ident()]
    sys.addaudithook(lambda event, _: events.append(event) if threading.get_ident() in watched else None)
    with no_garbage_collected():
        for asked in asks:
            decide(asked, here)
    watched.clear()
    assert [event for event in events if event.split(".")[0] in ("open", "socket", "os", "subprocess", "import")] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3),
    max_leaves=10,
)
OUTER = st.sampled_from(
    ["name", "args", "args_json", "intent", "intent_operation_type", "intent_reason", "intent_data_sensitivity"]
)


@pytest.mark.proves("GATE-9")
@given(params=JSON | st.dictionaries(OUTER | st.text(max_size=5), JSON, max_size=5), outer=st.sampled_from(
    ["call_tool_read", "call_tool_write", "call_tool_destructive", "retrieve_tools", "request_capability", "call_tool"]
))  # fmt: skip
def test_the_decision_is_total_and_the_same_every_time(params: Any, outer: str) -> None:
    here = snapshot(tool("t", {"readOnlyHint": True}))
    first, second = decide(ask(params, outer), here), decide(ask(params, outer), here)
    assert type(first) is type(second)
    assert getattr(first, "message", None) == getattr(second, "message", None)


STRICT_JSON = st.recursive(
    st.sampled_from(
        ["null", "true", '"x"', '"é😀"', '"\\ud83d\\ude00"', "1", "1e400", "-1e999", "0.5", "9" * 3_800, "9" * 3_950]
    )
    | st.integers().map(str)
    | st.text(max_size=5).map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.tuples(st.integers(0, 70), inner).map(lambda deep: "[" * deep[0] + deep[1] + "]" * deep[0])
    ),
    max_leaves=8,
).map(lambda value: f'{{"a":{value}}}')


@pytest.mark.proves("GATE-9", "PERF-5")
@given(
    text=STRICT_JSON, wrapped=st.booleans(), depth=st.sampled_from([1, 5, 64]),
    door=st.sampled_from(["gate", "direct", "passthrough"]),
)  # fmt: skip
def test_what_a_strict_parser_vouched_for_is_decided_as_if_nobody_had(
    text: str, wrapped: bool, depth: int, door: Any
) -> None:
    try:
        args = from_json(text)
    except ValueError:
        assume(False)
    here = snapshot(tool("t", {"readOnlyHint": True}), policy=Policy(max_depth=depth))
    given_as = {"args_json": text} if wrapped else {"args": args}
    params = {"name": "s:t", "intent": {"operation_type": "read"}, **given_as} if door == "gate" else args
    outer = {"gate": "call_tool_read", "direct": "s__t", "passthrough": "t"}[door]
    one = Ask("x", 0.0, outer, params, surface=door, server="s" if door == "passthrough" else None)
    assert decide(one._replace(plain=True), here) == decide(one, here)


def test_nobody_vouches_for_json_inside_of_a_string() -> None:
    params = {"name": "s:t", "intent": {"operation_type": "read"}, "args_json": '{"half": "\\ud800"}'}
    decision = decide(ask(params)._replace(plain=True), snapshot(tool("t")))
    assert isinstance(decision, Refusal) and decision.rule == "arguments"


def _some_world(policy: Policy) -> Snapshot:
    def careful(args: Mapping[str, Any]) -> bool:
        return args.get("force") is True

    return snapshot(
        tool("read", {"readOnlyHint": True}),
        tool("wipe", {"destructiveHint": True}),
        tool("odd"),
        tool("hidden", {"readOnlyHint": True}),
        tool("claimed", {"readOnlyHint": True}, trusted=False),
        tool("fixed", {"readOnlyHint": True}, overrides=(Override("write"),)),
        tool("forced", overrides=(Override("destructive", careful), Override("read"))),
        policy=policy, deny_tools=("hidden",), confirm="destructive",
    )  # fmt: skip


@pytest.mark.proves("GATE-9", "GATE-11")
@pytest.mark.parametrize("policy", [
    Policy(), Policy(strict=False), Policy(unannotated="destructive"), Policy(unannotated="write", frozen=True),
])  # fmt: skip
def test_what_was_found_out_by_an_earlier_call_changes_no_later_decision(policy: Policy) -> None:
    """Every call twice and in a row against one snapshot, and each alone against a fresh one."""
    names = ["read", "wipe", "odd", "hidden", "claimed", "fixed", "forced", "gone"]
    calls = [
        one
        for name in names
        for force in (False, True)
        for one in (
            *(Ask("x", 0.0, f"call_tool_{variant}", {"name": f"s:{name}", "args": {"force": force},
                                                     "intent": {"operation_type": variant}})
              for variant in ("read", "write", "destructive")),
            Ask("x", 0.0, f"s__{name}", {"force": force}, surface="direct"),
            Ask("x", 0.0, name, {"force": force}, surface="passthrough", server="s"),
        )
    ]  # fmt: skip
    shared = _some_world(policy)
    alone = [shown(decide(one, _some_world(policy))) for one in calls]
    assert [shown(decide(one, shared)) for one in calls] == alone
    assert [shown(decide(one, shared)) for one in reversed(calls)] == alone[::-1]
    assert len({tuple(each.items()) for each in map(str_values, alone)}) > 20, "there was something to mix up"


def shown(decision: Any) -> dict[str, Any]:
    """A decision without the objects that are another world's."""
    plain = (
        decision._asdict()
        if isinstance(decision, Route)
        else {key: getattr(decision, key) for key in decision.__slots__}
    )
    return {key: value.full_name if key == "tool" and value else value for key, value in plain.items() if key != "view"}


def str_values(found: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in found.items()}


@pytest.mark.proves("GATE-11")
def test_views_are_kept_for_tools_that_exist_and_go_with_their_snapshot() -> None:
    here = snapshot(tool("t", {"readOnlyHint": True}), policy=Policy())
    for number in range(50):
        decide(read(f"s:t{number}"), here)
        decide(read(f"s{number}:t"), here)
        decide(Ask("x", 0.0, f"s__t{number}", {}, surface="direct"), here)
        decide(Ask("x", 0.0, f"t{number}", {}, surface="passthrough", server="s"), here)
    assert not here.views
    decide(read("s:t"), here)
    assert list(here.views) == [("gate", None, "s:t")]
    frozen = replace(here, policy=Policy(unannotated="write"))
    assert not frozen.views
    assert here == replace(here), "what was looked up is no part of what a snapshot says"


@pytest.mark.proves("GATE-1")
def test_a_name_that_only_passthrough_takes_is_not_taken_by_the_gate_afterwards() -> None:
    odd = "\u202egnp.exe"
    here = snapshot(tool(odd, {"readOnlyHint": True}))
    assert isinstance(decide(Ask("x", 0.0, odd, {}, surface="passthrough", server="s"), here), Route)
    refused = decide(read(f"s:{odd}"), here)
    assert isinstance(refused, Refusal) and refused.rule == "name"


@pytest.mark.proves("PERF-2")
def test_a_decision_takes_no_step_more_with_ten_servers_or_ten_thousand_tools() -> None:
    """How long one takes is for `python -m tests.bench.decide` to say; that it is as long everywhere can be counted."""
    worlds = [world(1, 4), world(10, 100), world(100, 100)]
    counts = [[steps(each, here) for each in of_every_kind()] for here in (*worlds, *worlds)]
    del counts[:3]  # what is only done once is no part of a decision; and Python 3.12 counts from the second time on
    assert counts[0] == counts[1] == counts[2]
    assert min(counts[0]) > 100


def of_every_kind() -> list[Ask]:
    """Of each variant, to a tool of each class."""
    return [
        Ask("x", 0.0, f"call_tool_{variant}", {"name": f"s0:tool_{number}", "args": {"id": 1, "title": "t"},
                                               "intent": {"operation_type": variant, "reason": "because"}})
        for variant in ("read", "write", "destructive") for number in range(4)
    ]  # fmt: skip


def steps(one: Ask, here: Snapshot) -> int:
    """The instructions of Python's own that deciding takes."""
    taken = 0

    def trace(frame: Any, event: str, detail: Any) -> Any:
        nonlocal taken
        frame.f_trace_opcodes = True
        taken += event == "opcode"
        return trace

    before = sys.gettrace()
    with no_garbage_collected():  # it would be counted too: finalisers, and what others put into `gc.callbacks`
        sys.settrace(trace)
        try:
            decide(one, here)
        finally:
            sys.settrace(before)
    return taken


@contextmanager
def no_garbage_collected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
