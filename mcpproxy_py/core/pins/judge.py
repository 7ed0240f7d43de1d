"""What goes on after a listing has changed: what is in force, what is blocked, what a person has to decide (SEC-3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcpproxy_py.core.pins.compare import Difference
from mcpproxy_py.core.pins.listing import PinnedListing


class ScanFinding(Protocol):
    """What a scan of texts says of a subject; `core.pins.text_scan` has them."""

    @property
    def blocks(self) -> bool:
        """Whether it blocks by itself: hidden characters."""
        ...

    @property
    def text(self) -> str:
        """A plain sentence."""
        ...


@dataclass(frozen=True)
class JudgedListing:
    """What a listing comes to, held against what is approved."""

    in_force: PinnedListing
    """What the gateway goes on with. Nothing is in it that nobody approved: of a tool that waits only the name."""
    blocked: Mapping[str, str]
    """Tools that may not be called nor listed, and why. Each of them is in `in_force`."""
    waiting: Mapping[str, tuple[Difference, ...]]
    """Of each subject what a person has to decide."""
    to_keep: PinnedListing | None
    """What is approved from now on and has to be stored; `None`: nothing new."""


def judge(
    approved: PinnedListing | None,
    listed: PinnedListing,
    *,
    manual: bool,
    trusted: bool,
    findings: Mapping[str, Sequence[ScanFinding]],
    server: str = "SERVER",
) -> JudgedListing:
    """`findings`: of each subject what the scan says of its text as it is listed now. `server` is for the sentences."""
    raise NotImplementedError


def approve(approved: PinnedListing | None, listed: PinnedListing, subjects: Iterable[str]) -> PinnedListing:
    """With these subjects as they are listed now. One that is not listed any more loses its pin."""
    raise NotImplementedError


def reject(approved: PinnedListing | None, listed: PinnedListing, subjects: Iterable[str]) -> PinnedListing:
    """What was approved stays, and these subjects, as they are listed now, are not asked about again."""
    raise NotImplementedError
