"""What the operator's lists and overrides mean of what a server lists, found out once for each listing (GATE-16)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy.confusables import mixes_scripts
from mcpproxy_py.core.policy.tool_class import is_unannotated
from mcpproxy_py.core.policy.tool_names import (
    EXCLUDED,
    NameSet,
    ambiguous,
    compared,
    looks_like,
    mixed,
    name_problem,
    tool_lists,
)
from mcpproxy_py.core.values import Tool
from mcpproxy_py.upstream.spec import UpstreamSpec

MAX_TOLD: Final = 20
MAX_UNANNOTATED: Final = 1_000
KEY: Final = "tools"


class NameRules:
    """Which overrides are those of a tool, and which names are refused, among all that one server lists."""

    def __init__(self, spec: UpstreamSpec, names: Iterable[str]) -> None:
        self._overrides = NameSet(spec.overrides)
        self._allowed = tool_lists(spec.allow_tools, spec.deny_tools).allow
        self._ambiguous = ambiguous(names, (*spec.overrides, *(spec.allow_tools or ())))

    def overrides_of(self, name: str) -> list[str]:
        return self._overrides.closest(name)

    def refuses(self, name: str) -> str | None:
        """Why nobody may call what has this name. What the lists say of it is asked of the lists."""
        if found := self._ambiguous.get(name):
            return found
        overrides, each = self._overrides, compared(name)
        if not overrides.entries or overrides.names(each.normal):
            return None
        if self._allowed is not None and self._allowed.names(each.normal):
            return None
        if like := overrides.resembled(each):
            return looks_like(like, KEY)
        return mixed(KEY) if mixes_scripts(name) and not overrides.matches(each.normal) else None


class NameReport(NamedTuple):
    """What a person has to know of the names that a server lists."""

    left_out: Mapping[str, str] = {}
    """Tools that nobody can call for their names, and why; the first few."""
    unmatched: tuple[str, ...] = ()
    """Entries of lists and overrides that mean no tool of the server."""
    unannotated: tuple[str, ...] = ()
    """Tools of which neither hints nor overrides say what they do, and that can be called; the first many."""


def report_of(spec: UpstreamSpec, listed: Iterable[Mapping[str, Any]], tools: Mapping[str, Tool]) -> NameReport:
    lists = tool_lists(spec.allow_tools, spec.deny_tools)
    left_out = list(_left_out(listed, tools, lists.forbids))  # of all of them, because what is said of each is kept
    unmatched = tuple(_unmatched(spec, [compared(name).normal for name in tools]))
    return NameReport(dict(left_out[:MAX_TOLD]), unmatched, unannotated(tools, lists.forbids))


def unannotated(tools: Mapping[str, Tool], forbids: Callable[[str], str | None]) -> tuple[str, ...]:
    named = (name for name, tool in tools.items() if is_unannotated(tool) and not _is_barred(tool, forbids))
    return tuple(islice(named, MAX_UNANNOTATED))


def _is_barred(tool: Tool, forbids: Callable[[str], str | None]) -> bool:
    return bool(tool.refused or tool.changed or forbids(tool.name))


def _left_out(
    listed: Iterable[Mapping[str, Any]], tools: Mapping[str, Tool], forbids: Callable[[str], str | None]
) -> Iterator[tuple[str, str]]:
    for wire in listed:
        name = wire.get("name")
        if isinstance(name, str) and (problem := name_problem(name)):
            yield quoted(name), problem
    for name, tool in tools.items():
        why = forbids(name)
        if (why := tool.refused or why) is not None and why != EXCLUDED:
            yield name, why


def _unmatched(spec: UpstreamSpec, normals: list[str]) -> Iterator[str]:
    lists = tool_lists(spec.allow_tools, spec.deny_tools)
    for key, names in (("allow_tools", lists.allow), ("deny_tools", lists.deny), (KEY, NameSet(spec.overrides))):
        if names is not None:
            yield from (f"{key}: {entry}" for entry in names.unmatched(normals))
