"""The figures of a run against their targets, for programs and for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcpproxy_py.bench.suite import ENCODING, PromptOutcome, Run, ScenarioOutcome, Step

NOT_MEASURED: Final = "not measured"
FIGURE_HEAD: Final = ("Metric", "Figure", "Target", "Met")
SCENARIO_HEAD: Final = ("Scenario", "Calls", "Tokens", "Raw JSON", "Minified", "Share of raw")


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric. `value` is a share of 1, or `None` where it could not be measured; `why` says why not."""

    name: str
    value: float | None
    target: str
    met: bool | None
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        value = None if self.value is None else round(self.value, 4)
        shown = {"metric": self.name, "value": value, "target": self.target, "met": self.met}
        return {**shown, "not_measured_because": self.why} if self.why else shown


def figures(run: Run) -> list[Figure]:
    """The four of source 001, and beside them what the server resolves by itself."""
    prompts = run.prompts
    worst = max((one.share for one in run.scenarios if one.share is not None), default=None)
    no_tokens = "" if worst is not None else "no tokenizer, or no raw data to compare with; install mcpproxy-py[bench]"
    return [
        _figure("invocation accuracy", _share(prompts, lambda one: one.right_tool), ">90%", lambda v: v > 0.90),
        _figure("argument accuracy", _share(prompts, lambda one: one.right_arguments), ">85%", lambda v: v > 0.85),
        _figure("tokens of the raw JSON (worst scenario)", worst, "<50%", lambda v: v < 0.50, no_tokens),
        _figure("retry rate", _share(prompts, lambda one: one.played.retried), "<10%", lambda v: v < 0.10),
        _figure("words the server resolves", _resolution(prompts), ">85%", lambda v: v > 0.85),
    ]


def as_json(runs: Sequence[Run], unmeasured: Mapping[str, str]) -> dict[str, Any]:
    """`unmeasured` are drivers that did not run, and why."""
    return {
        "tokenizer": ENCODING,
        "runs": [_run_json(run) for run in runs],
        "not_measured": [{"driver": name, "reason": reason} for name, reason in unmeasured.items()],
    }


def markdown(run: Run) -> Iterator[str]:
    """Tables of one run."""
    yield from table(FIGURE_HEAD, figure_rows(run))
    yield ""
    yield from table(SCENARIO_HEAD, scenario_rows(run))


def figure_rows(run: Run) -> list[tuple[str, str, str, str]]:
    return [(one.name, _percent(one.value), one.target, _yes(one.met)) for one in figures(run)]


def scenario_rows(run: Run) -> list[tuple[str, ...]]:
    return [_scenario_row(one) for one in run.scenarios]


def missed(run: Run) -> list[tuple[str, str, str]]:
    """The prompts that did not go as expected: text, what was called, what was wanted."""
    wrong = [one for one in run.prompts if not one.right_arguments]
    return [(one.prompt.text, _called(one), _wanted(one)) for one in wrong]


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "driver": run.driver,
        "is_model": run.is_model,
        "metrics": [figure.as_json() for figure in figures(run)],
        "prompts": [_prompt_json(one) for one in run.prompts],
        "scenarios": [_scenario_json(one) for one in run.scenarios],
    }


def _prompt_json(one: PromptOutcome) -> dict[str, Any]:
    return {
        "input": one.prompt.text,
        "expected": {"tool": one.prompt.expected.tool, "arguments": dict(one.prompt.expected.arguments)},
        "calls": [{"tool": made.step.tool, "arguments": dict(made.step.arguments)} for made in one.played.made],
        "right_tool": one.right_tool,
        "right_arguments": one.right_arguments,
        "retried": one.played.retried,
        "server_resolves": one.resolves,
        "trouble": one.played.trouble,
        "usage": {"sent": one.played.usage.sent, "received": one.played.usage.received},
    }


def _scenario_json(one: ScenarioOutcome) -> dict[str, Any]:
    return {
        "name": one.scenario.name,
        "scripted": one.scripted,
        "calls": len(one.played.made),
        "in_bounds": one.in_bounds,
        "tokens": one.tokens,
        "baseline_tokens": one.baseline,
        "minified_baseline_tokens": one.minified,
        "share": None if one.share is None else round(one.share, 4),
        "trouble": one.played.trouble,
    }


def _scenario_row(one: ScenarioOutcome) -> tuple[str, ...]:
    calls = f"{len(one.played.made)}" + ("" if one.in_bounds else " (out of bounds)")
    counts = (one.tokens, one.baseline, one.minified)
    tokens = (NOT_MEASURED if number is None else str(number) for number in counts)
    return one.scenario.name, calls, *tokens, _percent(one.share)


def _called(one: PromptOutcome) -> str:
    calls = [shown(made.step) for made in one.played.made]
    return one.played.trouble or ", ".join(calls) or "nothing"


def _wanted(one: PromptOutcome) -> str:
    return shown(one.prompt.expected)


def shown(step: Step) -> str:
    arguments = ", ".join(f"{name}={_plain(value)}" for name, value in step.arguments.items())
    return f"{step.tool}({arguments})"


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _figure(
    name: str, value: float | None, target: str, met: Callable[[float], bool], why: str = ""
) -> Figure:  # fmt: skip
    return Figure(name, value, target, None if value is None else met(value), why)


def _share(prompts: Sequence[PromptOutcome], holds: Callable[[PromptOutcome], bool]) -> float | None:
    return sum(map(holds, prompts)) / len(prompts) if prompts else None


def _resolution(prompts: Iterable[PromptOutcome]) -> float | None:
    tried = [one.resolves for one in prompts if one.resolves is not None]
    return sum(tried) / len(tried) if tried else None


def _percent(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.1%}"


def _yes(met: bool | None) -> str:
    return "-" if met is None else "yes" if met else "no"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    yield from (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
