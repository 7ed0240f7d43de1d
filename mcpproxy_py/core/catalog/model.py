"""What the catalog knows, parsed. Built by `providers.catalog.load`, never wrong inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mcpproxy_py.core.catalog.resolve import Names

Tier = Literal["free", "pro", "business", "enterprise"]
Maturity = Literal["experimental", "beta", "stable", "deprecated"]
Granularity = Literal["dedicated", "section", "excerpt"]
RecordStatus = Literal["verified", "unknown"]

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
class Source:
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
class Record:
    """One capability of one agent."""

    name: str
    category: str
    available: bool
    description: str
    status: RecordStatus
    tier: Tier | None = None
    maturity: Maturity | None = None
    notes: Notes = Notes()
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    id: str
    title: str
    records: Mapping[str, Record]
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


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything shipped and everything the user put over it."""

    names: Names
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    servers: Mapping[str, ServerEntry] = field(default_factory=dict[str, ServerEntry])
