from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.policy.decide import decide
from mcpproxy_py.core.policy.declaration import BadIntent, parse
from mcpproxy_py.core.values import Intent, Policy, Refusal, Route
from mcpproxy_py.errors import Code
from tests.core.example_snapshot import ask, snapshot, tool

pytestmark = pytest.mark.proves("GATE-1")
VALID = {"operation_type": "read", "data_sensitivity": "internal", "reason": "to look"}


@pytest.mark.parametrize(
    "params",
    [
        {"intent": VALID},
        {"intent": '{"operation_type": "read", "data_sensitivity": "internal", "reason": "to look"}'},
        {f"intent_{key}": value for key, value in VALID.items()},
        {"intent": {"operation_type": "read"}, "intent_data_sensitivity": "internal", "intent_reason": "to look"},
        {"intent": VALID, "intent_operation_type": "read"},
    ],
)
def test_every_spelling_means_the_same(params: dict[str, Any]) -> None:
    assert parse(params, "call_tool_read") == Intent("read", "internal", "to look")


@pytest.mark.proves("GATE-4")
@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({}, Code.MISSING_INTENT, "intent parameter is required for call_tool_read"),
        ({"intent": None}, Code.MISSING_INTENT, "intent parameter is required for call_tool_read"),
        ({"intent": {}}, Code.MISSING_OPERATION_TYPE, "intent.operation_type is required"),
        ({"intent_reason": "why"}, Code.MISSING_OPERATION_TYPE, "intent.operation_type is required"),
        ({"intent": {"operation_type": ""}}, Code.MISSING_OPERATION_TYPE, "intent.operation_type is required"),
        (
            {"intent": {"operation_type": "unknown"}},
            Code.INVALID_OPERATION_TYPE,
            "Invalid intent.operation_type 'unknown': must be read, write, or destructive",
        ),
        (
            {"intent": {"operation_type": ["read"]}},
            Code.INVALID_OPERATION_TYPE,
            "Invalid intent.operation_type '[\"read\"]': must be read, write, or destructive",
        ),
        (
            {"intent": {"operation_type": "read", "data_sensitivity": "x"}},
            Code.INVALID_SENSITIVITY,
            "Invalid intent.data_sensitivity 'x': must be public, internal, private, or unknown",
        ),
        (
            {"intent": {"operation_type": "read", "reason": "🦀" * 1001}},
            Code.REASON_TOO_LONG,
            "intent.reason exceeds maximum length of 1000 characters",
        ),
    ],
)
def test_the_messages_are_those_of_the_specification(params: dict[str, Any], code: Code, message: str) -> None:
    found = parse(params, "call_tool_read")
    assert isinstance(found, BadIntent)
    assert (found.code, found.message) == (code, message)


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        ("read", "is not a JSON object"),
        ('"read"', "not a string"),
        ("[1]", "not an array"),
        ([], "not an array"),
        (5, "not a number"),
        (True, "not a boolean"),
        ({"intent": VALID}, "unknown key 'intent'"),
        ({"operation_type": "read", "operation_typ": "read"}, "did you mean operation_type?"),
        ({"operation_type": "read", "reason": 5}, "intent.reason must be a string, not a number"),
        ({"operation_type": "read", "reason": "\udfff"}, "cannot be kept"),
    ],
)
def test_a_wrong_shape_says_what_is_wrong(intent: Any, words: str) -> None:
    found = parse({"intent": intent}, "call_tool_read")
    assert isinstance(found, BadIntent)
    assert found.code is Code.INVALID_INTENT
    assert words in found.message


@pytest.mark.proves("GATE-4")
def test_spellings_that_disagree_are_a_conflict() -> None:
    found = parse({"intent": {"operation_type": "read"}, "intent_operation_type": "write"}, "call_tool_read")
    assert isinstance(found, BadIntent)
    assert found.code is Code.INTENT_CONFLICT


def test_a_reason_is_counted_in_characters_not_bytes() -> None:
    found = parse({"intent": {"operation_type": "read", "reason": "🦀" * 1000}}, "call_tool_read")
    assert isinstance(found, Intent)


def test_a_missing_intent_can_be_inferred_where_the_operator_says_so() -> None:
    here = snapshot(tool("t", {"readOnlyHint": True}), policy=Policy(missing_intent="infer"))
    decision = decide(ask({"name": "s:t"}), here)
    assert isinstance(decision, Route)
    assert decision.intent == Intent("read", source="inferred")
    wrong = decide(ask({"name": "s:t", "intent": {"operation_type": "write"}}), here)
    assert isinstance(wrong, Refusal), "only a missing intent is inferred, never a wrong one"


@given(st.dictionaries(st.sampled_from(["intent", "intent_operation_type", "intent_reason"]), st.one_of(
    st.none(), st.text(), st.integers(), st.lists(st.text()), st.dictionaries(st.text(), st.text()))))  # fmt: skip
def test_nothing_makes_the_parser_raise(params: dict[str, Any]) -> None:
    assert isinstance(parse(params, "call_tool_write"), Intent | BadIntent)
