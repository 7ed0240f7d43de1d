"""The servers of this gateway as plain facts, and how they meet the catalog's entries (CAT-4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.core.record.masking import mask_text
from mcpproxy_py.core.values import Server, Snapshot

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
