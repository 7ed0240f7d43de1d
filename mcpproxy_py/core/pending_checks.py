"""Arguments that cannot be held against a schema on the event loop, and what was found out about them beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class ArgumentSchema(Protocol):
    """A compiled JSON Schema on arguments; `text` is what it is known by."""

    @property
    def text(self) -> bytes: ...
    @property
    def patterns(self) -> tuple[str, ...]: ...


class PendingCheck(NamedTuple):
    """Said instead of an answer: to hold these arguments against this schema could take longer than the event loop can
    wait. Whoever can do it elsewhere brings a `CheckVerdict` with the ask; until then nothing is known."""

    schema: ArgumentSchema
    args: Mapping[str, Any]


class CheckVerdict(NamedTuple):
    """What was found out about exactly these arguments and exactly this schema."""

    schema: bytes
    args: Mapping[str, Any]
    wrong: str | None
    """The first thing wrong with them; `None` where they fit."""
    cannot: str | None = None
    """Why nobody can tell."""
