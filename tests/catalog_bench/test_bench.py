"""The benchmark itself: its suite, its scores, its report (CAT-8)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.bench import offline as bench_offline
from mcpproxy_py.bench import report, suite
from mcpproxy_py.bench.models import Answered, ModelTurn, Wanted
from mcpproxy_py.bench.offline import OfflineRouter
from mcpproxy_py.bench.suite import BenchTarget, Prompt, Run, Scenario, Step, Suite, run

pytestmark = [pytest.mark.proves("CAT-8"), pytest.mark.anyio]
SOURCE_PROMPTS = {
    "Does Claude Code support MCP?": ("lookup_capability", {"agent": "claude-code", "capability": "MCP Support"}),
    "Compare debugging features across all agents": ("compare_capability", {"capability": "Debugging"}),
    "What can Gemini CLI do?": ("list_capabilities", {"agent": "gemini-cli"}),
    "Where did you get the info about Copilot's agent mode?": (
        "get_sources", {"capability": "Agent Mode", "agent": "vscode-copilot"},
    ),
}  # fmt: skip
SOURCE_SCENARIOS = {
    "Set up MCP in Claude Code": (1, 2), "Build a cross-agent debugging workflow": (2, 5),
    "Cite all sources for Gemini CLI": (1, 1), "Find all free-tier capabilities": (1, 4),
    "Cross-agent feature parity check": (1, 28),
}  # fmt: skip


async def offline(asked: Suite | None = None) -> Run:
    return await run(OfflineRouter(), bench_offline.catalog(), asked or suite.shipped(), suite.counter())


def test_the_suite_holds_what_the_source_asks_for() -> None:
    asked = suite.shipped()
    assert len(asked.prompts) >= 40
    assert len({prompt.text for prompt in asked.prompts}) == len(asked.prompts)
    found = {prompt.text: (prompt.expected.tool, prompt.expected.arguments) for prompt in asked.prompts}
    assert SOURCE_PROMPTS.items() <= found.items()
    assert {one.name: (one.least, one.most) for one in asked.scenarios} == SOURCE_SCENARIOS


async def test_every_expected_call_is_one_the_server_takes_and_answers_as_expected() -> None:
    server = bench_offline.catalog()
    for prompt in suite.shipped().prompts:
        result = await server.call(prompt.expected.tool, dict(prompt.expected.arguments))
        assert suite.right(prompt.expected, result), prompt.text


async def test_the_server_meets_its_targets_offline() -> None:
    """The figures that need no model: resolution of the prompts' own words, and tokens in every scenario."""
    measured = await offline()
    assert [one.prompt.said for one in measured.prompts if one.resolves is False] == []
    for one in measured.scenarios:
        assert one.scripted and one.in_bounds, one.scenario.name
        assert one.share is not None and one.share < 0.5, one.scenario.name
    met = {figure.name: figure.met for figure in report.figures(measured)}
    assert all(met.values()), met


class Says:
    """A driver that makes the calls it was given, one turn each, whatever it is asked."""

    name = "says"
    is_model = True

    def __init__(self, *turns: Sequence[tuple[str, Any]]) -> None:
        self._turns = turns

    def begin(self, prompt: str, tools: Sequence[Mapping[str, Any]]) -> Any:
        turns = iter(self._turns)

        class Spoken:
            async def turn(self, answered: Sequence[Answered] = ()) -> ModelTurn:
                return ModelTurn(tuple(Wanted(*call) for call in next(turns, ())))

        return Spoken()


LOOKUP, COMPARE = "lookup_capability", "compare_capability"
MCP = Prompt("?", Step(LOOKUP, {"agent": "claude-code", "capability": "MCP Support"}))
BOTH = ["claude-code", "gemini-cli"]
COMPARED = Prompt("?", Step(COMPARE, {"capability": "Vision", "agents": BOTH}))


def asked(**arguments: Any) -> list[tuple[str, Any]]:
    return [(LOOKUP, arguments)]


RIGHT = asked(agent="claude-code", capability="mcp")


