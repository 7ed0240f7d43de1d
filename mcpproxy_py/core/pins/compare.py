"""Every difference between two listings, each with what it means (SEC-3)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from mcpproxy_py.core.pins.listing import PinnedListing

Judgement = Literal[
    "raises_risk", "lowers_risk", "breaks_callers", "widens_input", "rewords", "renames", "adds", "removes"
]


class Difference(NamedTuple):
    """One thing that is not what it was."""

    subject: str
    """`tool:NAME`, `prompt:NAME` or `instructions`."""
    part: str
    """Which part of it: `annotations.readOnlyHint`, `inputSchema.properties.path.type`; empty: all of it."""
    judgement: Judgement
    before: Any
    """`None` where there was none."""
    after: Any
    text: str
    """A plain sentence."""


def compare(approved: PinnedListing, listed: PinnedListing, trusted: bool) -> tuple[Difference, ...]:
    """`trusted`: whether the hints of this server may lower a class (`trust_annotations`)."""
    raise NotImplementedError
