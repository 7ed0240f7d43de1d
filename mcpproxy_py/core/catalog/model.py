"""What the catalog knows, parsed. Built by `providers.catalog.load`, never wrong inside.

A question the catalog cannot answer as it was put. Said to the agent as a tool error that it can mend.

The servers of this gateway as plain facts, and how they meet the catalog's entries (CAT-4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

from mcpproxy_py.core.catalog.resolve import Names
from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.record.masking import mask_text
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.core.values import Server, Snapshot

Tier = Literal["free", "pro", "business", "enterprise"]
Maturity = Literal["experimental", "beta", "stable", "deprecated"]
Granularity = Literal["dedicated", "section", "excerpt"]
RecordStatus = Literal["verified", "unknown"]
Lifecycle = Literal["active", "deprecated", "deleted"]
SHIPPED: Final = "shipped"
OWN: Final = "own"
REGISTRY: Final = "registry:"

CATEGORIES: Final = (
    "agent-orchestration",
    "api-integration",
    "code-generation",
    "code-understanding",
    "customization",
    "interaction",
    "model",
    "observability",
)


@dataclass(frozen=True, slots=True)
class SourceLink:
    """Where a fact was read. Without `verified_date` nobody has compared the page with the record."""

    url: str
    description: str
    granularity: Granularity
    verified_date: str | None = None


@dataclass(frozen=True, slots=True)
class Notes:
    """How to begin. Every part is optional; `start_url` is the one page to read for more."""

    setup: str | None = None
    config_file: str | None = None
    start_url: str | None = None
    gotchas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CapabilityRecord:
    """One capability of one agent."""

    name: str
    category: str
    available: bool
    description: str
    status: RecordStatus
    tier: Tier | None = None
    maturity: Maturity | None = None
    notes: Notes = Notes()
    sources: tuple[SourceLink, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    id: str
    title: str
    records: Mapping[str, CapabilityRecord]
    """By canonical name, in canonical order."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A well-known MCP server: its `server.json` as it is, and what the overlay needs of it at hand."""

    slug: str
    name: str
    title: str
    description: str
    auth: str
    transport: str
    wire: Mapping[str, Any]
    package: str | None = None
    url: str | None = None
    status: RecordStatus = "unknown"
    tags: tuple[str, ...] = ()
    source: str = SHIPPED
    """`shipped`, `own`, or `registry:` and which."""
    local: bool = False
    """Whether its registry is on this machine: then its addresses may be, too."""
    lifecycle: Lifecycle = "active"
    """What its registry says of it."""
    warnings: tuple[str, ...] = ()
    """What a person has to know before adding it. An agent is not told what such an entry says of itself."""

    @property
    def of_registry(self) -> bool:
        return self.source.startswith(REGISTRY)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything shipped and everything the user put over it."""

    names: Names
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    servers: Mapping[str, ServerEntry] = field(default_factory=dict[str, ServerEntry])


class NotAnswered(ValueError):
    """Its message says what is wrong and what to ask instead."""


def unknown(what: str, given: str, known: Iterable[str]) -> NotAnswered:
    """An unknown name: the nearest known one where there is one, and all of them."""
    names = list(known)
    near = nearest(given, names, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return NotAnswered(f"Unknown {what} '{quoted(given)}'.{hint} Known: {', '.join(names)}")


OWN_NAME: Final = "catalog"
"""The built-in upstream itself. It is no connector, so it leaves itself out."""
MAX_ERROR: Final = 300
_NOT_IN_A_KEY: Final = re.compile(r"[^a-z0-9]+")
_USABLE: Final = ("connected", "sleeping")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connector:
    """One configured server, as far as an agent may know of it. `tools` are names as the server gives them."""

    name: str
    enabled: bool
    connected: bool
    tools: tuple[str, ...] = ()
    last_error: str | None = None

    @property
    def usable(self) -> bool:
        return self.enabled and self.connected


def connectors(snapshot: Snapshot) -> tuple[Connector, ...]:
    """The servers of a snapshot. For a caller of limited scope, pass a snapshot cut down to that scope."""
    return tuple(_connector(server) for name, server in snapshot.servers.items() if name != OWN_NAME)


def _connector(server: Server) -> Connector:
    """A sleeping server counts as connected: its first call wakes it. What the operator denies is not listed."""
    return Connector(
        name=server.name,
        enabled=server.state != "disabled",
        connected=server.state in _USABLE,
        tools=tuple(tool for tool in server.tools if server.offers(tool)) if server.state in _USABLE else (),
        last_error=None if server.error is None else mask_text(server.error)[:MAX_ERROR],
    )


@lru_cache(maxsize=2048)
def key(name: str) -> str:
    """What two spellings of a server's name have in common."""
    return _NOT_IN_A_KEY.sub("-", name.strip().lower()).strip("-")


class Matching:
    """Which catalog entry and which configured server are the same, by slug, name or server name."""

    def __init__(self, entries: Mapping[str, ServerEntry], configured: Sequence[Connector]) -> None:
        self._entries = _by_key((one, (one.slug, one.name, one.title)) for one in entries.values())
        self._connectors = _by_key((one, (one.name,)) for one in configured)
        self.entry_of = {one.name: self.entry(one.name) for one in configured}
        self.connector_of = {
            entry.slug: one for one in reversed(configured) if (entry := self.entry_of[one.name]) is not None
        }

    def entry(self, name: str) -> ServerEntry | None:
        return self._entries.get(key(name))

    def connector(self, name: str) -> Connector | None:
        """The configured server of this name, or the one that is the catalog entry of this name."""
        direct = self._connectors.get(key(name))
        entry = self.entry(name)
        return direct if direct is not None or entry is None else self.connector_of.get(entry.slug)


def _by_key(named: Iterable[tuple[T, Iterable[str]]]) -> dict[str, T]:
    table: dict[str, T] = {}
    for value, names in named:
        for name in names:
            table.setdefault(key(name), value)
    return table