@pytest.mark.parametrize(
    ("prompt", "turns", "tool", "arguments", "retried"),
    [
        (MCP, [RIGHT], True, True, False),
        (MCP, [asked(agent="Claude Code", capability="model context protocol")], True, True, False),
        (MCP, [asked(agent="gemini-cli", capability="mcp")], True, False, False),
        (MCP, [asked(agent="claude-code", capability="vision")], True, False, False),
        (MCP, [asked(agent="nobody", capability="mcp")], True, False, True),
        (MCP, [asked(agent="nobody", capability="mcp"), RIGHT], True, True, True),
        (MCP, [asked(agent="claude-code", capability="code"), RIGHT], True, True, True),
        (MCP, [[("mcp_list", {})], RIGHT], False, False, False),
        (MCP, [], False, False, False),
        (MCP, [[("no_such_tool", {})]], False, False, True),
        (MCP, [[(LOOKUP, "mcp")]], True, False, True),
        (COMPARED, [[(COMPARE, {"capability": "images"})]], True, False, False),
        (COMPARED, [[(COMPARE, {"capability": "images", "agents": BOTH[::-1]})]], True, True, False),
    ],
)  # fmt: skip
async def test_what_was_called_is_scored_as_the_source_defines_it(
    prompt: Prompt, turns: Any, tool: bool, arguments: bool, retried: bool
) -> None:
    (one,) = (await run(Says(*turns), bench_offline.catalog(), Suite((prompt,), ()))).prompts
    assert (one.right_tool, one.right_arguments, one.played.retried) == (tool, arguments, retried)


async def test_a_models_scenario_is_played_by_the_model_and_counted_as_it_went() -> None:
    scenario = Scenario("s", "?", (), 1, 2, ("claude-code",))
    for turns, in_bounds in ((1, True), (2, True), (3, False), (0, False)):
        driver = Says(*[asked(agent="claude-code", capability="mcp")] * turns)
        (one,) = (await run(driver, bench_offline.catalog(), Suite((), (scenario,)), suite.counter())).scenarios
        assert (len(one.played.made), one.in_bounds, one.scripted) == (turns, in_bounds, False)


async def test_figures_that_could_not_be_measured_are_none_and_say_why() -> None:
    server = bench_offline.catalog()
    measured = await run(OfflineRouter(), BenchTarget(server.tools, server.call), suite.shipped(), None)
    (figure,) = (one for one in report.figures(measured) if "tokens" in one.name)
    assert (figure.value, figure.met) == (None, None)
    assert "mcpproxy-py[bench]" in figure.as_json()["not_measured_because"]
    assert report.NOT_MEASURED in report.figure_rows(measured)[2]


async def test_the_report_is_json_with_every_prompt_and_scenario() -> None:
    measured = await offline()
    shown = json.loads(json.dumps(report.as_json([measured], {"openai": "no key"})))
    (one,) = shown["runs"]
    assert (one["driver"], one["is_model"]) == ("offline lexical router", False)
    assert len(one["prompts"]) == len(suite.shipped().prompts)
    assert len(one["scenarios"]) == 5
    assert [metric["target"] for metric in one["metrics"]][:4] == [">90%", ">85%", "<50%", "<10%"]
    assert shown["not_measured"] == [{"driver": "openai", "reason": "no key"}]


async def test_a_server_that_answers_garbage_is_scored_as_wrong() -> None:
    garbage: list[Any] = [
        {},
        [],
        {"capability": 3},
        {"comparison": 3, "servers": 3},
        {"comparison": [3], "servers": "x"},
    ]
    results = [{"content": 3}, {"content": [3]}, *({"structuredContent": one} for one in garbage)]
    for result in results:

        async def call(tool: str, arguments: Any, result: Any = result) -> Any:
            return result

        server = BenchTarget(bench_offline.catalog().tools, call, bench_offline.raw_data())
        measured = await run(OfflineRouter(), server, suite.shipped(), suite.counter())
        assert not any(one.right_arguments for one in measured.prompts)


def test_the_reference_page_says_that_its_figures_are_of_no_model() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "catalog-benchmark.md").read_text(encoding="utf-8")
    assert "**These figures are of no model.**" in page
