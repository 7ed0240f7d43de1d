"""What the catalog costs in tokens, against reading the raw JSON (SPEC 5.1, source 001).

`python -m tests.bench.catalog_tokens` prints the five scenarios. Counted are the definitions of all seven tools as a
host gives them to a model (name, description, inputSchema), each request, and each answer's text. The baseline is the
files an agent would have to read instead: as they are on disk, and beside it without any white space.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import bpe_openai

from mcpproxy_py.core.approvals import NotNow, Submitted
from mcpproxy_py.core.wishes import Wish
from mcpproxy_py.providers.catalog.files import SHIPPED
from mcpproxy_py.providers.catalog.load import load
from mcpproxy_py.providers.catalog.provider import CatalogProvider

CATALOG: Final = load()
AGENTS: Final = tuple(CATALOG.agents)
NAMES: Final = tuple(term.name for term in CATALOG.names.terms)
Call = tuple[str, dict[str, Any]]


class Nobody:
    """Nobody files a request in these scenarios."""

    async def submit(self, wish: Wish, principal: str) -> Submitted | NotNow:
        raise AssertionError("nothing is to be filed")


@dataclass(frozen=True)
class Asker:
    principal: str = "local"


@dataclass(frozen=True)
class Scenario:
    """What is asked, and the agents whose files would have to be read for it."""

    name: str
    calls: tuple[Call, ...]
    files: tuple[str, ...] = AGENTS


SCENARIOS: Final = (
    Scenario(
        "Set up MCP in Claude Code",
        (("lookup_capability", {"agent": "claude-code", "capability": "MCP"}),),
        ("claude-code",),
    ),
    Scenario(
        "Build a debugging workflow across agents",
        (
            ("compare_capability", {"capability": "Debugging"}),
            *(("lookup_capability", {"agent": agent, "capability": "Debugging"}) for agent in AGENTS),
        ),
    ),
    Scenario("Cite all sources for Gemini CLI", (("get_sources", {"agent": "gemini-cli"}),), ("gemini-cli",)),
    Scenario("Find all free-tier capabilities", tuple(("list_capabilities", {"agent": agent}) for agent in AGENTS)),
    Scenario(
        "Check feature parity across agents", tuple(("compare_capability", {"capability": name}) for name in NAMES)
    ),
)


@dataclass(frozen=True)
class Cost:
    definitions: int
    calls: int
    on_disk: int
    minified: int

    @property
    def total(self) -> int:
        return self.definitions + self.calls

    @property
    def share(self) -> float:
        return self.total / self.on_disk

    @property
    def share_of_minified(self) -> float:
        return self.total / self.minified


def cost(scenario: Scenario) -> Cost:
    provider = CatalogProvider(CATALOG, lambda principal: (), Nobody())
    raw = [_raw(agent) for agent in scenario.files]
    return Cost(
        definitions=tokens(_compact([_as_hosts_show(tool) for tool in provider.tools()])),
        calls=asyncio.run(_spent(provider, scenario.calls)),
        on_disk=sum(map(tokens, raw)),
        minified=sum(tokens(_compact(json.loads(text))) for text in raw),
    )


async def _spent(provider: CatalogProvider, calls: Iterable[Call]) -> int:
    total = 0
    for name, arguments in calls:
        result = await provider.call(name, arguments, Asker())
        assert not result.get("isError"), result
        total += tokens(_compact({"name": name, "arguments": arguments})) + tokens(result["content"][0]["text"])
    return total


@lru_cache
def _encode() -> Callable[[str], Any]:
    return bpe_openai.get_encoding("o200k_base").encode


def tokens(text: str) -> int:
    return len(_encode()(text))


def _raw(agent: str) -> str:
    return (SHIPPED / "agents" / agent / "capabilities" / "current.json").read_text(encoding="utf-8")


def _as_hosts_show(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tool[key] for key in ("name", "description", "inputSchema")}


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    print(f"{'scenario':42} {'calls':>5} {'tools':>6} {'spent':>6} {'on disk':>8} {'share':>6} {'of minified':>12}")
    for scenario in SCENARIOS:
        spent = cost(scenario)
        print(
            f"{scenario.name:42} {len(scenario.calls):5} {spent.definitions:6} {spent.calls:6} {spent.on_disk:8} "
            f"{spent.share:6.0%} {spent.share_of_minified:12.0%}"
        )


if __name__ == "__main__":
    main()
