from __future__ import annotations

import json

import bpe_openai
import pytest

from mcpproxy_py.core.policy.server_line import server_line
from mcpproxy_py.core.policy.surface_tools import INSTRUCTIONS, definitions, instructions
from mcpproxy_py.core.values import VARIANTS

BUDGET = 1300
MARGIN = 20
"""What a name, a setting or a word more may cost before the budget is gone."""
TWENTY = [
    "github", "git", "filesystem", "playwright", "chrome-devtools", "context7", "sqlite", "postgres", "slack", "notion",
    "linear", "jira", "sentry", "stripe", "memory", "fetch", "time", "puppeteer", "figma", "supabase",
]  # fmt: skip
NAMES = [
    "retrieve_tools", "call_tool_read", "call_tool_write", "call_tool_destructive", "read_result", "request_capability"
]  # fmt: skip


@pytest.mark.proves("SURF-1")
def test_the_gate_has_its_six_tools_in_a_stable_order() -> None:
    assert [tool["name"] for tool in definitions()] == NAMES
    assert definitions() == definitions()


@pytest.mark.proves("SURF-13")
def test_nothing_is_read_on_where_nothing_is_cut() -> None:
    assert [tool["name"] for tool in definitions(reads_on=False)] == [name for name in NAMES if name != "read_result"]
    assert definitions()[4]["annotations"]["readOnlyHint"] is True


@pytest.mark.proves("SURF-1")
@pytest.mark.parametrize("schema", ["nested", "flat"])
def test_all_definitions_together_cost_an_agent_less_than_1300_tokens(schema: str) -> None:
    text = json.dumps(definitions(schema=schema), ensure_ascii=False)
    for encoding in ("o200k_base", "cl100k_base"):
        assert len(bpe_openai.get_encoding(encoding).encode(text)) <= BUDGET - MARGIN


@pytest.mark.proves("SURF-1", "SURF-11")
@pytest.mark.parametrize("schema", ["nested", "flat"])
def test_they_still_do_with_twenty_servers_named_and_all_that_hosts_are_told(schema: str) -> None:
    tools = definitions(schema=schema, servers=server_line(TWENTY), host_confirm=True)
    text = json.dumps(tools, ensure_ascii=False)
    for encoding in ("o200k_base", "cl100k_base"):
        assert len(bpe_openai.get_encoding(encoding).encode(text)) <= BUDGET - MARGIN


@pytest.mark.proves("SURF-11")
def test_hosts_are_told_in_their_own_terms() -> None:
    told = {tool["name"]: tool["_meta"] for tool in definitions()}
    always = {"anthropic/alwaysLoad": True}
    large = {**always, "anthropic/maxResultSizeChars": 100_000}
    assert told == {
        "retrieve_tools": large, "call_tool_read": large, "call_tool_write": always, "call_tool_destructive": always,
        "read_result": always, "request_capability": always,
    }  # fmt: skip
    asking = {tool["name"]: tool["_meta"] for tool in definitions(host_confirm=True)}
    key = "anthropic/requiresUserInteraction"
    assert {name for name, meta in asking.items() if key in meta} == {"call_tool_destructive"}
    assert asking["call_tool_destructive"][key] is True


@pytest.mark.proves("SURF-11")
def test_the_servers_in_reach_stand_in_the_instructions_and_where_tools_are_searched() -> None:
    line = server_line(["b", "a"])
    assert line == "Servers: a b."
    assert instructions(INSTRUCTIONS, line).endswith("request_capability. Servers: a b.")
    assert definitions(servers=line)[0]["description"].endswith("Start here. Servers: a b.")
    assert [tool["description"] for tool in definitions(servers=line)[1:]] == [
        tool["description"] for tool in definitions()[1:]
    ]
    assert instructions(INSTRUCTIONS, "") == INSTRUCTIONS


@pytest.mark.proves("SURF-1")
def test_the_instructions_are_five_sentences() -> None:
    assert INSTRUCTIONS.count(". ") + 1 == 5
    assert INSTRUCTIONS.endswith(".")


@pytest.mark.proves("GATE-7")
def test_every_gate_tool_is_honest_about_itself() -> None:
    hints = {tool["name"]: tool["annotations"] for tool in definitions()}
    assert hints["call_tool_read"]["readOnlyHint"] is True
    assert hints["call_tool_read"]["destructiveHint"] is False
    assert hints["call_tool_write"]["readOnlyHint"] is False
    assert hints["call_tool_write"]["destructiveHint"] is False
    assert hints["call_tool_destructive"]["readOnlyHint"] is False
    assert hints["call_tool_destructive"]["destructiveHint"] is True
    assert hints["retrieve_tools"]["readOnlyHint"] is True


@pytest.mark.proves("GATE-5")
def test_the_variants_declare_no_output_schema_because_refusals_are_structured() -> None:
    assert all("outputSchema" not in tool for tool in definitions() if tool["name"] in VARIANTS)


@pytest.mark.proves("GATE-1")
def test_either_spelling_of_the_intent_can_be_advertised() -> None:
    nested, flat = definitions()[1]["inputSchema"], definitions(schema="flat")[1]["inputSchema"]
    assert set(nested["properties"]) == {"name", "args", "args_json", "intent"}
    assert nested["required"] == ["name", "intent"]
    assert set(flat["properties"]) == {
        "name", "args", "args_json", "intent_operation_type", "intent_data_sensitivity", "intent_reason"
    }  # fmt: skip
    assert flat["required"] == ["name", "intent_operation_type"]


def test_every_caller_gets_a_fresh_copy() -> None:
    first = definitions()
    first[0]["inputSchema"]["properties"].clear()
    first[4]["inputSchema"]["required"].clear()
    first[5]["inputSchema"]["required"].clear()
    assert definitions()[0]["inputSchema"]["properties"]
    assert definitions()[4]["inputSchema"]["required"] == ["id"]
    assert definitions()[5]["inputSchema"]["required"] == ["capability"]


def test_wishes_can_be_taken_away_or_worded_by_the_operator() -> None:
    assert [tool["name"] for tool in definitions(offers_requests=False)] == NAMES[:5]
    assert definitions(request_capability_text="Ask Bob.")[5]["description"] == "Ask Bob."
