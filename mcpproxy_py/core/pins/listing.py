"""What of a server's listing is pinned, its digest, and its stored form (SEC-3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PinnedListing:
    """What a server lists: as it was approved, or as it lists it now. Of the listed tools and prompts the wire objects
    may be whole; what is not pinned of them is not compared, not in the digest and not stored."""

    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    instructions: str | None = None
    prompts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    rejected: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of subjects that a person said no to, the digest of what was refused."""

    def digest_of(self, subject: str) -> str | None:
        """Of `tool:NAME`, `prompt:NAME` or `instructions`; `None` where there is no such thing."""
        raise NotImplementedError

    def digest(self) -> str:
        """Of all that is pinned. The order of the list does not matter."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """To be stored: with a version number, and only what is pinned."""
        raise NotImplementedError


def listing_of(
    tools: Iterable[Mapping[str, Any]], instructions: str | None = None, prompts: Iterable[Mapping[str, Any]] = ()
) -> PinnedListing:
    """From what came over the wire. Of two with one name the first counts, as for the gateway."""
    raise NotImplementedError


def from_json(stored: object) -> PinnedListing:
    """What was stored. Raises `ValueError` with a sentence where it is damaged or of a newer version."""
    raise NotImplementedError
