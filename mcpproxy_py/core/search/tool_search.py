"""`retrieve_tools`: ranking over one snapshot, as an answer (FIND-1, FIND-2).

A tool's input schema on one line, for listings that cost an agent few tokens (FIND-1, `compact`).

The schema is a stranger's JSON and may be anything: wrong types everywhere, a thousand properties, a depth
without end. The answer is always one short line of printable text, with `any` for what cannot be said.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import islice
from typing import Any, Final, Literal, cast

from mcpproxy_py.core.policy.surface_tools import NOT_THERE, NOTHING_FITS, SAID_ONCE, USAGE
from mcpproxy_py.core.policy.tool_class import call_with, class_of
from mcpproxy_py.core.protocol.apps import is_app_only
from mcpproxy_py.core.search.confidence import FITS, confidence
from mcpproxy_py.core.search.index import Hit, Index, Ranking, ToolFilter
from mcpproxy_py.core.search.shared_schemas import said_once
from mcpproxy_py.core.values import Server, Snapshot, Tool

PARAMETERS: Final = 24
CHOICES: Final = 6
DEPTH: Final = 3
NAME_CHARS: Final = 64
TYPE_CHARS: Final = 80
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


def signature(tool: Tool) -> str:
    """`create_issue(title: string, body?: string, labels?: string[])`, in the order the schema has them."""
    schema = _mapping(tool.wire.get("inputSchema"))
    properties = _mapping(schema.get("properties"))
    required = schema.get("required")
    needed = {name for name in _items(required, PARAMETERS * 4) if isinstance(name, str)}
    shown = [_parameter(name, properties[name], name in needed) for name in islice(properties, PARAMETERS)]
    if len(properties) > PARAMETERS:
        shown.append("…")
    return f"{_plain(tool.name, NAME_CHARS * 2)}({', '.join(shown)})"


def _parameter(name: str, schema: object, needed: bool) -> str:
    return f"{_plain(name, NAME_CHARS)}{'' if needed else '?'}: {_cut(_type(schema, DEPTH), TYPE_CHARS)}"


def _type(schema: object, depth: int) -> str:
    """The type a schema allows, or `any` where it says nothing that fits on a line."""
    known = _mapping(schema)
    if depth == 0 or not known:
        return "any"
    if "const" in known:
        return _literal(known["const"])
    if choices := _items(known.get("enum"), CHOICES + 1):
        return _union([_literal(choice) for choice in choices])
    for keyword in ("anyOf", "oneOf"):
        if branches := _items(known.get(keyword), CHOICES + 1):
            return _union([_type(branch, depth - 1) for branch in branches])
    return _declared(known, depth)


def _declared(schema: Mapping[str, Any], depth: int) -> str:
    declared = schema.get("type")
    names = _items(declared, CHOICES + 1) or [declared]
    return _union([_named(name, schema, depth) for name in names])


def _named(name: object, schema: Mapping[str, Any], depth: int) -> str:
    if name == "array":
        item = _type(schema.get("items"), depth - 1)
        return f"({item})[]" if "|" in item else f"{item}[]"
    return name if isinstance(name, str) and name in _TYPES else "any"


def _union(parts: Iterable[str]) -> str:
    different = list(dict.fromkeys(parts))
    return "|".join(different if len(different) <= CHOICES else [*different[:CHOICES], "…"])


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f'"{_plain(value, NAME_CHARS)}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 128:
        return "integer"  # turning a huge integer into decimals is slow, and beyond a size forbidden
    return str(value) if isinstance(value, int | float) else "any"


def _plain(text: object, most: int) -> str:
    """Printable and on one line: a name with a line feed would read as another line of the listing."""
    raw = text if isinstance(text, str) else "?"
    return _cut("".join(letter if letter.isprintable() else " " for letter in raw[: most + 1]), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _items(value: object, most: int) -> list[object]:
    return cast("list[object]", value)[:most] if isinstance(value, list) else []


COMPACT_DESCRIPTION: Final = 160
LARGEST_IN_FULL: Final = 20_000
"""Characters of a definition. One that is larger is shown by its signature: a server that writes a book into a
description does not get it read by everybody who searches. Who asks for it by name gets it."""
EXCLUDED: Final = "excluded_by_operator"
CHANGED: Final = "changed"
"""It is not what was approved, and waits for a person."""
CALLABLE: Final = ("connected", "sleeping")
WHY_NOT: Final[Mapping[str, str]] = {
    "disabled": "server_disabled",
    "connecting": "server_connecting",
    "failed": "server_down",
    "needs_login": "server_needs_login",
}


def unavailable_reason(server: Server, tool: Tool) -> str | None:
    """Why this tool cannot be called now, from a closed set, or `None`."""
    if (why := server.forbids(tool.name)) is not None:
        return CHANGED if why == tool.changed else EXCLUDED
    return None if server.state in CALLABLE else WHY_NOT[server.state]


def retrieve_tools(snapshot: Snapshot, params: Mapping[str, Any]) -> dict[str, Any]:
    """The tools that fit a query, or those of certain names, as an answer."""
    if params.get("names"):
        return _named_tools(snapshot, params)
    ranking, unavailable = found(snapshot, params)
    sure = [confidence(hit.score, at, by_meaning=ranking.by_meaning) for at, hit in enumerate(ranking.hits)]
    fits = bool(sure) and sure[0] >= FITS
    # Nobody is to pay for the schemas of what does not fit.
    whole = _in_full(params.get("detail") or snapshot.policy.detail, len(sure)) if fits else 0
    shown = enumerate(zip(ranking.hits, sure, strict=True))
    rows = [
        (_full if at < whole and _is_small(hit.tool) else _compact)(hit, each, snapshot) for at, (hit, each) in shown
    ]
    return _answer(rows, fits, {"total": ranking.total, "unavailable": unavailable}, NOTHING_FITS)


def _in_full(detail: str, many: int) -> int:
    return {"full": many, "auto": 1}.get(detail, 0)


def _answer(rows: list[dict[str, Any]], fits: bool, facts: Mapping[str, Any], otherwise: str) -> dict[str, Any]:
    usage = USAGE if fits else otherwise
    return {
        "tools": rows,
        "fits": fits,
        "usage_instructions": f"{usage} {SAID_ONCE}" if said_once(rows) else usage,
        **facts,
    }


def _named_tools(snapshot: Snapshot, params: Mapping[str, Any]) -> dict[str, Any]:
    """In full. What is not in reach is answered like what is not there, and what cannot be called is counted."""
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    unavailable: dict[str, int] = {}
    for name in dict.fromkeys(params["names"]):
        there = _tool_of(snapshot, name)
        if there is None or not _passes(there[1], params):
            missing.append(name)
        elif (why := unavailable_reason(*there)) is not None:
            unavailable[why] = unavailable.get(why, 0) + 1
            missing.append(name)
        else:
            rows.append(_full(Hit(there[1], 1.0), 1.0, snapshot))
    facts = {"total": len(rows), "unavailable": unavailable} | ({"missing": missing} if missing else {})
    return _answer(rows, bool(rows), facts, NOT_THERE)


def _tool_of(snapshot: Snapshot, full_name: str) -> tuple[Server, Tool] | None:
    server_name, _, name = full_name.partition(":")
    server = snapshot.servers.get(server_name)
    tool = server.tools.get(name) if server is not None else None
    return None if server is None or tool is None else (server, tool)


def _passes(tool: Tool, params: Mapping[str, Any]) -> bool:
    rule = _rule(params)
    fits = FOR_MODELS.lets_through(tool) and (rule is True or rule.lets_through(tool))
    return fits and params.get("server") in (None, tool.server)


def found(snapshot: Snapshot, params: Mapping[str, Any]) -> tuple[Ranking, dict[str, int]]:
    """Filters apply before the cut; what cannot be called is not among the hits but counted, by reason."""
    index: Index = snapshot.index
    wanted, barred = _wanted(index, params) & index.mask(lambda name: FOR_MODELS), _unavailable(snapshot)
    among = reduce(lambda left, mask: left & ~mask, barred.values(), wanted)
    ranking = index.rank(params["query"], params["limit"], among)
    missed = ranking.matched & wanted
    counts = {reason: (missed & mask).bit_count() for reason, mask in sorted(barred.items())}
    return ranking, {reason: many for reason, many in counts.items() if many}


def _unavailable(snapshot: Snapshot) -> dict[str, int]:
    """Of every reason, the mask of the tools it keeps from being called: `unavailable_reason`, for all at once."""
    servers = snapshot.servers
    index: Index = snapshot.index
    excluded = index.mask(lambda name: _excluded(servers[name]))
    states = {servers[name].state for name in index.segments}.difference(CALLABLE)
    away = {WHY_NOT[state]: index.mask(lambda name, state=state: servers[name].state == state) for state in states}
    changed = index.mask(lambda name: index.segments[name].has_changed and _changed(servers[name]))
    barred = {EXCLUDED: excluded & ~changed, CHANGED: changed} if changed else {EXCLUDED: excluded}
    return barred | {reason: mask & ~excluded for reason, mask in away.items()}


def _changed(server: Server) -> ToolFilter:
    lists = (server.allow_tools, server.deny_tools)
    return ToolFilter((CHANGED, *lists), lambda tool: unavailable_reason(server, tool) == CHANGED)


def _excluded(server: Server) -> ToolFilter:
    return ToolFilter((server.allow_tools, server.deny_tools), lambda tool: not server.offers(tool.name))


def _wanted(index: Index, params: Mapping[str, Any]) -> int:
    rule = _rule(params)
    return index.mask(lambda name: rule if params["server"] in (None, name) else False)


def _rule(params: Mapping[str, Any]) -> ToolFilter | Literal[True]:
    return READ_ONLY if params["read_only_only"] else HARMLESS if params["exclude_destructive"] else True


FOR_MODELS: Final = ToolFilter("for models", lambda tool: not is_app_only(tool.wire))
READ_ONLY: Final = ToolFilter("read only", lambda tool: class_of(tool, None)[0] == "read")
HARMLESS: Final = ToolFilter("not destructive", lambda tool: class_of(tool, None)[0] != "destructive")


def _is_small(tool: Tool) -> bool:
    said = tool.wire.get("description", ""), tool.wire.get("inputSchema")
    return len(json.dumps(said, ensure_ascii=False)) <= LARGEST_IN_FULL


def _full(hit: Hit, sure: float, snapshot: Snapshot) -> dict[str, Any]:
    tool = hit.tool
    return {
        "name": tool.full_name,
        "description": tool.wire.get("description", ""),
        "inputSchema": tool.wire.get("inputSchema", {"type": "object"}),
        "score": hit.score,
        "confidence": sure,
        "server": tool.server,
        "annotations": dict(tool.annotations),
        "call_with": call_with(tool, snapshot.policy),
    }


def _compact(hit: Hit, sure: float, snapshot: Snapshot) -> dict[str, Any]:
    row = _full(hit, sure, snapshot)
    del row["inputSchema"]
    description = str(row["description"])
    if len(description) > COMPACT_DESCRIPTION:
        description = description[: COMPACT_DESCRIPTION - 1].rstrip() + "…"
    return {**row, "description": description, "signature": signature(hit.tool)}
