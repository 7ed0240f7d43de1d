"""What is reachable now laid over what is known: `mcp_list` and `mcp_list_catalog` (CAT-4).

Seeing a server in the catalog and being able to use it are two things, and every row says both. Each server has
exactly one `connection_status`, so the counts add up to the number of servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from mcpproxy_py.core.catalog import gaps
from mcpproxy_py.core.catalog.model import Connector, Matching, ServerEntry
from mcpproxy_py.core.search.tokens import tokens

INVENTORY_VERSION: Final = 1
"""The version of the shape of these answers."""

ConnectionStatus = Literal[
    "connected_enabled",
    "connected_disabled",
    "cataloged_not_connected",
    "cataloged_disabled",
    "uncataloged_connected",
    "uncataloged_not_connected",
    "uncataloged_disabled",
]
CONNECTION_STATUSES: Final[tuple[ConnectionStatus, ...]] = (
    "connected_enabled", "connected_disabled", "cataloged_not_connected", "cataloged_disabled",
    "uncataloged_connected", "uncataloged_not_connected", "uncataloged_disabled",
)  # fmt: skip
ODD: Final = "Something about it has to be looked at by a person: its words are left out"
_QUERY_CAP: Final = 300
_TEXT_CAP: Final = 1000
_Pair = tuple[ServerEntry | None, Connector | None]


def mcp_list(configured: Sequence[Connector]) -> dict[str, Any]:
    """What this gateway reaches. Catalog entries that nobody configured are not here."""
    connected = [one.name for one in configured if one.connected]
    count = sum(len(one.tools) for one in configured if one.usable)
    return {
        "inventory_version": INVENTORY_VERSION,
        "summary": f"{len(connected)} of {len(configured)} configured servers connected, {count} tools to call",
        "connected_server_names": connected,
        "enabled_server_names": [one.name for one in configured if one.enabled],
        "registered_tool_count": count,
        "servers": [_inventory_row(one) for one in configured],
    }


def _inventory_row(one: Connector) -> dict[str, Any]:
    return {
        "name": one.name,
        "enabled": one.enabled,
        "connected": one.connected,
        "last_error": one.last_error,
        "tool_count": len(one.tools),
        "tools": list(one.tools),
    }


def mcp_list_catalog(
    entries: Mapping[str, ServerEntry], configured: Sequence[Connector], *, query: str | None = None, limit: int = 20,
    listed: Sequence[ServerEntry] = (),
) -> dict[str, Any]:  # fmt: skip
    """Known and configured servers, what one can act on first. The overlay covers all, whatever was asked for; `listed`
    are what registries have of the query, which nobody vouches for: they come last, and are in no count."""
    pairs = _pairs(entries, configured)
    shown = _matching_query(pairs, query) if query is not None else sorted(pairs, key=_actionable)
    shown += [(entry, None) for entry in listed]
    answer: dict[str, Any] = {"servers": [_row(entry, one) for entry, one in shown[:limit]]}
    if len(shown) > limit:
        answer["omitted"] = len(shown) - limit
    return {**answer, "overlay": _overlay(pairs, configured)}


def overlay(entries: Mapping[str, ServerEntry], configured: Sequence[Connector]) -> dict[str, Any]:
    """Every server under its one status; catalog entries by slug, servers nobody catalogued as rows."""
    return _overlay(_pairs(entries, configured), configured)


def _overlay(pairs: Iterable[_Pair], configured: Sequence[Connector]) -> dict[str, Any]:
    named: dict[ConnectionStatus, list[Any]] = {status: [] for status in CONNECTION_STATUSES}
    for entry, one in pairs:
        status = connection_status(entry is not None, one)
        named[status].append(_brief(one) if one and status == "uncataloged_connected" else _name(entry, one))
    return {
        "inventory_version": INVENTORY_VERSION,
        "connected_server_names": [one.name for one in configured if one.connected],
        "enabled_server_names": [one.name for one in configured if one.enabled],
        "connected_catalog_server_names": named["connected_enabled"],
        "connected_disabled_server_names": named["connected_disabled"],
        "cataloged_not_connected_server_names": named["cataloged_not_connected"],
        "cataloged_disabled_server_names": named["cataloged_disabled"],
        "uncataloged_connected_servers": named["uncataloged_connected"],
        "uncataloged_not_connected_server_names": named["uncataloged_not_connected"],
        "uncataloged_disabled_server_names": named["uncataloged_disabled"],
        "status_counts": {status: len(names) for status, names in named.items()},
    }


def connection_status(cataloged: bool, one: Connector | None) -> ConnectionStatus:
    if one is None:
        return "cataloged_not_connected"
    if not cataloged and one.connected:
        return "uncataloged_connected"
    if one.connected:
        return "connected_enabled" if one.enabled else "connected_disabled"
    if cataloged:
        return "cataloged_not_connected" if one.enabled else "cataloged_disabled"
    return "uncataloged_not_connected" if one.enabled else "uncataloged_disabled"


def classify(
    entry: ServerEntry | None, one: Connector | None, asked: Iterable[str] = (), *, authorised: bool = True
) -> gaps.Classification:
    """The gap between what was asked of a server and what there is. Tools may be named `tool` or `server:tool`."""
    wanted = [name.removeprefix(f"{one.name}:") if one else name for name in asked]
    tools = one.tools if one else ()
    facts = gaps.Facts(
        cataloged=entry is not None,
        configured=one is not None,
        enabled=one is not None and one.enabled,
        connected=one is not None and one.connected,
        authorised=authorised,
        tool_asked=bool(wanted),
        tool_present=all(name in tools for name in wanted),
    )
    there = [name for name in tools if name in wanted] if wanted else tools
    return gaps.classify(facts, [f"{one.name}:{name}" for name in there] if one else ())


def _pairs(entries: Mapping[str, ServerEntry], configured: Sequence[Connector]) -> list[_Pair]:
    """Every server once: configured ones with their entry, then entries nobody configured."""
    matching = Matching(entries, configured)
    there: list[_Pair] = [(matching.entry_of[one.name], one) for one in configured]
    return [*there, *((entry, None) for entry in entries.values() if entry.slug not in matching.connector_of)]


def _actionable(pair: _Pair) -> int:
    _, one = pair
    return 2 if one is None else 0 if one.usable else 1


def _name(entry: ServerEntry | None, one: Connector | None) -> str:
    return entry.slug if entry else one.name if one else ""


def _brief(one: Connector) -> dict[str, Any]:
    return {"name": one.name, "enabled": one.enabled, "connected": one.connected, "tool_count": len(one.tools)}


def _row(entry: ServerEntry | None, one: Connector | None) -> dict[str, Any]:
    status = connection_status(entry is not None, one)
    found = classify(entry, one)
    return {
        **(_known(entry) if entry else {"slug": None, "name": one.name if one else ""}),
        "server_name": one.name if one else None,
        "connection_status": status,
        "execution_available": one is not None and one.usable,
        "next_action": found.rule.next_action,
        **({"last_error": one.last_error} if one and one.last_error else {}),
    }


def _known(entry: ServerEntry) -> dict[str, Any]:
    """What the catalog says, without what only a program that installs needs."""
    where = {"package": entry.package, "url": entry.url}
    # What is odd about an entry of a registry a person has to look at: an agent reads none of its words.
    says = {} if entry.warnings else {"title": entry.title, "description": entry.description}
    return {
        "slug": entry.slug,
        "name": entry.name,
        **says,
        "source": entry.source,
        "transport": entry.transport,
        "auth": entry.auth,
        **{name: value for name, value in where.items() if value},
        **({} if entry.status == "verified" else {"status": entry.status}),
        **({} if entry.lifecycle == "active" else {"lifecycle": entry.lifecycle}),
        **({"caution": ODD} if entry.warnings else {}),
    }


def _matching_query(pairs: Iterable[_Pair], query: str) -> list[_Pair]:
    """Those with words of the query, most of them first. Words in a name count for more than words about it."""
    asked = set(tokens(query, _QUERY_CAP))
    scored = [(_score(pair, asked), pair) for pair in pairs]
    return [pair for score, pair in sorted(scored, key=lambda one: (-one[0], _actionable(one[1]))) if score > 0]


def _score(pair: _Pair, asked: set[str]) -> int:
    entry, one = pair
    names = " ".join([*([entry.slug, entry.title] if entry else []), *([one.name] if one else [])])
    about = " ".join([entry.description, *entry.tags]) if entry else ""
    inside, beside = asked & _words(names), asked & _words(about)
    return 3 * len(inside) + len(beside - inside)


@lru_cache(maxsize=2048)
def _words(text: str) -> frozenset[str]:
    """Kept, because the same few hundred texts are searched again and again."""
    return frozenset(tokens(text, _TEXT_CAP))
