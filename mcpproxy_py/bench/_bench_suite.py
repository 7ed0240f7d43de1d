"""What is measured: prompts with the call each should lead to, and five workflows from end to end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any


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
    return Suite(tuple(map(_prompt, prompts)), tuple(map(_scenario, scenarios)))


def _read(name: str) -> Any:
    return json.loads((resources.files("mcpproxy_py.bench") / "data" / name).read_text(encoding="utf-8"))


def _prompt(row: Mapping[str, Any]) -> Prompt:
    return Prompt(row["input"], Step(row["expectedTool"], row["expectedArgs"]), row.get("said"))


def _scenario(row: Mapping[str, Any]) -> Scenario:
    steps = tuple(Step(step["tool"], step["arguments"]) for step in row["steps"])
    return Scenario(row["name"], row["prompt"], steps, row["least"], row["most"], tuple(row["agents"]))
