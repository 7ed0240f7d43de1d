"""Runs a suite with one driver against one server, and keeps what happened.

What is measured: prompts with the call each should lead to, and five workflows from end to end.

What a server made of a call, and whether that is what the prompt was after.

What text costs, by a real tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final

from mcpproxy_py.bench.models import Answered, Driver, Usage, Wanted


@dataclass(frozen=True, slots=True)
class Step:
    """One call to a tool."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question, and the call that answers it. `said` is what the question calls the capability."""

    text: str
    expected: Step
    said: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workflow: the calls it takes when nothing goes wrong, how many an agent may make, whose data it is about."""

    name: str
    prompt: str
    steps: tuple[Step, ...]
    least: int
    most: int
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    prompts: tuple[Prompt, ...]
    scenarios: tuple[Scenario, ...]


def shipped() -> Suite:
    """The suite that comes with the package."""
    prompts, scenarios = _read("prompts.json")["prompts"], _read("scenarios.json")["scenarios"]
    return Suite(tuple(map(_prompt_of, prompts)), tuple(map(_scenario_of, scenarios)))


def _read(name: str) -> Any:
    return json.loads((resources.files("mcpproxy_py.bench") / "data" / name).read_text(encoding="utf-8"))


def _prompt_of(row: Mapping[str, Any]) -> Prompt:
    return Prompt(row["input"], Step(row["expectedTool"], row["expectedArgs"]), row.get("said"))


def _scenario_of(row: Mapping[str, Any]) -> Scenario:
    steps = tuple(Step(step["tool"], step["arguments"]) for step in row["steps"])
    return Scenario(row["name"], row["prompt"], steps, row["least"], row["most"], tuple(row["agents"]))


AGENTS: Final = ("claude-code", "copilot-cli", "gemini-cli", "vscode-copilot")
NEAR_THE_TOP: Final = 3


def needs_another(result: Mapping[str, Any]) -> bool:
    """Whether the call has to be made again: an error, or an answer that asks which capability was meant."""
    return bool(result.get("isError")) or "matches" in structured(result)


def right(expected: Step, result: Mapping[str, Any]) -> bool:
    """Whether the server resolved the arguments to what was expected of this tool."""
    if needs_another(result):
        return False
    return _RESOLVED[expected.tool](structured(result), expected.arguments)


def structured(result: Mapping[str, Any]) -> Mapping[str, Any]:
    found = result.get("structuredContent")
    return found if isinstance(found, Mapping) else {}


def text_of(result: Mapping[str, Any]) -> str:
    """What hosts pass on to a model."""
    content = result.get("content")
    items = content if isinstance(content, list) else []
    return "\n".join(str(item.get("text", "")) for item in items if isinstance(item, Mapping))


def _lookup(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    found = answer.get("capability")
    name = found.get("name") if isinstance(found, Mapping) else None
    return (answer.get("agent"), name) == (expected["agent"], expected["capability"])


def _compare(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    compared = {row.get("agent") for row in _rows(answer, "comparison")}
    wanted = set(expected.get("agents", AGENTS))
    return answer.get("capability") == expected["capability"] and compared == wanted


def _same(answer: Mapping[str, Any], expected: Mapping[str, Any], *keys: str) -> bool:
    return all(answer.get(key) == expected.get(key) for key in keys)


def _found(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """The server asked for is among the first rows, under its slug."""
    return any(expected["query"] in str(row.get("slug")) for row in _rows(answer, "servers")[:NEAR_THE_TOP])


def _rows(answer: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    rows = answer.get(key)
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


_RESOLVED: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]]] = {
    "lookup_capability": _lookup,
    "compare_capability": _compare,
    "list_capabilities": lambda answer, expected: _same(answer, expected, "agent", "category"),
    "get_sources": lambda answer, expected: _same(answer, expected, "agent", "capability"),
    "mcp_list": lambda answer, expected: isinstance(answer.get("servers"), list),
    "mcp_list_catalog": _found,
}


ENCODING: Final = "o200k_base"
Count = Callable[[str], int]


def counter() -> Count | None:
    """Counts tokens, or `None` where no tokenizer is installed."""
    try:
        import bpe_openai
    except ImportError:
        return None
    encoding = bpe_openai.get_encoding(ENCODING)
    return lambda text: len(encoding.encode(text))


def compact(value: Any) -> str:
    """JSON without blanks, so that neither side of the comparison pays for layout."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def definitions(tools: Sequence[Mapping[str, Any]]) -> str:
    """The tools as a model gets them: hosts pass on name, description and input schema."""
    return compact([{key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in tools])


Call = Callable[[str, dict[str, Any]], Awaitable[Mapping[str, Any]]]
"""Makes one tool call and gives its raw result."""
MOST_TURNS: Final = 6
"""Turns a prompt may take; a scenario gets one for each of its calls beside them."""


@dataclass(frozen=True, slots=True)
class BenchTarget:
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
        return count(request) + count(text_of(self.result))


@dataclass(frozen=True, slots=True)
class Played:
    """A dialogue from first to last turn."""

    made: tuple[Made, ...]
    trouble: str | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def retried(self) -> bool:
        """Whether a call had to be followed by another because of what it gave, or should have been."""
        return any(needs_another(one.result) for one in self.made)


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
        return self.right_tool and any(right(self.prompt.expected, one.result) for one in made[:2])


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


async def run(driver: Driver, server: BenchTarget, suite: Suite, count: Count | None = None) -> Run:
    """Raises `DriverError` where the driver cannot go on. Without `count` there are no token figures."""
    prompts = [await _prompt(driver, server, prompt) for prompt in suite.prompts]
    scenarios = [await _scenario(driver, server, scenario, count) for scenario in suite.scenarios]
    return Run(driver.name, driver.is_model, tuple(prompts), tuple(scenarios))


async def _prompt(driver: Driver, server: BenchTarget, prompt: Prompt) -> PromptOutcome:
    played = await _play(driver, server, prompt.text, MOST_TURNS)
    return PromptOutcome(prompt, played, await _resolves(server, prompt))


async def _resolves(server: BenchTarget, prompt: Prompt) -> bool | None:
    if prompt.said is None:
        return None
    arguments = {**prompt.expected.arguments, "capability": prompt.said}
    return right(prompt.expected, await server.call(prompt.expected.tool, arguments))


async def _scenario(driver: Driver, server: BenchTarget, scenario: Scenario, count: Count | None) -> ScenarioOutcome:
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


async def _play(driver: Driver, server: BenchTarget, prompt: str, most: int) -> Played:
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


async def _make(server: BenchTarget, tool: str, arguments: Any) -> Made:
    """A call, or the error a host would give a model for one that cannot be made."""
    if tool not in {known["name"] for known in server.tools}:
        return Made(Step(tool, {}), _error(f"There is no tool {tool[:100]}"))
    if not isinstance(arguments, dict):
        return Made(Step(tool, {}), _error("Arguments must be an object"))
    return Made(Step(tool, arguments), await server.call(tool, arguments))


def _answered(wanted: Wanted, made: Made) -> Answered:
    return Answered(wanted, text_of(made.result), bool(made.result.get("isError")))


def _error(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _failed(made: Made) -> bool:
    return needs_another(made.result)
