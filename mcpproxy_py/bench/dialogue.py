"""Who decides which tool to call: a model behind an HTTP API, or the offline router. One shape for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

SYSTEM: Final = (
    "Answer with the tools you are given, not from memory. Call one when it helps, and stop when you can answer."
)
"""What every model is told beside the prompt. It is part of what is measured, so it is the same for all."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that a driver wants to be made. `arguments` is whatever came, which need not be an object."""

    tool: str
    arguments: Any
    id: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the API says a turn cost."""

    sent: int = 0
    received: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.sent + other.sent, self.received + other.received)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: calls to make, or none when the driver is done. `trouble` says why a turn gave nothing usable."""

    calls: tuple[Wanted, ...] = ()
    trouble: str | None = None
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that was made, with what a host passes on of its result."""

    call: Wanted
    text: str
    is_error: bool


class Dialogue(Protocol):
    """One prompt from its first turn to its last."""

    async def turn(self, answered: Sequence[Answered] = ()) -> Turn:
        """The next turn, given the results of the calls of the last one. Raises `DriverError`."""
        ...


class Driver(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_model(self) -> bool: ...

    def begin(self, prompt: str, tools: Sequence[Mapping[str, Any]]) -> Dialogue: ...


class DriverError(Exception):
    """The driver cannot go on at all: a wrong key, a model that does not exist, limits that do not lift."""
