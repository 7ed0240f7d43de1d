"""A router without a model: a dozen rules about words, to exercise the harness and the server when no key is there.

It is no stand-in for a model. The rules were written with the shipped prompts in view, so its figures show that
the suite is consistent and how well the server resolves words; they say nothing of how a model would choose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mcpproxy_py.bench.dialogue import Answered, Dialogue, Turn, Wanted

AGENT_WORDS: Final[Mapping[str, str]] = {
    "claude-code": r"claude code|claude",
    "copilot-cli": r"copilot cli",
    "gemini-cli": r"gemini cli|gemini",
    "vscode-copilot": r"vs ?code copilot|vs ?code|copilot(?! (cli|spaces))",
}
CATEGORIES: Final = (
    "agent-orchestration", "api-integration", "code-generation", "code-understanding", "customization",
    "interaction", "observability",
)  # fmt: skip
_SOURCES: Final = re.compile(r"\b(sources?|cite|references?|where did you|back up|prove|links)\b")
_CATALOG: Final = re.compile(r"\bmcp server\b(?=.*\b(for|catalog|can)\b)|\bfind me an mcp server\b")
_INVENTORY: Final = re.compile(r"\b(connected|right now|at the moment)\b")
_LIST: Final = re.compile(r"\b(what can \S+( \S+)? do|everything|overview|capabilities|features do|category)\b")
_COMPARE: Final = re.compile(r"\b(compare|differ(ence)?|versus|all agents|which (of the )?agents|who|where is)\b")
_NOISE: Final = re.compile(
    r"\b(does|do|is|are|can|could|how|what|which|who|where|when|i|me|my|you|your|it|its|the|a|an|of|in|on|for|to|and|or"
    r"|with|from|by|at|there|have|has|had|support|supports|supported|available|use|using|set up|turn|get|out|into|put"
    r"|compare|across|between|differ|difference|versus|all|agents?(?! mode)|each|cite|sources?|references?|pages?"
    r"|back|up|say|about|did|info|read|not|plan|before|after|choose|see|style|file|tools?|features|\?)\b"
)


class OfflineRouter:
    name = "offline lexical router"
    is_model = False

    def begin(self, prompt: str, tools: Sequence[Mapping[str, Any]]) -> Dialogue:
        return _Routed(prompt)


class _Routed:
    """Calls once, and once more with the first of the proposals where the name was ambiguous."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._turns = 0

    async def turn(self, answered: Sequence[Answered] = ()) -> Turn:
        self._turns += 1
        if self._turns == 1:
            return Turn((_route(self._prompt),))
        better = next(_second_try(answered), None)
        return Turn((better,) if better and self._turns == 2 else ())


def _second_try(answered: Sequence[Answered]) -> Iterator[Wanted]:
    for one in answered:
        try:
            name = json.loads(one.text)["matches"][0]["name"]
        except (ValueError, LookupError, TypeError):
            continue
        yield Wanted(one.call.tool, {**one.call.arguments, "capability": name})


def _route(prompt: str) -> Wanted:
    said = prompt.lower().replace("'s", "")
    if _CATALOG.search(said):
        return Wanted("mcp_list_catalog", {"query": _words(said, "mcp servers?|well-known|find|catalog")})
    if _INVENTORY.search(said):
        return Wanted("mcp_list", {})
    agents = [agent for agent, words in AGENT_WORDS.items() if re.search(rf"\b({words})\b", said)]
    if len(agents) > 1 and agents[-1] == "vscode-copilot" and not re.search(r"vs ?code|and copilot", said):
        agents.pop()
    about = _words(said, "|".join(AGENT_WORDS.values()))
    category = next((one for one in CATEGORIES if one.replace("-", " ") in said), None)
    if _SOURCES.search(said):
        general = bool(re.search(r"\b(sources for|links)\b", said))
        return Wanted("get_sources", _given(agent=agents[0] if agents else None, capability=None if general else about))
    if _LIST.search(said):
        return Wanted("list_capabilities", _given(agent=agents[0] if agents else None, category=category))
    if _COMPARE.search(said) or len(agents) != 1:
        return Wanted("compare_capability", _given(capability=about, agents=agents or None))
    return Wanted("lookup_capability", {"agent": agents[0], "capability": about})


def _words(said: str, besides: str) -> str:
    """What is left of the prompt when agents and everyday words are taken out: what it is about."""
    rest = _NOISE.sub(" ", re.sub(rf"\b({besides})\b", " ", said))
    return " ".join(re.findall(r"[\w-]+", rest))


def _given(**arguments: Any) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if value}
