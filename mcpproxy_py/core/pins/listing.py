"""What a server lists, its digest, and its stored form (SEC-3).

Subjects are what a person decides about: `tool:NAME`, `prompt:NAME`, `instructions`, and `server` for the rest of what
a server says about itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.pins.canonical import digest
from mcpproxy_py.core.pins.parts import pinned_part
from mcpproxy_py.core.policy.tool_names import name_problem

VERSION: Final = 1
"""Of the stored form. What counts as pinned is a part of it: digests that were kept would mean something else."""
INSTRUCTIONS: Final = "instructions"
SERVER: Final = "server"
TOOL: Final = "tool:"
PROMPT: Final = "prompt:"
WireObjects = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class PinnedListing:
    """What a server lists: as it was approved, or as it lists it now. Of the listed tools and prompts the wire objects
    may be whole; what is not pinned of them is not compared, not in the digest and not stored."""

    tools: WireObjects = field(default_factory=dict[str, Mapping[str, Any]])
    instructions: str | None = None
    prompts: WireObjects = field(default_factory=dict[str, Mapping[str, Any]])
    rejected: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of subjects that a person said no to, the digest of what was refused."""
    about: Mapping[str, Any] | None = None
    """What else the server says about itself (`parts.about_server`); `None` where it was not asked."""
    _digests: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False, compare=False)
    """Found out once for each subject: an approved listing is compared again and again."""

    def subjects(self) -> Iterator[str]:
        if self.instructions is not None:
            yield INSTRUCTIONS
        if self.about is not None:
            yield SERVER
        yield from (f"{TOOL}{name}" for name in self.tools)
        yield from (f"{PROMPT}{name}" for name in self.prompts)

    def digest_of(self, subject: str) -> str | None:
        """Of `tool:NAME`, `prompt:NAME`, `instructions` or `server`; `None` where there is no such thing."""
        if (known := self._digests.get(subject)) is not None:
            return known
        part = self._part(subject)
        if part is None:
            return None
        found = self._digests[subject] = digest(part)
        return found

    def _part(self, subject: str) -> Any:
        if subject == INSTRUCTIONS:
            return self.instructions
        if subject == SERVER:
            return self.about
        kind, _, name = subject.partition(":")
        wire = {"tool": self.tools, "prompt": self.prompts}.get(kind, {}).get(name)
        return None if wire is None else pinned_part(wire)

    def digest(self) -> str:
        """Of all that is pinned. The order of the list does not matter, nor what was rejected."""
        whole = sha256()
        for subject in sorted(self.subjects()):
            whole.update(f"{digest(subject)}{self.digest_of(subject)}".encode("ascii"))
        return whole.hexdigest()

    def as_json(self) -> dict[str, Any]:
        """To be stored: with a version number, and only what is pinned."""
        return {
            "version": VERSION,
            "tools": [pinned_part(wire) for wire in self.tools.values()],
            "instructions": self.instructions,
            "prompts": [pinned_part(wire) for wire in self.prompts.values()],
            "rejected": dict(self.rejected),
            "server": self.about,
        }


def listing_of(
    tools: Iterable[Mapping[str, Any]],
    instructions: str | None = None,
    prompts: Iterable[Mapping[str, Any]] = (),
    about: Mapping[str, Any] | None = None,
) -> PinnedListing:
    """From what came over the wire. Entries that are no tools are left out, and of two with one name the first counts,
    as for the gateway."""
    return PinnedListing(_by_name(tools, is_tool), instructions or None, _by_name(prompts, is_prompt), about=about)


def _by_name(wires: Iterable[Mapping[str, Any]], fits: Callable[[Mapping[str, Any]], bool]) -> WireObjects:
    found: dict[str, Mapping[str, Any]] = {}
    for wire in wires:
        if fits(wire):
            found.setdefault(wire["name"], wire)
    return found


def is_tool(wire: object) -> bool:
    """Whether the gateway takes this entry of a list for a tool."""
    said = json_values.as_object(wire)
    if said is None or not isinstance(said.get("inputSchema"), dict):
        return False
    name = said.get("name")
    return isinstance(name, str) and name_problem(name) is None


def is_prompt(wire: object) -> bool:
    """Whether an entry is a prompt with a name that can be shown, as a tool's has to be."""
    said = json_values.as_object(wire)
    name = None if said is None else said.get("name")
    return isinstance(name, str) and name_problem(name) is None
