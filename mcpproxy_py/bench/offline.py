"""A router without a model: a dozen rules about words, to exercise the harness and the server when no key is there.

It is no stand-in for a model. The rules were written with the shipped prompts in view, so its figures show that
the suite is consistent and how well the server resolves words; they say nothing of how a model would choose.

The catalog as a server to measure, without a gateway around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from mcpproxy_py.bench.models import Answered, Dialogue, ModelTurn, Wanted
from mcpproxy_py.bench.suite import BenchTarget
from mcpproxy_py.core.catalog.approval_rules import CapabilityWish
from mcpproxy_py.core.catalog.model import NotAnswered
from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.providers.catalog.data_files import data_files
from mcpproxy_py.providers.catalog.load import load
from mcpproxy_py.providers.catalog.provider import CatalogProvider

AGENTS: Final[Mapping[str, re.Pattern[str]]] = {
    "claude-code": re.compile(r"\bclaude( code)?\b"),
    "copilot-cli": re.compile(r"\bcopilot cli\b"),
    "gemini-cli": re.compile(r"\bgemini( cli)?\b"),
    "vscode-copilot": re.compile(r"\b(vs ?code( copilot)?|copilot(?! (cli|spaces)))\b"),
}
CATEGORIES: Final = (
    "agent-orchestration", "api-integration", "code-generation", "code-understanding", "customization",
    "interaction", "observability",
)  # fmt: skip
RULES: Final[Sequence[tuple[str, re.Pattern[str]]]] = (
    ("mcp_list_catalog", re.compile(r"\bmcp server\b.*\b(for|catalog|that can)\b")),
    ("mcp_list", re.compile(r"\b(connected|right now|at the moment)\b")),
    ("get_sources", re.compile(r"\b(sources?|cite|references?|where did|back up|prove|links)\b")),
    (
        "list_capabilities",
        re.compile(r"\b(what can \S+( \S+)? do|everything|overview|capabilities|category|features do)\b"),
    ),
    (
        "compare_capability",
        re.compile(r"\b(compare|differ|versus|all agents|which (of the )?agents|who has|where is)\b"),
    ),
)
"""The first that fits decides; `lookup_capability` where none does and one agent is named."""
_EVERYDAY: Final = """
    a across all an and are available back before after between can choose cite compare did difference differ do does
    each everything features file find for from get give has have how i in into is it its links list me not of on
    or our out pages plan put read references say see set show source sources support supports supported that the their
    them there to tools turn up use using versus vs was well-known what when where which who with you your my about info
    server servers catalog agents prove
"""
NOISE: Final = frozenset(_EVERYDAY.split())


class OfflineRouter:
    """A driver that needs no key and no network."""

    name = "offline lexical router"
    is_model = False

    def begin(self, prompt: str, tools: Sequence[Mapping[str, Any]]) -> Dialogue:
        return _Routed(prompt)


class _Routed:
    """Calls once, and once more with the first of the proposals where the name was ambiguous."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._turns = 0

    async def turn(self, answered: Sequence[Answered] = ()) -> ModelTurn:
        self._turns += 1
        if self._turns == 1:
            return ModelTurn((_route(self._prompt),))
        better = next(_second_try(answered), None)
        return ModelTurn((better,) if better and self._turns == 2 else ())


def _second_try(answered: Sequence[Answered]) -> Iterator[Wanted]:
    for one in answered:
        try:
            name = json.loads(one.text)["matches"][0]["name"]
        except (ValueError, LookupError, TypeError):
            continue
        yield Wanted(one.call.tool, {**one.call.arguments, "capability": name})


def _route(prompt: str) -> Wanted:
    said = prompt.lower().replace("'s", "")
    agents = [agent for agent, words in AGENTS.items() if words.search(said)]
    tool = next((tool for tool, words in RULES if words.search(said)), None)
    tool = tool or ("lookup_capability" if len(agents) == 1 else "compare_capability")
    return Wanted(tool, _ARGUMENTS[tool](said, agents))


def _about(said: str) -> str:
    """What is left of the prompt when agents and everyday words are taken out."""
    for words in AGENTS.values():
        said = words.sub(" ", said)
    return " ".join(word for word in re.findall(r"[\w-]+", said) if word not in NOISE)


def _sources(said: str, agents: list[str]) -> dict[str, Any]:
    general = re.search(r"\b(sources for|links)\b", said)
    return _given(agent=next(iter(agents), None), capability=None if general else _about(said))


def _list(said: str, agents: list[str]) -> dict[str, Any]:
    category = next((one for one in CATEGORIES if one.replace("-", " ") in said), None)
    return _given(agent=next(iter(agents), None), category=category)


def _given(**arguments: Any) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if value}


_ARGUMENTS: Final[Mapping[str, Callable[[str, list[str]], dict[str, Any]]]] = {
    "mcp_list": lambda said, agents: {},
    "mcp_list_catalog": lambda said, agents: {"query": _about(said.replace("mcp", ""))},
    "get_sources": _sources,
    "list_capabilities": _list,
    "compare_capability": lambda said, agents: _given(capability=_about(said), agents=agents),
    "lookup_capability": lambda said, agents: {"agent": agents[0], "capability": _about(said)},
}


class _BenchContext:
    caller = Caller("bench", "internal", ClientInfo("bench"))


class _NoRequests:
    """Nobody's queue may fill with what a benchmark asks for."""

    async def submit(self, wish: CapabilityWish, principal: str) -> NoReturn:
        raise NotAnswered("Nothing is filed while the catalog is measured")


def catalog() -> BenchTarget:
    """The shipped catalog, answering in this process."""
    provider = CatalogProvider(load(), lambda access: (), _NoRequests())

    async def call(tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        return await provider.call(tool, arguments, _BenchContext())

    return BenchTarget(provider.tools(), call, raw_data())


def raw_data() -> dict[str, str]:
    """Each agent's data file as it lies there."""
    return {
        file.path.parts[-3]: file.path.read_text(encoding="utf-8") for file in data_files(None) if file.kind == "agent"
    }
