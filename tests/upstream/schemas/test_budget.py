"""What cannot be told within a budget never lowers a class, and what is told is what the schema says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.core.pending_checks import CheckVerdict, PendingCheck
from mcpproxy_py.core.policy import decide
from mcpproxy_py.core.policy.tool_class import class_of, matched
from mcpproxy_py.core.values import OPERATIONS, RANK, Ask, Operation, Override, Policy, Route, Server, Snapshot
from mcpproxy_py.upstream.lists.build_tools import compile_match
from mcpproxy_py.upstream.schemas.argument_check import compile_check
from tests.core.example_snapshot import tool

pytestmark = pytest.mark.proves("GATE-8", "SEC-5")

NAMES = st.sampled_from(["a", "b", "ab"])
TEXTS = st.text("ab!", max_size=12)
PATTERNS = st.sampled_from(
    ["^a*$", "b", r"^(?:(a+)\1?)+$", r"^(?:(a+)\1?)+!|b", r"(?=a)b|!", r"(?:(a)|b)*\1!", "^(?:[ab]{0,9}){0,9}$"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several, named = st.lists(inner, min_size=1, max_size=3), st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({}, optional={"properties": named, "required": st.just(["a"]), "not": inner}),
        st.fixed_dictionaries({}, optional={"items": inner, "contains": inner, "additionalProperties": inner}),
        st.fixed_dictionaries({}, optional={"anyOf": several, "allOf": several, "oneOf": several}),
        st.fixed_dictionaries({}, optional={"if": inner, "then": inner, "else": inner, "propertyNames": inner}),
        st.builds(lambda pattern, part: {"patternProperties": {pattern: part}}, PATTERNS, inner),
        st.builds(lambda part: {"allOf": [part], "unevaluatedProperties": False}, inner),
    )


SCHEMAS = st.recursive(
    st.one_of(
        st.just({}),
        st.builds(lambda pattern: {"pattern": pattern}, PATTERNS),
        st.builds(lambda value: {"const": value}, VALUES),
        st.builds(lambda kind: {"type": kind}, st.sampled_from(["string", "object", "integer", "array"])),
        st.just({"properties": {"a": {"$ref": "#"}}}),
        st.just({"uniqueItems": True}),
    ),
    larger,
    max_leaves=8,
)
BUDGETS = st.sampled_from([0.0, 1.0, 10.0, 100.0, 1000.0, 20_000.0])
ENTRIES = st.lists(st.tuples(SCHEMAS, st.sampled_from(OPERATIONS)), min_size=1, max_size=3)


def in_truth(schema: Any, args: Mapping[str, Any]) -> bool:
    limit = jsonschema_rs.FancyRegexOptions(backtrack_limit=1 << 40)
    return jsonschema_rs.validator_for(schema, pattern_options=limit).is_valid(dict(args))


def classed_in_truth(entries: list[tuple[Any, Operation]], last: Operation, args: Mapping[str, Any]) -> Operation:
    return next((each for schema, each in entries if in_truth(schema, args)), last)


def overrides(entries: list[tuple[Any, Operation]], last: Operation, budget: float) -> tuple[Override, ...]:
    return *(Override(each, compile_match(schema, budget)) for schema, each in entries), Override(last)


@settings(deadline=None)
@given(ENTRIES, st.sampled_from(OPERATIONS), ARGUMENTS, BUDGETS)
def test_a_small_budget_never_lowers_a_class(
    entries: list[tuple[Any, Operation]], last: Operation, args: dict[str, Any], budget: float
) -> None:
    found, _ = class_of(tool("t", overrides=overrides(entries, last, budget)), args)
    assert RANK[found] >= RANK[classed_in_truth(entries, last, args)]


@settings(deadline=None)
@given(ENTRIES, st.sampled_from(OPERATIONS), ARGUMENTS, BUDGETS, st.lists(st.booleans(), max_size=4))
def test_nor_does_what_was_found_out_beside_the_loop_or_could_not_be(
    entries: list[tuple[Any, Operation]], last: Operation, args: dict[str, Any], budget: float, decidable: list[bool]
) -> None:
    """As far as checks can be made, one after the other, the class is the true one or higher; with all of them made, it
    is the true one."""
    made = tool("t", overrides=overrides(entries, last, budget))
    truth = classed_in_truth(entries, last, args)
    verdicts: list[CheckVerdict] = []
    for can in [*decidable, *[True] * len(entries)]:
        found, pending = matched(made, args, verdicts)
        assert RANK[found] >= RANK[truth]
        if pending is None:
            assert found == truth
            break
        fits = in_truth(json.loads(pending.schema.text), args)
        known = CheckVerdict(pending.schema.text, pending.args, None if fits else "no", None if can else "too long")
        verdicts.append(known)
        if not can:
            break


@settings(deadline=None)
@given(SCHEMAS, ARGUMENTS)
def test_what_is_told_on_the_loop_is_what_the_schema_says(schema: Any, args: dict[str, Any]) -> None:
    found = compile_check(schema)(args)
    if not isinstance(found, PendingCheck):
        assert (found is None) == in_truth(schema, args)


def test_a_verdict_is_for_its_own_arguments_and_its_own_schema() -> None:
    made = tool("t", overrides=overrides([({"required": ["a"]}, "read")], "destructive", 0.0))
    args = {"a": 1}
    found, pending = matched(made, args, ())
    assert found == "destructive"
    assert pending is not None
    right = CheckVerdict(pending.schema.text, args, None)
    assert matched(made, args, [right]) == ("read", None)
    assert matched(made, {"a": 2}, [right])[0] == "destructive"
    assert matched(made, args, [right._replace(schema=b"{}")])[0] == "destructive"
    assert matched(made, args, [right._replace(cannot="too long")])[0] == "destructive"


def test_a_decision_names_what_it_was_made_without() -> None:
    """Whoever sees a pending check may wait for it; who does not has the answer that forbids most."""
    made = tool(
        "t", overrides=overrides([({"required": ["a"]}, "read")], "write", 0.0), violation=compile_check({}, 0.0)
    )
    snapshot = Snapshot(Policy(), {"s": Server("s", "connected", {"t": made})})
    params = {"name": "s:t", "args": {"a": 1}, "intent": {"operation_type": "write"}}
    first = decide.decide(Ask("1", 0.0, "call_tool_write", params), snapshot)
    assert isinstance(first, Route)
    assert (first.tool_class, first.origin) == ("write", "undecided")
    assert first.warning is not None
    assert "not checked against its input schema" in first.warning
    assert "highest class" in first.warning
    assert first.pending is not None


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        ({"properties": {"a": {"anyOf": [{"pattern": r"^(?:(a+)\1?)+$"}, {"type": "string"}]}}}, {"a": "a" * 60 + "!"}),
        ({"properties": {"a": {"not": {"pattern": r"^(?:(a+)\1?)+$"}}}}, {"a": "a" * 60 + "!"}),
        ({"patternProperties": {r"^(?:(a+)\1?)+$": False}}, {"a" * 60 + "!": 1}),
        ({"propertyNames": {"not": {"pattern": r"^(?:(a+)\1?)+$"}}}, {"a" * 60 + "!": 1}),
        ({"properties": {"a": {"items": {"enum": [{"x": n} for n in range(3000)]}}}}, {"a": [{"x": 1}] * 9}),
        ({"unevaluatedProperties": False}, {}),
        ({"$dynamicRef": "#"}, {}),
        ({"properties": {"a": {"$id": "http://x/y", "$ref": "#/$defs/b", "$defs": {"b": {}}}}}, {}),
        ({"properties": {"a": {"items": {"multipleOf": 3}}}}, {"a": [3**8000] * 50}),
        ({"properties": {"a": {"pattern": "(?:.{1,20}){1,200}!$"}}}, {"a": "b"}),
        ({"additionalProperties": {"$ref": "#"}}, {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {
            "a": {"a": {"a": {}}}}}}}}}}}}}}}),
        ({"properties": {f"p{n}": {"pattern": f"^{n}"} for n in range(60)}}, {}),
    ],
)  # fmt: skip
def test_what_may_take_long_is_not_done_on_the_loop(schema: Any, args: dict[str, Any]) -> None:
    assert isinstance(compile_check(schema)(args), PendingCheck)


MAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
"""As a library writes it that many servers are made with."""


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        ({"properties": {"text": {"type": "string"}}}, {"text": "x" * 4_000_000, "path": "p"}),
        ({"properties": {"rows": {"items": {"properties": {"a": {"type": "integer"}}}}}}, {"rows": [{"a": 1}] * 500}),
        ({"properties": {"sql": {"pattern": r"^\s*(?i:select)\b[^;]*$"}}}, {"sql": "select " + "a, " * 1000}),
        ({"properties": {"mail": {"pattern": MAIL}}}, {"mail": "somebody.else@mail.example.com"}),
        ({"properties": {"kind": {"enum": [f"kind-{n}" for n in range(300)]}}}, {"kind": "kind-7"}),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}}}},
         {"next": {"next": {"next": {}}}}),
    ],
)  # fmt: skip
def test_what_honest_tools_ask_is_checked_at_once(schema: Any, args: dict[str, Any]) -> None:
    assert compile_check(schema)(args) is None
