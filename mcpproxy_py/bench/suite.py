"""Runs a suite with one driver against one server, and keeps what happened."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mcpproxy_py.bench import scoring
from mcpproxy_py.bench._bench_suite import Prompt, Scenario, Step, Suite
from mcpproxy_py.bench.dialogue import Answered, Driver, Usage, Wanted
from mcpproxy_py.bench.tokens import Count, compact, definitions

Call = Callable[[str, dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""Makes one tool call and gives its raw result."""
MOST_TURNS: Final = 6
"""Turns a prompt may take; a scenario gets one for each of its calls beside them."""


@dataclass(frozen=True, slots=True)
class Server:
    """What is measured: its tools, a way to call them, and the data files that they spare an agent, by agent."""

    tools: Sequence[Mapping[str, Any]]
    call: Call
    raw: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Made:
    """A call that was made, and its result."""

    step: Step
    result: Mapping[str, Any]

    def tokens(self, count: Count) -> int:
        request = compact({"name": self.step.tool, "arguments": dict(self.step.arguments)})
        return count(request) + count(scoring.text_of(self.result))


@dataclass(frozen=True, slots=True)
class Played:
    """A dialogue from first to last turn."""

    made: tuple[Made, ...]
    trouble: str | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def retried(self) -> bool:
        """Whether a call had to be followed by another because of what it gave, or should have been."""
        return any(scoring.needs_another(one.result) for one in self.made)


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    prompt: Prompt
    played: Played
    resolves: bool | None
    """Whether the right tool, given the prompt's own words, resolves to the right thing. No driver is asked."""

    @property
    def right_tool(self) -> bool:
        first = self.played.made[:1]
        return bool(first) and first[0].step.tool == self.prompt.expected.tool

    @property
    def right_arguments(self) -> bool:
        """The right tool's first call, or its repetition where the server asked back, gave what was wanted."""
        made = [one for one in self.played.made if one.step.tool == self.prompt.expected.tool]
        return self.right_tool and any(scoring.right(self.prompt.expected, one.result) for one in made[:2])


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    scenario: Scenario
    played: Played
    scripted: bool
    tokens: int | None
    baseline: int | None
    """The data files as they lie there, which is what an agent would read instead."""
    minified: int | None
    """The same without blanks and line breaks."""

    @property
    def share(self) -> float | None:
        return self.tokens / self.baseline if self.tokens and self.baseline else None

    @property
    def in_bounds(self) -> bool:
        """Whether the workflow came through in as many calls as it may take."""
        done = not self.played.trouble and not any(map(_failed, self.played.made[-1:]))
        return done and self.scenario.least <= len(self.played.made) <= self.scenario.most


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that was measured with one driver."""

    driver: str
    is_model: bool
    prompts: tuple[PromptOutcome, ...]
    scenarios: tuple[ScenarioOutcome, ...]


async def run(driver: Driver, server: Server, suite: Suite, count: Count | None = None) -> Run:
    """Raises `DriverError` where the driver cannot go on. Without `count` there are no token figures."""
    prompts = [await _prompt(driver, server, prompt) for prompt in suite.prompts]
    scenarios = [await _scenario(driver, server, scenario, count) for scenario in suite.scenarios]
    return Run(driver.name, driver.is_model, tuple(prompts), tuple(scenarios))


async def _prompt(driver: Driver, server: Server, prompt: Prompt) -> PromptOutcome:
    played = await _play(driver, server, prompt.text, MOST_TURNS)
    return PromptOutcome(prompt, played, await _resolves(server, prompt))


async def _resolves(server: Server, prompt: Prompt) -> bool | None:
    if prompt.said is None:
        return None
    arguments = {**prompt.expected.arguments, "capability": prompt.said}
    return scoring.right(prompt.expected, await server.call(prompt.expected.tool, arguments))


async def _scenario(driver: Driver, server: Server, scenario: Scenario, count: Count | None) -> ScenarioOutcome:
    if driver.is_model:
        played = await _play(driver, server, scenario.prompt, MOST_TURNS + scenario.most)
    else:
        played = Played(tuple([await _make(server, step.tool, dict(step.arguments)) for step in scenario.steps]))
    if count is None:
        return ScenarioOutcome(scenario, played, not driver.is_model, None, None, None)
    raw = [server.raw[agent] for agent in scenario.agents if agent in server.raw]
    return ScenarioOutcome(
        scenario,
        played,
        not driver.is_model,
        tokens=count(definitions(server.tools)) + sum(one.tokens(count) for one in played.made),
        baseline=sum(map(count, raw)),
        minified=sum(count(compact(json.loads(text))) for text in raw),
    )


async def _play(driver: Driver, server: Server, prompt: str, most: int) -> Played:
    """One dialogue. It ends when a turn wants no calls, or when there were too many turns."""
    dialogue = driver.begin(prompt, server.tools)
    made: list[Made] = []
    answered: list[Answered] = []
    usage = Usage()
    for _ in range(most):
        turn = await dialogue.turn(answered)
        usage += turn.usage
        if turn.trouble or not turn.calls:
            return Played(tuple(made), turn.trouble, usage)
        fresh = [await _make(server, wanted.tool, wanted.arguments) for wanted in turn.calls]
        made += fresh
        answered = [_answered(*pair) for pair in zip(turn.calls, fresh, strict=True)]
    return Played(tuple(made), f"not done after {most} turns", usage)


async def _make(server: Server, tool: str, arguments: Any) -> Made:
    """A call, or the error a host would give a model for one that cannot be made."""
    if tool not in {known["name"] for known in server.tools}:
        return Made(Step(tool, {}), _error(f"There is no tool {tool[:100]}"))
    if not isinstance(arguments, dict):
        return Made(Step(tool, {}), _error("Arguments must be an object"))
    return Made(Step(tool, arguments), await server.call(tool, arguments))


def _answered(wanted: Wanted, made: Made) -> Answered:
    return Answered(wanted, scoring.text_of(made.result), bool(made.result.get("isError")))


def _error(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _failed(made: Made) -> bool:
    return scoring.needs_another(made.result)
