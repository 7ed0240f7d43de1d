"""What is wrong with the catalog's data, or will be soon: schema, coverage, staleness (CAT-3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal

from mcpproxy_py.core.values import RANK
from mcpproxy_py.providers.catalog.data_files import DataError, DataFile, data_files, laid_over, problems
from mcpproxy_py.providers.catalog.load import META
from mcpproxy_py.providers.catalog.tool_classes import KIND as TOOL_CLASSES

STALE_AFTER: Final = 30
TOO_OLD_AFTER: Final = 90
"""Days since a record was last compared with its source."""

Level = Literal["warning", "error"]


@dataclass(frozen=True, slots=True)
class CatalogFinding:
    level: Level
    where: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"level": self.level, "where": self.where, "message": self.message}


def validate(own: Path | None, today: date) -> list[CatalogFinding]:
    """Every finding, in the order of the files. No finding means that the data may be relied on."""
    documents: list[tuple[DataFile, Any]] = []
    found: list[CatalogFinding] = []
    for file in (*data_files(own), *laid_over(own, TOOL_CLASSES)):
        try:
            document = file.read()
        except DataError as error:
            found.append(CatalogFinding("error", file.path.name, str(error)))
            continue
        wrong = [CatalogFinding("error", str(file.path), problem) for problem in problems(file.kind, document)]
        found += wrong
        if not wrong:
            documents.append((file, document))
    return [*found, *_contents(documents, today)]


def _contents(documents: list[tuple[DataFile, Any]], today: date) -> Iterator[CatalogFinding]:
    """What no schema can say. A file that its schema refused is not looked into."""
    names = {row["name"] for file, doc in documents if file.kind == "capabilities" for row in doc["capabilities"]}
    for file, document in documents:
        if file.kind == "agent":
            yield from _coverage(document, names)
            yield from _evidence(document)
            yield from _staleness(document, today)
        elif file.kind == "aliases":
            yield from _aliases(file, document["aliases"], names)
        elif file.kind == "servers":
            yield from _servers(file, document["servers"])
        elif file.kind == TOOL_CLASSES:
            yield from _tool_classes(file, document["servers"])


def _coverage(sheet: Mapping[str, Any], names: set[str]) -> Iterator[CatalogFinding]:
    listed = [row["name"] for row in sheet["capabilities"]]
    for missing in sorted(names - set(listed)):
        yield CatalogFinding("error", sheet["agent"], f"{missing} is not covered")
    for strange in sorted(set(listed) - names):
        yield CatalogFinding("error", sheet["agent"], f"no capability is called {strange}")
    for twice in sorted({name for name in listed if listed.count(name) > 1}):
        yield CatalogFinding("error", sheet["agent"], f"{twice} is listed twice")


def _evidence(sheet: Mapping[str, Any]) -> Iterator[CatalogFinding]:
    """A record says it was verified exactly when it names a page and the day."""
    for row in sheet["capabilities"]:
        if (row["status"] == "verified") != bool(_dates(row)):
            said = f"status is {row['status']}, but {'a' if _dates(row) else 'no'} source has a verifiedDate"
            yield CatalogFinding("error", sheet["agent"], f"{row['name']}: {said}")


def _staleness(sheet: Mapping[str, Any], today: date) -> Iterator[CatalogFinding]:
    """One finding for all records of one age, because they are checked in one go."""
    ages: defaultdict[int, list[str]] = defaultdict(list)
    for row in sheet["capabilities"]:
        if dates := _dates(row):
            ages[(today - max(dates)).days].append(row["name"])
    for age, names in sorted(ages.items(), reverse=True):
        if level := _level(age):
            what = names[0] if len(names) == 1 else f"{len(names)} records"
            when = f"{age} days ago" if age >= 0 else f"{-age} days from now"
            yield CatalogFinding(level, sheet["agent"], f"{what} verified {when}; check the vendor's pages again")


def _level(age: int) -> Level | None:
    if age > TOO_OLD_AFTER or age < 0:
        return "error"
    return "warning" if age > STALE_AFTER else None


def _dates(row: Mapping[str, Any]) -> list[date]:
    return [date.fromisoformat(one["verifiedDate"]) for one in row.get("sources", ()) if one.get("verifiedDate")]


def _aliases(file: DataFile, aliases: Mapping[str, str], names: set[str]) -> Iterator[CatalogFinding]:
    for phrase, name in aliases.items():
        if name not in names:
            yield CatalogFinding("error", file.path.name, f"'{phrase}' stands for '{name}', which is no capability")


def _servers(file: DataFile, servers: list[Mapping[str, Any]]) -> Iterator[CatalogFinding]:
    slugs = [server["_meta"][META]["slug"] for server in servers]
    for twice in sorted({slug for slug in slugs if slugs.count(slug) > 1}):
        yield CatalogFinding("error", file.path.name, f"the slug {twice} is used twice")


def _tool_classes(file: DataFile, servers: list[Mapping[str, Any]]) -> Iterator[CatalogFinding]:
    """One entry says what a server is, and none is called harmless that its own author does not."""
    identities = [identity for server in servers for identity in server["identities"]]
    for twice in sorted({identity for identity in identities if identities.count(identity) > 1}):
        yield CatalogFinding("error", file.path.name, f"{twice} is in two entries")
    for server in servers:
        for name, tool in server["tools"].items():
            if tool["published"] != "unknown" and RANK[tool["class"]] < RANK[tool["published"]]:
                said = f"its class is {tool['class']}, and its server publishes {tool['published']}"
                yield CatalogFinding("error", f"{file.path.name}: {server['title']}", f"{name}: {said}")
