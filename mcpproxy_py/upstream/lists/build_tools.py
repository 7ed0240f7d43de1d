"""Argument schemas of upstreams, compiled once per listing. The schemas are hostile until shown otherwise.

From what a server listed and what the operator said of it to the tools a decision is made on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, NoReturn

import jsonschema_rs

from mcpproxy_py.core.policy.tool_class import classify, highest_of
from mcpproxy_py.core.values import Override, Tool
from mcpproxy_py.upstream.lists.name_rules import NameRules, name_problem
from mcpproxy_py.upstream.spec import OverrideEntry, UpstreamSpec

MAX_DEPTH: Final = 200
MAX_NODES: Final = 50_000
MAX_STEPS: Final = 20_000
"""How many subschemas one value may be held against. Forty lines of `$ref` can ask for a billion (2**30)."""
MAX_INDIRECT: Final = 32
"""References that are no plain pointer cannot be followed by the count above, so there may only be a few."""
BACKTRACKS: Final = 100_000
SHOWN: Final = 300

Violation = Callable[[Mapping[str, Any]], str | None]
_AT_ONCE: Final = ("not", "if", "then", "else")
_AT_ONCE_LISTS: Final = ("allOf", "anyOf", "oneOf")


class BadSchema(ValueError):
    """A schema that is not compiled, and why."""


def compile_violation(schema: Any) -> Violation:
    """A function that names the first thing wrong with some arguments. Raises `BadSchema`."""
    validator = _compile(schema)

    def violation(args: Mapping[str, Any]) -> str | None:
        try:
            instance = args if isinstance(args, dict) else dict(args)
            if validator.is_valid(instance):
                return None
            return _sentence(next(iter(validator.iter_errors(instance))))
        except Exception as error:
            return f"arguments: cannot be checked ({_short(error)})"

    return violation


def compile_match(schema: Any, otherwise: bool) -> Callable[[Mapping[str, Any]], bool]:
    """Whether arguments fit; `otherwise` for arguments that cannot be checked. Raises `BadSchema`."""
    validator = _compile(schema)

    def matches(args: Mapping[str, Any]) -> bool:
        try:
            return validator.is_valid(args if isinstance(args, dict) else dict(args))
        except Exception:
            return otherwise

    return matches


def _compile(schema: Any) -> jsonschema_rs.Validator:
    _check_size(schema)
    _check_work(schema)
    try:
        # Values are masked: a message may reach a log, and arguments can be secrets.
        return jsonschema_rs.validator_for(
            schema,
            retriever=_refuse,
            mask="the value",
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS),
        )
    except Exception as error:
        raise BadSchema(_short(error)) from None


def _refuse(uri: str) -> NoReturn:
    """A `$ref` to a URL or a file would make a listing into a request from inside."""
    raise ValueError(f"references outside the schema are not fetched: {uri[:100]}")


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return f"{where.lstrip('.')[:SHOWN] or 'arguments'}: {_short(error.message)}"


def _short(error: object) -> str:
    # The message of a validation error goes on for pages with the schema; its first line says what is wrong.
    text = str(error).strip().partition("\n")[0]
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _check_size(schema: Any) -> None:
    level, count = [schema], 0
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in _children(node)]
        count += len(level)
        if not level:
            return
        if count > MAX_NODES:
            raise BadSchema(f"the schema has more than {MAX_NODES} parts")
    raise BadSchema(f"the schema is nested deeper than {MAX_DEPTH}")


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return [child for child in node.values() if isinstance(child, dict | list)]
    return [child for child in node if isinstance(child, dict | list)] if isinstance(node, list) else []


def _check_work(schema: Any) -> None:
    """Refuse schemas whose references multiply. Counts what is held against the same value, each part once."""
    costs: dict[int, int] = {}
    indirect = 0
    waiting = [schema]
    try:
        while waiting:
            node = waiting.pop()
            waiting.extend(_children(node))
            if isinstance(node, dict):
                indirect += _is_indirect(node)
                if _cost(node, schema, costs) > MAX_STEPS or indirect > MAX_INDIRECT:
                    raise BadSchema("the schema's references expand too far to be checked")
    except RecursionError:
        raise BadSchema("the schema's references go too deep") from None


def _cost(node: dict[str, Any], root: Any, costs: dict[int, int]) -> int:
    known = costs.get(id(node))
    if known is None:
        costs[id(node)] = 0  # a cycle ends where it began
        known = 1 + sum(_cost(part, root, costs) for part in _at_once(node, root))
        costs[id(node)] = known = min(known, MAX_STEPS + 1)
    return known


def _at_once(node: dict[str, Any], root: Any) -> Iterator[dict[str, Any]]:
    """The subschemas that the same value is held against."""
    parts = [node.get(key) for key in _AT_ONCE]
    for key in _AT_ONCE_LISTS:
        several = node.get(key)
        parts.extend(several if isinstance(several, list) else ())
    dependent = node.get("dependentSchemas")
    parts.extend(dependent.values() if isinstance(dependent, dict) else ())
    parts.append(_pointed_at(node.get("$ref"), root))
    return (part for part in parts if isinstance(part, dict))


def _pointed_at(ref: Any, root: Any) -> Any:
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return None
    found = root
    for step in ref.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdecimal() and len(key) < 6 and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, dict):
            found = found.get(key)
        else:
            return None
    return found


def _is_indirect(node: dict[str, Any]) -> bool:
    ref = node.get("$ref")
    plain = not isinstance(ref, str) or ref == "#" or (ref.startswith("#/") and "%" not in ref)
    return not plain or "$dynamicRef" in node or "$recursiveRef" in node


logger = logging.getLogger(__name__)

EVERYTHING_DESTRUCTIVE: Final = Override("destructive")


def build_tools(spec: UpstreamSpec, listed: Iterable[Mapping[str, Any]]) -> dict[str, Tool]:
    """Compiles schemas, so call it in a worker thread. Entries that are no tools are skipped and told in the log."""
    found: dict[str, Mapping[str, Any]] = {}
    skipped = 0
    for wire in listed:
        if _is_a_tool(wire) and wire["name"] not in found:
            found[wire["name"]] = wire
        else:
            skipped += 1
    names = NameRules(spec, found)
    overrides = cache(partial(_overrides, spec))
    tools = {name: _build_tool(spec, wire, names, overrides) for name, wire in found.items()}
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


def _is_a_tool(wire: Mapping[str, Any]) -> bool:
    name = wire.get("name")
    if not isinstance(name, str) or name_problem(name) is not None:
        return False
    return isinstance(wire.get("inputSchema"), dict)


def _build_tool(
    spec: UpstreamSpec, wire: Mapping[str, Any], names: NameRules, overrides: Callable[[str], tuple[Override, ...]]
) -> Tool:
    name = wire["name"]
    violation, unchecked = _checker(wire["inputSchema"])
    return Tool(
        server=spec.name,
        name=name,
        wire=wire,
        declared=classify(wire.get("annotations"), spec.trust_annotations),
        trusted=spec.trust_annotations,
        overrides=highest_of([overrides(key) for key in names.overrides_of(name)]),
        refused=names.refuses(name),
        violation=violation,
        unchecked=unchecked,
    )


def _checker(schema: Any) -> tuple[Violation | None, str | None]:
    try:
        return compile_violation(schema), None
    except BadSchema as reason:
        return None, str(reason)


def _overrides(spec: UpstreamSpec, key: str) -> tuple[Override, ...]:
    return tuple(_override(spec.name, key, entry) for entry in spec.overrides[key])


def _override(server: str, name: str, entry: OverrideEntry) -> Override:
    """An entry that cannot be understood must not lower anything: from there on the tool is destructive."""
    tool_class, when = entry
    if when is None:
        return Override(tool_class)
    try:
        return Override(tool_class, compile_match(when, otherwise=tool_class == "destructive"))
    except BadSchema as reason:
        logger.error("%s:%s: a `when` of its override is unusable, so it counts as destructive: %s",
                     server, name, reason)  # fmt: skip
        return EVERYTHING_DESTRUCTIVE
