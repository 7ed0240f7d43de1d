"""`mcpproxy catalog bench` (CAT-8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpproxy_py.bench import suite
from tests.support.models import Says, model_server

pytestmark = pytest.mark.proves("CAT-8")
PROMPTS = len(suite.shipped().prompts)
LOOKUP = {
    "name": "catalog:lookup_capability", "class": "read", "description": "Looks up.", "inputSchema": {"type": "object"},
}  # fmt: skip


def metrics(run: Any) -> dict[str, Any]:
    return {one["metric"]: one["value"] for one in run["metrics"]}


def test_without_keys_it_runs_offline_and_says_what_it_could_not_measure(run: Any) -> None:
    ran = run("catalog", "bench")
    assert ran.status == 0
    assert "offline lexical router (no model" in ran.out
    assert "invocation accuracy" in ran.out and "Cross-agent feature parity check" in ran.out
    for name, key in (("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY")):
        assert f"Not measured: {name}: no model was named; set {key}" in ran.err


def test_a_named_model_is_asked_every_prompt_and_scenario(run: Any) -> None:
    right = [("lookup_capability", {"agent": "claude-code", "capability": "mcp"})]
    with model_server(Says(calls=right), Says(text="It does."), Says(refuses=True)) as models:
        ran = run("catalog", "bench", "--model", "anthropic:m", "-o", "json", env=models.environ())
        assert ran.status == 0
        assert len(models.seen) == PROMPTS + 5 + 1
    offline, asked = ran.json["runs"]
    assert (asked["driver"], asked["is_model"]) == ("anthropic m", True)
    assert metrics(asked)["invocation accuracy"] == round(1 / PROMPTS, 4)
    assert asked["prompts"][0]["right_arguments"] is True
    assert asked["prompts"][1]["trouble"] == "refused"
    assert [one["driver"] for one in ran.json["not_measured"]] == ["openai", "gemini"]
    assert metrics(offline)["invocation accuracy"] == 1.0


def test_a_model_that_cannot_be_reached_is_told_and_the_others_are_measured(run: Any) -> None:
    with model_server(Says(status=401)) as models:
        ran = run("catalog", "bench", "--model", "openai:m", "-o", "json", env=models.environ())
    assert ran.status == 1
    assert len(ran.json["runs"]) == 1
    assert {"driver": "openai m", "reason": "the API refused with status 401: slow down"} in ran.json["not_measured"]
    ran = run("catalog", "bench", "--model", "gemini:m", env={"GEMINI_API_KEY": "", "GOOGLE_API_KEY": ""})
    assert ran.status == 1
    assert "GEMINI_API_KEY or GOOGLE_API_KEY is not set" in ran.err


@pytest.mark.parametrize("wrong", ["anthropic", "anthropic:", "mistral:m", ":m"])
def test_a_model_that_is_not_named_in_full_is_wrong_usage(run: Any, wrong: str) -> None:
    ran = run("catalog", "bench", "--model", wrong)
    assert ran.status == 2
    assert "is not API:NAME" in ran.err


def test_through_the_gateway_each_call_is_an_ask_like_any_other(run: Any, gateway: Any) -> None:
    answer = {"agent": "claude-code", "capability": {"name": "MCP Support"}}
    writer = {**LOOKUP, "name": "catalog:mcp_request_capability", "class": "write"}
    gateway.answer("GET", "/tools", {"tools": [LOOKUP, writer], "next_cursor": None})
    gateway.answer("POST", "/call", {"id": "1", "status": "success", "warning": None, "result": {
        "content": [{"type": "text", "text": json.dumps(answer)}], "structuredContent": answer}})  # fmt: skip
    ran = run("catalog", "bench", "--gateway", "-o", "json")
    assert ran.status == 0
    called = [seen.body for seen in gateway.seen if seen.path == "/api/v1/call"]
    assert {(body["variant"], body["intent"]["operation_type"]) for body in called} == {("read", "read")}
    assert all(body["name"].startswith("catalog:") for body in called)
    assert ran.json["runs"][0]["prompts"][0]["right_arguments"] is True


def test_what_the_gateway_refuses_is_a_failed_call_and_not_the_end(run: Any, gateway: Any) -> None:
    gateway.answer("GET", "/tools", {"tools": [LOOKUP], "next_cursor": None})
    gateway.refuse("POST", "/call", 403, "TOOL_UNAVAILABLE", "Tool 'catalog:lookup_capability' is denied")
    ran = run("catalog", "bench", "--gateway", "-o", "json")
    assert ran.status == 0
    assert metrics(ran.json["runs"][0])["argument accuracy"] == 0


def test_a_gateway_without_the_catalog_says_so(run: Any, gateway: Any) -> None:
    gateway.answer("GET", "/tools", {"tools": [], "next_cursor": None})
    assert "has no tools of the catalog" in run("catalog", "bench", "--gateway").err
