"""What agents can do: the four questions of the capability tools and their answers (CAT-1).

Every function takes the catalog and arguments that fit the tool's schema, and gives the JSON object that goes
out. What cannot be answered raises `NotAnswered`. The answers are lean on purpose: each key is paid for in
tokens, so a list carries no notes and a comparison only what one begins with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mcpproxy_py.core.catalog.model import (
    CATEGORIES,
    Agent,
    CapabilityRecord,
    Catalog,
    NotAnswered,
    Notes,
    SourceLink,
    unknown,
)
from mcpproxy_py.core.catalog.resolve import Ambiguous, Found, fold
from mcpproxy_py.core.json_values import quoted

NO_MATCH: Final = (
    "No capability is called '{query}'; these three look most like it. "
    "list_capabilities with an agent lists all of its capabilities."
)


def lookup_capability(catalog: Catalog, *, agent: str, capability: str) -> dict[str, Any]:
    """What one agent can do for one capability, with how to begin."""
    owner = _agent(catalog, agent)
    meant = _meant(catalog, capability)
    if isinstance(meant, Ambiguous):
        return _matches(meant)
    record = owner.records.get(meant.term.name)
    if record is None or not record.available:
        shown = {"name": meant.term.name, "category": meant.term.category, "available": False}
        return {"agent": owner.id, "capability": shown}
    return {"agent": owner.id, "capability": _in_full(record)}


def compare_capability(catalog: Catalog, *, capability: str, agents: Sequence[str] | None = None) -> dict[str, Any]:
    """One capability across agents; those without it are named and nothing more."""
    compared = list(catalog.agents.values()) if agents is None else _chosen(catalog, agents)
    meant = _meant(catalog, capability)
    if isinstance(meant, Ambiguous):
        return _matches(meant)
    return {"capability": meant.term.name, "comparison": [_compared(agent, meant) for agent in compared]}


def list_capabilities(catalog: Catalog, *, agent: str | None = None, category: str | None = None) -> dict[str, Any]:
    """The names of what is available: of one agent, in one category, or both."""
    if agent is None and category is None:
        raise NotAnswered("At least one parameter is required: give agent, category or both")
    wanted = None if category is None else _category(category)
    if agent is None:
        return {"category": wanted, "agents": [_listed(owner, wanted) for owner in catalog.agents.values()]}
    owner = _agent(catalog, agent)
    listed = _listed(owner, wanted)
    return listed if wanted is None else {"agent": owner.id, "category": wanted, **listed}


def get_sources(catalog: Catalog, *, agent: str | None = None, capability: str | None = None) -> dict[str, Any]:
    """Where the facts come from. Without a capability a page stands once, with the capabilities it vouches for."""
    owners = list(catalog.agents.values()) if agent is None else [_agent(catalog, agent)]
    if capability is None:
        return _all_sources(owners, agent is None)
    meant = _meant(catalog, capability)
    if isinstance(meant, Ambiguous):
        return _matches(meant)
    cited = [_cited(owner, meant) for owner in owners]
    answer: dict[str, Any] = {"capability": meant.term.name}
    return {"agent": owners[0].id, **answer, **_without_agent(cited[0])} if agent else {**answer, "agents": cited}


def _meant(catalog: Catalog, capability: str) -> Found | Ambiguous:
    if not fold(capability):
        raise NotAnswered("capability is empty: say what you are looking for, like MCP or debugging")
    return catalog.names.resolve(capability)


def _agent(catalog: Catalog, given: str) -> Agent:
    """By id; "Claude Code" is as good as `claude-code`."""
    found = catalog.agents.get(fold(given).replace(" ", "-"))
    if found is None:
        raise unknown("agent", given, catalog.agents)
    return found


def _chosen(catalog: Catalog, given: Sequence[str]) -> list[Agent]:
    if not given:
        raise NotAnswered("agents is empty: name at least one agent, or leave it out for all")
    return list({(agent := _agent(catalog, name)).id: agent for name in given}.values())


def _category(given: str) -> str:
    wanted = fold(given).replace(" ", "-")
    if wanted not in CATEGORIES:
        raise unknown("category", given, CATEGORIES)
    return wanted


def _matches(meant: Ambiguous) -> dict[str, Any]:
    rows = [
        {"name": one.term.name, "category": one.term.category, "matchConfidence": one.confidence}
        for one in meant.candidates
    ]
    return {"matches": rows} if meant.known else {"matches": rows, "message": _no_match(meant.query)}


def _no_match(query: str) -> str:
    return NO_MATCH.format(query=quoted(query))


def _in_full(record: CapabilityRecord) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": record.name,
        "category": record.category,
        "available": True,
        "tier": record.tier,
        "maturityLevel": record.maturity,
        "description": record.description,
        "implementationNotes": _notes(record.notes),
        "sources": [{"url": source.url, "verifiedDate": source.verified_date} for source in record.sources],
    }
    return shown if record.status == "verified" else {**shown, "status": record.status}


def _notes(notes: Notes) -> dict[str, Any]:
    shown = {"setup": notes.setup, "configFile": notes.config_file, "startUrl": notes.start_url,
             "gotchas": list(notes.gotchas)}  # fmt: skip
    return {key: value for key, value in shown.items() if value}


def _compared(agent: Agent, meant: Found) -> dict[str, Any]:
    record = agent.records.get(meant.term.name)
    if record is None or not record.available:
        return {"agent": agent.id, "available": False}
    notes = _notes(record.notes)
    return {
        "agent": agent.id,
        "available": True,
        "tier": record.tier,
        "maturityLevel": record.maturity,
        "implementationNotes": {key: notes[key] for key in ("setup", "startUrl") if key in notes},
    }


def _listed(agent: Agent, category: str | None) -> dict[str, Any]:
    rows = [
        {"name": record.name, "category": record.category, "tier": record.tier, "available": True}
        for record in agent.records.values()
        if record.available and category in (None, record.category)
    ]
    return {"agent": agent.id, "capabilities": rows}


def _cited(agent: Agent, meant: Found) -> dict[str, Any]:
    record = agent.records.get(meant.term.name)
    if record is None:
        return {"agent": agent.id, "status": "unknown", "sources": []}
    return {"agent": agent.id, "status": record.status, "sources": [_source(one) for one in record.sources]}


def _without_agent(cited: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in cited.items() if key != "agent"}


def _source(source: SourceLink) -> dict[str, Any]:
    return {
        "url": source.url,
        "description": source.description,
        "verifiedDate": source.verified_date,
        "sourceGranularity": source.granularity,
    }


def _all_sources(owners: Iterable[Agent], compact: bool) -> dict[str, Any]:
    if compact:
        return {"agents": [{"agent": owner.id, "sources": _pages(owner, compact=True)} for owner in owners]}
    (owner,) = owners
    return {"agent": owner.id, "sources": _pages(owner, compact=False)}


def _pages(agent: Agent, *, compact: bool) -> list[dict[str, Any]]:
    """Each page once. Compact leaves out what it says and what it is cited for."""
    pages: dict[str, dict[str, Any]] = {}
    for record in agent.records.values():
        for source in record.sources:
            page = pages.setdefault(source.url, _page(source, record))
            page["capabilities"].append(record.name)
    if compact:
        return [{"url": page["url"], "verifiedDate": page["verifiedDate"]} for page in pages.values()]
    return list(pages.values())


def _page(source: SourceLink, record: CapabilityRecord) -> dict[str, Any]:
    return {
        "url": source.url,
        "description": source.description,
        "verifiedDate": source.verified_date,
        "status": record.status,
        "capabilities": [],
    }
