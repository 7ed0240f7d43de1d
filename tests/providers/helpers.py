"""Providers for tests, and the client's part in the rounds of a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mcpproxy_py.providers import InputRequired, Live, ProviderUpstream, Replay, ToolSpec

Person = Callable[[dict[str, Any]], dict[str, Any]]
"""Answers the params of one question with a result object."""


class Tools:
    """A provider of nothing but tools; the least there can be."""

    def __init__(self, *specs: ToolSpec) -> None:
        self._specs = specs

    def tools(self) -> tuple[ToolSpec, ...]:
        return self._specs


class Asking(Tools):
    def capabilities(self) -> set[str]:
        return {"elicitation"}


async def served(provider: Any, **options: Any) -> ProviderUpstream:
    """The provider, listed once, as the supervisor would."""
    made = ProviderUpstream("p", lambda: provider, **options)
    await made.list_tools()
    return made


async def of(*functions: Callable[..., Any], **options: Any) -> ProviderUpstream:
    """Functions as tools under their own names."""
    return await served(Asking(*(ToolSpec(function.__name__, function) for function in functions)), **options)


async def live(served: ProviderUpstream, name: str, arguments: Mapping[str, Any], person: Person) -> Any:
    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        return person(params)

    return await served.call(name, arguments, Live(ask))


async def in_rounds(
    served: ProviderUpstream, name: str, arguments: Mapping[str, Any], person: Person
) -> tuple[Any, list[Any]]:
    """The result, and what was asked in each round. State goes through JSON, as it does on the wire."""
    replay, rounds = Replay(), []
    while True:
        outcome = await served.call(name, arguments, replay)
        if not isinstance(outcome, InputRequired):
            return outcome, rounds
        assert len(rounds) < 20, "the rounds do not end"
        rounds.append([request["params"]["message"] for request in outcome.requests.values()])
        answers = {key: person(request["params"]) for key, request in outcome.requests.items()}
        replay = Replay(json.loads(json.dumps(outcome.state)), answers)


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def text(result: Any) -> str:
    return "".join(item.get("text", "") for item in result["content"])
