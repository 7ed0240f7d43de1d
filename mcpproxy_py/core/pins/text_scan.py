"""What the texts of a server hide: a finding for each thing in them that no honest description needs.

Everything an agent is shown is read: a tool's name, title and description, every text of its schemas, `_meta`, a
server's instructions, prompts. A finding says where and what. It is a hint for a person, and only hidden characters
block: what a person cannot see, nobody can approve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

FindingKind = Literal[
    "instructs", "names_other_tools", "hides_characters", "encoded", "asks_for_secrets", "shadows"
]  # fmt: skip
BLOCKING: Final[frozenset[FindingKind]] = frozenset(("hides_characters",))


class Finding(NamedTuple):
    kind: FindingKind
    where: str
    """`description`, `inputSchema.properties.path.description`, `instructions`."""
    excerpt: str
    """Printable ASCII and letters, at most 120 characters: what is invisible stands as its code point."""
    text: str
    """A plain sentence."""

    @property
    def blocks(self) -> bool:
        return self.kind in BLOCKING


class OtherTools:
    """The tools of the other servers, by name. Built once for a server's listing; looking one up is a dict's lookup."""

    def __init__(self, listings: Mapping[str, Iterable[Mapping[str, Any]]], own: Iterable[str] = ()) -> None:
        """`listings`: of each other server its tools as on the wire. `own`: names of the tools of the server that is
        scanned, which may speak of its own tools as it likes."""


NO_OTHERS: Final = OtherTools({})


def scan_text(text: str, where: str, others: OtherTools = NO_OTHERS) -> tuple[Finding, ...]:
    """Of one text, as a server's instructions are."""
    return ()


def scan_tool(wire: Mapping[str, Any], others: OtherTools = NO_OTHERS) -> tuple[Finding, ...]:
    return ()


def scan_prompt(wire: Mapping[str, Any], others: OtherTools = NO_OTHERS) -> tuple[Finding, ...]:
    return ()


def scan_listing(
    tools: Mapping[str, Mapping[str, Any]],
    instructions: str | None,
    prompts: Mapping[str, Mapping[str, Any]],
    others: OtherTools = NO_OTHERS,
) -> Mapping[str, tuple[Finding, ...]]:
    """By subject (`tool:NAME`, `prompt:NAME`, `instructions`), those that have any."""
    return {}
