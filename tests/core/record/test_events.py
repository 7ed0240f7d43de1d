from __future__ import annotations

import json
from typing import Any

import pytest

from mcpproxy_py.core.policy.decide import decide
from mcpproxy_py.core.record import events
from mcpproxy_py.core.values import Policy
from tests.core.example_snapshot import ask, read, snapshot, tool


def asked(params: Any, outer: str = "call_tool_read", **tool_args: Any) -> dict[str, Any]:
    here = snapshot(tool("t", {"destructiveHint": True, "draft": 1}, **tool_args))
    made = ask(params, outer)
    event = events.asked(made, decide(made, here), Policy(), 1000)
    return {**event, "arguments": json.loads(event["arguments"])}


@pytest.mark.proves("ACT-2")
def test_a_refusal_is_recorded_with_the_intent_that_was_refused() -> None:
    intent = {"operation_type": "read", "data_sensitivity": "private", "reason": "tidy up"}
    event = asked({"name": "s:t", "intent": intent, "args": {"id": 1}})
    assert event["metadata"]["intent"] == {**intent, "source": "declared"}
    assert event["metadata"]["tool_variant"] == "call_tool_read"
    assert (event["server"], event["tool"], event["arguments"]) == ("s", "t", {"id": 1})
    decision = event["metadata"]["decision"]
    assert (decision["verdict"], decision["rule"], decision["class"]) == ("refuse", "class", "destructive")
    assert decision["annotations"] == {"destructiveHint": True, "draft": 1}
    assert decision["mode"] == "strict"


@pytest.mark.proves("ACT-2")
def test_a_malformed_intent_is_recorded_as_far_as_it_could_be_read() -> None:
    event = asked({"name": "s:t", "intent": {"operation_type": "raed", "reason": "x"}})
    assert event["metadata"]["intent"] == {"operation_type": "raed", "reason": "x"}
    assert asked({"name": "s:t", "intent": [1]})["metadata"]["intent"] == {"claimed": [1]}


@pytest.mark.proves("ACT-1")
@pytest.mark.parametrize("params", [None, [], "x", {"name": 5}, {"name": "no colon"}, {"name": "s:\ud800"}, {}])
def test_an_ask_that_could_not_be_read_is_still_a_record(params: Any) -> None:
    event = asked(params)
    assert event["id"] == "id-1"
    assert isinstance(event["tool"], str) and event["tool"]


@pytest.mark.proves("ACT-1")
def test_payloads_are_masked_and_bounded_with_their_sizes_kept() -> None:
    secret = asked({"name": "s:t", "args": {"password": "hunter2", "note": "x" * 5000}})
    assert "hunter2" not in str(secret)
    assert secret["arguments_size"] > 5000
    assert len(str(secret["arguments"])) < 2000
    done = events.finished("i", 1.0, events.outcome_of({"content": [], "token": "s3cr3t-value-9"}, {}), 1.0, 1000)
    assert "s3cr3t-value-9" not in str(done)


@pytest.mark.proves("ACT-1")
def test_a_tool_result_with_is_error_is_an_error_on_record() -> None:
    outcome = events.outcome_of({"isError": True, "content": [{"type": "text", "text": "no such repo"}]}, {})
    assert outcome.status == "error"
    assert outcome.error == {"code": "TOOL_ERROR", "message": "no such repo"}
    assert events.outcome_of({"isError": True, "content": [None, 5, {"text": 7}]}, {}).status == "error"


def test_a_search_is_told_apart_from_a_call() -> None:
    assert asked({"query": "x"}, "retrieve_tools")["type"] == "tool_search"
    wish = asked({"capability": "fly"}, "request_capability")
    assert (wish["type"], wish["tool"], wish["server"]) == ("tool_call", "request_capability", None)
    assert read().tool == "call_tool_read"
