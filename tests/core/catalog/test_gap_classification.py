"""What is missing: a total function, asked about every combination of facts."""

from __future__ import annotations

from itertools import product

import pytest

from mcpproxy_py.core.catalog.gaps import FACT_NAMES, GAPS, MOST_TOOLS, NEXT_ACTIONS, RULES, STATES, Facts, classify

pytestmark = pytest.mark.proves("GAP-1")

ALL = [Facts(*values) for values in product((False, True), repeat=len(FACT_NAMES))]


def facts(*true: str) -> Facts:
    return Facts(**{name: name in true for name in FACT_NAMES})


def test_every_combination_has_exactly_one_answer_from_the_closed_sets() -> None:
    assert len(ALL) == 2**7
    for case in ALL:
        answer = classify(case, ["s:t"])
        assert answer == classify(case, ["s:t"])
        shown = answer.as_json()
        assert list(shown) == ["state", "gap", "available_tools", "next_action", "approval_needed", "reason"]
        assert shown["state"] in STATES and shown["gap"] in GAPS and shown["next_action"] in NEXT_ACTIONS
        assert isinstance(shown["approval_needed"], bool) and shown["reason"]


def test_every_rule_every_state_and_every_gap_is_reached() -> None:
    answers = [classify(case) for case in ALL]
    assert {answer.rule.name for answer in answers} == {rule.name for rule in RULES}
    assert {answer.state for answer in answers} == set(STATES)
    assert {answer.rule.gap for answer in answers} == set(GAPS)
    assert {answer.rule.next_action for answer in answers} == set(NEXT_ACTIONS)


def test_only_a_server_that_can_be_called_is_to_be_used_and_only_then_nobody_has_to_approve() -> None:
    for case in ALL:
        answer = classify(case)
        usable = case.connected and case.enabled and case.authorised and (case.tool_present or not case.tool_asked)
        assert (answer.rule.next_action == "use_tool") is usable
        assert answer.rule.approval_needed is not usable


def test_no_tool_is_offered_that_cannot_be_called() -> None:
    for case in ALL:
        offered = classify(case, ["s:t"]).available_tools
        assert bool(offered) is (case.connected and case.enabled and case.authorised)


def test_catalogued_and_configured_but_disabled_is_for_a_person_to_enable() -> None:
    answer = classify(facts("cataloged", "configured", "authorised"))
    assert (answer.state, answer.rule.gap, answer.rule.next_action) == (
        "cataloged_not_connected", "connector_disabled", "ask_human_to_enable"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("case", "state", "gap", "action"),
    [(facts("connected", "enabled", "configured", "authorised"), "connected_enabled", "unknown", "use_tool"),
     (facts("connected", "configured", "authorised"), "connected_disabled", "connector_disabled",
      "ask_human_to_enable"),
     (facts("cataloged", "authorised"), "cataloged_not_connected", "connector_missing", "ask_human_to_connect"),
     (facts("authorised"), "uncataloged", "connector_missing", "file_capability_request")],
)  # fmt: skip
def test_the_four_documented_states(case: Facts, state: str, gap: str, action: str) -> None:
    answer = classify(case)
    assert (answer.state, answer.rule.gap, answer.rule.next_action) == (state, gap, action)


def test_a_long_list_of_tools_is_cut() -> None:
    answer = classify(facts("connected", "enabled", "authorised"), [f"s:t{n}" for n in range(500)])
    assert len(answer.as_json()["available_tools"]) == MOST_TOOLS
