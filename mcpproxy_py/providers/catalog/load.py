"""Data files to a `Catalog`. Shipped files are believed (tests check them); the user's are checked first.

One entry of the server catalog: the registry's `server.json`, and what of it an agent is shown.

What the registry's format has no place for stands under `_meta` in a namespace of our own, as that format asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.core.catalog.model import (
    OWN,
    SHIPPED,
    Agent,
    CapabilityRecord,
    Catalog,
    Notes,
    ServerEntry,
    SourceLink,
)
from mcpproxy_py.core.catalog.resolve import Names, Similar, Term
from mcpproxy_py.providers.catalog.data_files import DataError, DataFile, checked, data_files, laid_over

META: Final = "io.github.mcpproxy/catalog"


def server_entry(wire: Mapping[str, Any], source: str = SHIPPED) -> ServerEntry:
    meta: Mapping[str, Any] = wire["_meta"][META]
    package = next(iter(wire.get("packages", ())), None)
    remote = next(iter(wire.get("remotes", ())), None)
    return ServerEntry(
        slug=meta["slug"],
        name=wire["name"],
        title=wire["title"],
        description=wire["description"],
        auth=meta["auth"],
        transport=remote["type"] if remote else package["transport"]["type"] if package else "stdio",
        wire=wire,
        package=f"{package['registryType']}:{package['identifier']}" if package else None,
        url=remote["url"] if remote else None,
        status=meta["status"],
        tags=tuple(meta.get("tags", ())),
        source=source,
    )


def _entries(file: DataFile, document: Mapping[str, Any]) -> dict[str, ServerEntry]:
    source = OWN if file.own else SHIPPED
    return {entry.slug: entry for entry in (server_entry(wire, source) for wire in document["servers"])}


RUNNERS: Final[Mapping[str, tuple[str, ...]]] = {
    "npm": ("npx", "-y"),
    "pypi": ("uvx",),
    "oci": ("docker", "run", "-i", "--rm"),
}
"""How a package of each registry is started without installing it first."""


def connect_command(entry: ServerEntry) -> str | None:
    """The command with which a person connects this server, or `None` where the entry does not tell."""
    if entry.of_registry:
        return f"mcpproxy catalog add {entry.slug}"
    if entry.url is not None:
        sse = " --transport sse" if entry.transport == "sse" else ""
        return f"mcpproxy upstream add {entry.slug} --url {entry.url}{sse}"
    for package in entry.wire.get("packages", ()):
        if words := runner(package):
            return " ".join(["mcpproxy upstream add", entry.slug, "--", *words, *_arguments(package)])
    return None


def runner(package: Mapping[str, Any]) -> tuple[str, ...]:
    """The words before the package, with what its runner must be told; none where no runner is known."""
    told = package.get("runtimeArguments", ())
    words = RUNNERS.get(package["registryType"], ())
    return (*words, *(word for each in told for word in (each["name"], each["value"]))) if words else ()


def _arguments(package: Mapping[str, Any]) -> list[str]:
    """The package and what it must be told; a value a person has to choose stands in capitals."""
    fixed = [argument["value"] if "value" in argument else argument["valueHint"].upper()
             for argument in package.get("packageArguments", ())]  # fmt: skip
    return [package["identifier"], *fixed]


Rank = Callable[[Sequence[Term], Mapping[str, str]], Similar | None]


def load(own: Path | None = None, *, rank: Rank | None = None) -> Catalog:
    """The shipped catalog with what lies in the user's directory over it. `rank` may be `semantic.ranker`, which takes
    its time. Raises `DataError`."""
    terms: list[Term] = []
    agents: dict[str, Agent] = {}
    aliases: dict[str, str] = {}
    servers: dict[str, ServerEntry] = {}
    for file in data_files(own):
        document = checked(file)
        if file.kind == "capabilities":
            terms = [Term(row["name"], row["category"], row["description"]) for row in document["capabilities"]]
        elif file.kind == "agent":
            agent = _agent(document, terms)
            agents[agent.id] = agent
        elif file.kind == "aliases":
            aliases |= document["aliases"]
        else:
            servers |= _entries(file, document)
    return Catalog(_names(terms, aliases, rank), agents, servers)


def load_servers(own: Path | None = None) -> dict[str, ServerEntry]:
    """The servers alone, by slug. Raises `DataError`."""
    found: dict[str, ServerEntry] = {}
    for file in laid_over(own, "servers"):
        found |= _entries(file, checked(file))
    return found


def _names(terms: Sequence[Term], aliases: Mapping[str, str], rank: Rank | None) -> Names:
    known = {term.name for term in terms}
    for phrase, name in aliases.items():
        if name not in known:
            raise DataError(f"aliases.json: '{phrase}' stands for '{name}', which is no capability")
    return Names(terms, aliases, rank(terms, aliases) if rank else None)


def _agent(document: Mapping[str, Any], terms: Iterable[Term]) -> Agent:
    """Records in canonical order; one of an unknown name could never be found, so it is refused."""
    rows = {row["name"]: _record(row) for row in document["capabilities"]}
    order = [term.name for term in terms]
    if strange := sorted(rows.keys() - set(order)):
        raise DataError(f"agent {document['agent']}: no capability is called {', '.join(strange)}")
    return Agent(document["agent"], document["title"], {name: rows[name] for name in order if name in rows})


def _record(row: Mapping[str, Any]) -> CapabilityRecord:
    notes = row.get("implementationNotes", {})
    return CapabilityRecord(
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


def _source(row: Mapping[str, Any]) -> SourceLink:
    return SourceLink(row["url"], row["description"], row["sourceGranularity"], row.get("verifiedDate"))
