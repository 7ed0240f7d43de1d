"""Data files to a `Catalog`. Shipped files are believed (tests check them); the user's are checked first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcpproxy_py.core.catalog.model import Agent, Catalog, Notes, Record, ServerEntry, Source
from mcpproxy_py.core.catalog.resolve import Names, Similar, Term
from mcpproxy_py.providers.catalog.data_files import DataError, DataFile, data_files
from mcpproxy_py.providers.catalog.entries import server_entry

Rank = Callable[[Sequence[Term]], Similar | None]


def load(own: Path | None = None, *, rank: Rank | None = None) -> Catalog:
    """The shipped catalog with what lies in the user's directory over it. `rank` may be `semantic.ranker`, which takes
    its time. Raises `DataError`."""
    terms: list[Term] = []
    agents: dict[str, Agent] = {}
    aliases: dict[str, str] = {}
    servers: dict[str, ServerEntry] = {}
    for file in data_files(own):
        document = _checked(file)
        if file.kind == "capabilities":
            terms = [Term(row["name"], row["category"], row["description"]) for row in document["capabilities"]]
        elif file.kind == "agent":
            agent = _agent(document, terms)
            agents[agent.id] = agent
        elif file.kind == "aliases":
            aliases |= document["aliases"]
        else:
            servers |= {entry.slug: entry for entry in map(server_entry, document["servers"])}
    return Catalog(_names(terms, aliases, rank), agents, servers)


def _checked(file: DataFile) -> Any:
    document = file.read()
    if file.own:
        # Only here, because compiling schemas costs more than reading all the data does.
        from mcpproxy_py.providers.catalog.schemas import first_problem

        if problem := first_problem(file.kind, document):
            raise DataError(f"{file.path}: {problem}")
    return document


def _names(terms: Sequence[Term], aliases: Mapping[str, str], rank: Rank | None) -> Names:
    known = {term.name for term in terms}
    for phrase, name in aliases.items():
        if name not in known:
            raise DataError(f"aliases.json: '{phrase}' stands for '{name}', which is no capability")
    return Names(terms, aliases, rank(terms) if rank else None)


def _agent(document: Mapping[str, Any], terms: Iterable[Term]) -> Agent:
    """Records in canonical order; one of an unknown name could never be found, so it is refused."""
    rows = {row["name"]: _record(row) for row in document["capabilities"]}
    order = [term.name for term in terms]
    if strange := sorted(rows.keys() - set(order)):
        raise DataError(f"agent {document['agent']}: no capability is called {', '.join(strange)}")
    return Agent(document["agent"], document["title"], {name: rows[name] for name in order if name in rows})


def _record(row: Mapping[str, Any]) -> Record:
    notes = row.get("implementationNotes", {})
    return Record(
        name=row["name"],
        category=row["category"],
        available=row["available"],
        description=row["description"],
        status=row["status"],
        tier=row.get("tier"),
        maturity=row.get("maturityLevel"),
        notes=Notes(
            notes.get("setup"), notes.get("configFile"), notes.get("startUrl"), tuple(notes.get("gotchas", ()))
        ),
        sources=tuple(map(_source, row.get("sources", ()))),
    )


def _source(row: Mapping[str, Any]) -> Source:
    return Source(row["url"], row["description"], row["sourceGranularity"], row.get("verifiedDate"))
