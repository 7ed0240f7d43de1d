"""What is to be added to a file, and what it takes to undo that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcpproxy_py.errors import Code, GatewayError


class EditRefused(GatewayError):
    """The file is understood, and still cannot be edited safely. Nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.CONFLICT, message)


def as_json_text(value: Any) -> str:
    """A value of any syntax, to be put back one day; a date becomes a text."""
    try:
        return json.dumps(value, default=str, allow_nan=False)
    except (ValueError, TypeError):
        raise EditRefused("the entry that is there holds what cannot be kept for later") from None


@dataclass(frozen=True, slots=True)
class Addition:
    """A value at a path of keys, or an item of the list there. An entry that is there already is replaced."""

    path: tuple[str, ...]
    value: Any
    is_item: bool = False


@dataclass(frozen=True, slots=True)
class Undo:
    """What was added, and what was there before."""

    path: tuple[str, ...]
    value: Any
    is_item: bool = False
    made: int = 0
    """How many keys of the path were there already; those below were made, and go when they are empty."""
    empty: str | None = None
    """The text of what it was put into, where that held nothing."""
    at_root: bool = False
    """Whether `empty` is the whole text, which had no value at all."""
    replaced: str | None = None
    """The text of the value that stood there, as JSON."""
    inserted: str | None = None
    """The text that was put in, where that alone is taken out again."""

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Undo:
        return cls(**{**said, "path": tuple(said["path"])})
