"""What a record tells of the ladder is what the dry run of the same ask shows."""

from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.core.policy import decide
from mcpproxy_py.core.record import events
from mcpproxy_py.core.record.recorded_rungs import LOOKS_AT, rungs_on_record
from mcpproxy_py.core.values import Ask, Policy, Refusal, Snapshot
from tests.core.example_snapshot import ask, read, snapshot, tool

pytestmark = pytest.mark.proves("USE-2")


def record(made: Ask, here: Snapshot) -> dict[str, Any]:
    """As REST gives it of an ask that ended with its decision."""
    decision = decide.decide(made, here)
    event = events.asked(made, decision, here.policy, 1000)
    refused = isinstance(decision, Refusal)
    error = events.failure(decision.code, decision.message) if isinstance(decision, Refusal) else None
    event["metadata"] |= {"refused_by": decision.rule} if isinstance(decision, Refusal) else {}
    return {**event, "status": "blocked" if refused else "success", "error": error}


HERE = snapshot(tool("t", {"readOnlyHint": True}), tool("d", {"destructiveHint": True}))
WRITE = {"intent": {"operation_type": "write"}}


@pytest.mark.parametrize(
    ("made", "here"),
    [
        (read(), HERE), (read("s:d"), HERE), (read("x:t"), HERE), (read("s:x"), HERE), (ask(None), HERE),
        (ask({"name": "t"}), HERE), (ask({"name": "s:t"}), HERE), (ask({"name": "s:t", **WRITE}), HERE),
        (ask({"name": "s:t", **WRITE}, "call_tool_write"), HERE),
        (ask({"name": "s:t", **WRITE}, "call_tool_write"), snapshot(tool("t"), policy=Policy(frozen=True))),
        (read(), snapshot(tool("t"), state="connecting")),
        (Ask("i", 0.0, "s__t", {}, surface="direct"), HERE), (Ask("i", 0.0, "s__d", {}, surface="direct"), HERE),
        (Ask("i", 0.0, "t", {}, surface="passthrough", server="s"), HERE),
    ],
)  # fmt: skip
def test_the_rungs_on_record_are_those_of_the_dry_run(made: Ask, here: Snapshot) -> None:
    names = {"would wait": "failed"}  # a dry run does not wait for a server, and goes on
    shown = [(step.number, step.rule, names.get(step.outcome, step.outcome)) for step in decide.explain(made, here)]
    at = [outcome for *_, outcome in shown].index("failed") if "failed" in str(shown) else len(shown)
    shown = [*shown[: at + 1], *((number, rule, "not reached") for number, rule, _ in shown[at + 1 :])]
    told = rungs_on_record(record(made, here))
    assert [(step["number"], step["rule"], step["outcome"]) for step in told] == shown
    failed = [step["message"] for step in told if step["outcome"] == "failed"]
    assert failed == ([] if record(made, here)["error"] is None else [record(made, here)["error"]["message"]])


def test_what_stopped_a_call_after_the_ladder_is_a_step_of_its_own() -> None:
    stopped = record(read(), HERE)
    stopped |= {"status": "blocked", "error": {"code": "NOT_CONFIRMED", "message": "nobody said yes"}}
    stopped["metadata"]["refused_by"] = "confirm"
    *ladder, last = rungs_on_record(stopped)
    assert {step["outcome"] for step in ladder} == {"passed"}
    assert (last["number"], last["rule"], last["outcome"]) == (None, "confirm", "failed")
    assert last["message"] == "nobody said yes"


def test_who_may_not_do_everything_is_shown_the_rung_that_said_so() -> None:
    refused = record(read(), HERE)
    refused |= {"status": "blocked", "error": {"code": "FORBIDDEN", "message": "above its ceiling"}}
    refused["metadata"] = {"decision": {"verdict": "refuse", "rule": "ceiling"}, "refused_by": "ceiling"}
    names = [step["rule"] for step in rungs_on_record(refused) if step["outcome"] == "failed"]
    assert names == ["ceiling"]


@pytest.mark.parametrize(
    "said",
    [{}, {"metadata": None}, {"metadata": {"decision": []}}, {"type": "tool_search"},
     {"type": "tool_call", "metadata": {"decision": {"verdict": "local", "rule": "local"}}},
     {"type": "tool_call", "surface": "gate", "metadata": {"decision": {"verdict": "refuse", "rule": ["x"]}}},
     {"type": "tool_call", "surface": "gate", "metadata": {"decision": {"verdict": "refuse", "rule": "outer_name"}}}],
)  # fmt: skip
def test_what_was_not_decided_on_a_ladder_has_no_rungs(said: dict[str, Any]) -> None:
    assert rungs_on_record(said) == []


def test_each_rung_says_what_it_looks_at() -> None:
    ladders = (*decide.BELOW_CEILING, *decide.BELOW_CEILING.values())
    assert {name for ladder in ladders for name, _ in ladder} == set(LOOKS_AT)
