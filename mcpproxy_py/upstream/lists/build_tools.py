"""From what a server listed and what the operator said of it to the tools a decision is made on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final

from mcpproxy_py.core.json_values import same
from mcpproxy_py.core.pending_checks import PendingCheck
from mcpproxy_py.core.pins.listing import is_tool
from mcpproxy_py.core.policy.tool_class import classify
from mcpproxy_py.core.values import NOTHING, Override, Tool
from mcpproxy_py.upstream.lists.in_force import ListingInForce
from mcpproxy_py.upstream.lists.name_rules import NameRules
from mcpproxy_py.upstream.schemas.argument_check import BUDGET, ArgumentCheck, compile_check
from mcpproxy_py.upstream.schemas.cost import BadSchema
from mcpproxy_py.upstream.spec import OverrideEntry, UpstreamSpec

logger = logging.getLogger(__name__)

EVERYTHING_DESTRUCTIVE: Final = Override("destructive")


def build_tools(
    spec: UpstreamSpec,
    listed: Iterable[Mapping[str, Any]],
    in_force: ListingInForce | None = None,
    before: Mapping[str, Tool] = NOTHING,
) -> dict[str, Tool]:
    """Compiles schemas, so call it in a worker thread. Entries that are no tools are skipped and told in the log.

    Where it is said what is in force, tools are made of that alone, and a listed one that is not in it is none. A tool
    that is listed as it was keeps its wire object from `before`, so that identity tells what changed."""
    found: dict[str, Mapping[str, Any]] = {}
    skipped = 0
    for wire in listed:
        if is_tool(wire) and wire["name"] not in found:
            found[wire["name"]] = wire
        else:
            skipped += 1
    names = NameRules(spec, found)
    overrides = cache(partial(_overrides, spec))
    blocked: Mapping[str, str] = {}
    if in_force is not None:
        blocked = in_force.blocked
        found = {name: in_force.tools[name] for name in found if name in in_force.tools}
    for name, tool in before.items():
        if name in found and same(found[name], tool.wire):
            found[name] = tool.wire
    tools = {name: _build_tool(spec, wire, names, overrides, blocked.get(name)) for name, wire in found.items()}
    if skipped:
        logger.warning("%s: skipped %d entries of its list that are not tools or are duplicates", spec.name, skipped)
    _tell_of_unchecked(spec.name, [tool for tool in tools.values() if tool.unchecked])
    return tools


def _tell_of_unchecked(server: str, unchecked: list[Tool]) -> None:
    """One line for all of them: a server must not be able to fill the log with its list."""
    if unchecked:
        first = unchecked[0]
        logger.warning("%s: the arguments of %d tools are not checked; of %s, because: %s",
                       server, len(unchecked), first.name, first.unchecked)  # fmt: skip


def _build_tool(
    spec: UpstreamSpec,
    wire: Mapping[str, Any],
    names: NameRules,
    overrides: Callable[[tuple[str, ...]], tuple[tuple[Override, ...], ...]],
    changed: str | None,
) -> Tool:
    name = wire["name"]
    violation, unchecked = _checker(wire["inputSchema"])
    return Tool(
        server=spec.name,
        name=name,
        wire=wire,
        declared=classify(wire.get("annotations"), spec.trust_annotations),
        trusted=spec.trust_annotations,
        overrides=overrides(tuple(names.overrides_of(name))),
        refused=names.refuses(name),
        changed=changed,
        violation=violation,
        unchecked=unchecked,
    )


def _checker(schema: Any) -> tuple[ArgumentCheck | None, str | None]:
    try:
        return compile_check(schema), None
    except BadSchema as reason:
        return None, str(reason)


def _overrides(spec: UpstreamSpec, keys: tuple[str, ...]) -> tuple[tuple[Override, ...], ...]:
    """The entries of each of these. All their checks together get the budget of one."""
    budget = BUDGET / (sum(len(spec.overrides[key]) for key in keys) or 1)
    return tuple(tuple(_override(spec.name, key, entry, budget) for entry in spec.overrides[key]) for key in keys)


def _override(server: str, name: str, entry: OverrideEntry, budget: float) -> Override:
    """An entry that cannot be understood must not lower anything: from there on the tool is destructive."""
    tool_class, when = entry
    if when is None:
        return Override(tool_class)
    try:
        return Override(tool_class, compile_match(when, budget))
    except BadSchema as reason:
        logger.error("%s:%s: a `when` of its override is unusable, so it counts as destructive: %s",
                     server, name, reason)  # fmt: skip
        return EVERYTHING_DESTRUCTIVE


def compile_match(when: Any, budget: float = BUDGET) -> Callable[[Mapping[str, Any]], bool | PendingCheck]:
    """Whether arguments fit. Raises `BadSchema`."""
    check = compile_check(when, budget)

    def matches(args: Mapping[str, Any]) -> bool | PendingCheck:
        wrong = check(args)
        return wrong if isinstance(wrong, PendingCheck) else wrong is None

    return matches
