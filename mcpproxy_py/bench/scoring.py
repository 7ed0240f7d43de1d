"""What a server made of a call, and whether that is what the prompt was after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mcpproxy_py.bench._bench_suite import Step

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
