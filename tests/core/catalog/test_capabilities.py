"""The four questions about agents: each documented answer with its keys, nesting and closed sets."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from mcpproxy_py.core.catalog.capabilities import compare_capability, get_sources, list_capabilities, lookup_capability
from mcpproxy_py.core.catalog.model import CATEGORIES, Maturity, NotAnswered, Tier
from mcpproxy_py.providers.catalog.load import load

pytestmark = pytest.mark.proves("CAT-1")

CATALOG = load()
AGENTS = ["claude-code", "copilot-cli", "gemini-cli", "vscode-copilot"]


def test_a_lookup_has_exactly_the_documented_keys() -> None:
    answer = lookup_capability(CATALOG, agent="claude-code", capability="MCP Support")
    assert list(answer) == ["agent", "capability"]
    capability = answer["capability"]
    assert list(capability) == ["name", "category", "available", "tier", "maturityLevel", "description",
                                "implementationNotes", "sources"]  # fmt: skip
    assert (answer["agent"], capability["name"], capability["category"]) == (
        "claude-code", "MCP Support", "api-integration"
    )  # fmt: skip
    assert (capability["available"], capability["tier"], capability["maturityLevel"]) == (True, "pro", "stable")
    assert list(capability["implementationNotes"]) == ["setup", "configFile", "startUrl", "gotchas"]
    assert capability["implementationNotes"]["setup"].startswith("claude mcp add")
    assert all(list(source) == ["url", "verifiedDate"] for source in capability["sources"])
    json.dumps(answer)


@pytest.mark.parametrize(
    ("agent", "said"),
    [("claude-code", ".mcp.json (project), ~/.claude.json"), ("vscode-copilot", ".vscode/mcp.json"),
     ("copilot-cli", "~/.copilot/mcp-config.json"), ("gemini-cli", "settings.json")],
)  # fmt: skip
def test_the_files_that_hold_mcp_servers_are_the_right_ones(agent: str, said: str) -> None:
    capability = lookup_capability(CATALOG, agent=agent, capability="mcp")["capability"]
    assert capability["available"] is True
    assert said in capability["implementationNotes"]["configFile"]
    if agent == "vscode-copilot":
        assert any("root key is servers" in line for line in capability["implementationNotes"]["gotchas"])


def test_a_lookup_of_what_an_agent_lacks_says_so_and_nothing_more() -> None:
    answer = lookup_capability(CATALOG, agent="claude-code", capability="next edit suggestions")
    assert answer == {
        "agent": "claude-code",
        "capability": {"name": "Next Edit Suggestions", "category": "code-generation", "available": False},
    }


def test_an_unchecked_record_says_that_it_is() -> None:
    unchecked = [
        (agent.id, record)
        for agent in CATALOG.agents.values()
        for record in agent.records.values()
        if record.available and record.status == "unknown"
    ]
    assert unchecked, "nothing is unchecked any more: drop this test"
    for agent, record in unchecked:
        assert lookup_capability(CATALOG, agent=agent, capability=record.name)["capability"]["status"] == "unknown"


def test_a_comparison_has_the_documented_rows() -> None:
    answer = compare_capability(CATALOG, capability="mcp")
    assert list(answer) == ["capability", "comparison"]
    assert answer["capability"] == "MCP Support"
    assert [row["agent"] for row in answer["comparison"]] == AGENTS
    for row in answer["comparison"]:
        assert list(row) == ["agent", "available", "tier", "maturityLevel", "implementationNotes"]
        assert set(row["implementationNotes"]) <= {"setup", "startUrl"}


def test_agents_without_a_capability_are_compared_by_name_only() -> None:
    rows = compare_capability(CATALOG, capability="Copilot Spaces")["comparison"]
    assert {"agent": "gemini-cli", "available": False} in rows


def test_a_comparison_can_be_narrowed_and_names_nobody_twice() -> None:
    answer = compare_capability(CATALOG, capability="vision", agents=["gemini-cli", "Gemini CLI", "claude-code"])
    assert [row["agent"] for row in answer["comparison"]] == ["gemini-cli", "claude-code"]


def test_a_list_of_an_agent_holds_compact_rows_of_what_is_available() -> None:
    answer = list_capabilities(CATALOG, agent="claude-code")
    assert list(answer) == ["agent", "capabilities"]
    assert {"name": "Agent Mode", "category": "agent-orchestration", "tier": "pro", "available": True} in (
        answer["capabilities"]
    )
    for row in answer["capabilities"]:
        assert list(row) == ["name", "category", "tier", "available"]
        assert row["available"] is True
    assert "implementationNotes" not in json.dumps(answer)
    assert "Next Edit Suggestions" not in json.dumps(answer)


def test_a_list_by_category_alone_groups_by_agent() -> None:
    answer = list_capabilities(CATALOG, category="model")
    assert answer["category"] == "model"
    assert [group["agent"] for group in answer["agents"]] == AGENTS
    assert {row["category"] for group in answer["agents"] for row in group["capabilities"]} == {"model"}


def test_a_list_by_both_is_narrowed_by_both() -> None:
    answer = list_capabilities(CATALOG, agent="gemini-cli", category="API Integration")
    assert (answer["agent"], answer["category"]) == ("gemini-cli", "api-integration")
    assert {row["name"] for row in answer["capabilities"]} == {"MCP Support", "Google Search Grounding"}


def test_a_list_of_nothing_in_particular_is_refused() -> None:
    with pytest.raises(NotAnswered, match="At least one parameter"):
        list_capabilities(CATALOG)


def test_sources_of_one_record_have_url_description_date_and_status() -> None:
    answer = get_sources(CATALOG, agent="gemini-cli", capability="web search")
    assert (answer["agent"], answer["capability"], answer["status"]) == (
        "gemini-cli", "Google Search Grounding", "verified"
    )  # fmt: skip
    for source in answer["sources"]:
        assert list(source) == ["url", "description", "verifiedDate", "sourceGranularity"]
        assert source["sourceGranularity"] in ("dedicated", "section", "excerpt")


def test_sources_of_a_capability_are_grouped_by_agent() -> None:
    answer = get_sources(CATALOG, capability="Agent Mode")
    assert [group["agent"] for group in answer["agents"]] == AGENTS
    assert all(set(group) == {"agent", "status", "sources"} for group in answer["agents"])


def test_sources_of_an_agent_name_each_page_once_with_what_it_vouches_for() -> None:
    answer = get_sources(CATALOG, agent="gemini-cli")
    urls = [page["url"] for page in answer["sources"]]
    assert len(urls) == len(set(urls))
    covered = {name for page in answer["sources"] for name in page["capabilities"]}
    assert {"MCP Support", "Token Caching"} <= covered


def test_sources_of_everything_are_compact() -> None:
    answer = get_sources(CATALOG)
    assert [group["agent"] for group in answer["agents"]] == AGENTS
    assert all(set(page) == {"url", "verifiedDate"} for group in answer["agents"] for page in group["sources"])


@pytest.mark.proves("CAT-2")
@pytest.mark.parametrize("ask", [
    lambda: lookup_capability(CATALOG, agent="claude-code", capability="code"),
    lambda: compare_capability(CATALOG, capability="code"),
    lambda: get_sources(CATALOG, capability="code"),
])  # fmt: skip
def test_an_ambiguous_name_is_answered_with_three_matches(ask: Any) -> None:
    answer = ask()
    assert list(answer) == ["matches"]
    assert len(answer["matches"]) == 3
    assert all(list(row) == ["name", "category", "matchConfidence"] for row in answer["matches"])


@pytest.mark.proves("CAT-2")
def test_a_name_like_nothing_is_answered_with_the_nearest_and_how_to_list_all() -> None:
    answer = compare_capability(CATALOG, capability="xyzzy")
    assert len(answer["matches"]) == 3
    assert "xyzzy" in answer["message"] and "list_capabilities" in answer["message"]


@pytest.mark.proves("CAT-2")
def test_an_unknown_agent_is_an_error_that_names_the_four() -> None:
    with pytest.raises(NotAnswered) as refused:
        lookup_capability(CATALOG, agent="claude-cod", capability="mcp")
    assert all(agent in str(refused.value) for agent in AGENTS)
    assert "Did you mean claude-code?" in str(refused.value)


@pytest.mark.parametrize("ask", [
    lambda: lookup_capability(CATALOG, agent="claude-code", capability=" - "),
    lambda: compare_capability(CATALOG, capability="mcp", agents=[]),
    lambda: compare_capability(CATALOG, capability="mcp", agents=["cursor"]),
    lambda: list_capabilities(CATALOG, category="colours"),
    lambda: get_sources(CATALOG, agent="nobody"),
])  # fmt: skip
def test_what_cannot_be_asked_is_said_in_words(ask: Any) -> None:
    with pytest.raises(NotAnswered) as refused:
        ask()
    assert len(str(refused.value)) < 400


@pytest.mark.proves("CAT-3")
def test_tiers_maturity_and_categories_come_from_the_closed_sets() -> None:
    for agent in CATALOG.agents.values():
        for record in agent.records.values():
            assert record.category in CATEGORIES
            assert record.tier in (*get_args(Tier), None)
            assert record.maturity in (*get_args(Maturity), None)
