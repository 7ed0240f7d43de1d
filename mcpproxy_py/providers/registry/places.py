"""Where a registry is, as far as this room needs to know, and what reading it came to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlsplit

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.core.oauth.addresses import nearness_of_host

NAME: Final = re.compile(
    r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,98}[a-zA-Z0-9])?/[a-zA-Z0-9](?:[a-zA-Z0-9._-]{0,98}[a-zA-Z0-9])?"
)
VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}")


class RegistryPlace(Protocol):
    """As it is configured: an address or a file. With a digest, the address is that of a file too."""

    @property
    def url(self) -> str | None: ...
    @property
    def file(self) -> str | None: ...
    @property
    def sha256(self) -> str | None: ...
    @property
    def label(self) -> str: ...


def is_local(place: RegistryPlace) -> bool:
    """Of this machine: what its owner put there may lead to this machine too."""
    return place.file is not None or nearness_of_host(urlsplit(place.url or "").hostname or "") == "loopback"


class RegistryRefused(Exception):
    """What a registry gave cannot be used; the message says why, in words for a person."""


class RegistryAway(Exception):
    """It did not answer, or not as a registry does; the message says how."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What one registry knows of something."""

    label: str
    entries: Sequence[ServerEntry] = ()
    left_out: int = 0
    """Entries that cannot be shown, or are no entries."""
    more: bool = False
    """There are more than were asked for; other words find fewer."""
    read_at: float | None = None
    """When the oldest of it was read, in seconds of the clock; `None` for what was read just now."""
    away: str | None = None
    """Why it was not asked, and what is kept stands here."""
    read: dict[str, float] = field(default_factory=dict[str, float])
    """When each kept entry was read, by slug."""


MOST_ENTRIES: Final = 300
"""Of one search in one registry."""
