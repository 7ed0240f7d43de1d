"""How long a result may be, by server and by tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mcpproxy_py.core.policy.tool_names import NamePattern, normal_form

LEAST: Final = 1000
"""Tokens. In less there is no room for what is cut and for how to read on."""
NO_LIMIT: Final = 0


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """In tokens; `NO_LIMIT` is none."""

    of_all: int = 20_000
    by_server: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """By name or glob of a tool; `*` for all others."""
    floor: float = field(init=False)
    """Bytes of a result that surely is within all of them: a token has one at least."""

    def __post_init__(self) -> None:
        all_limits = (self.of_all, *(limit for each in self.by_server.values() for limit in each.values()))
        object.__setattr__(self, "floor", min((limit for limit in all_limits if limit), default=float("inf")))

    @property
    def any(self) -> bool:
        """Whether any result is cut."""
        return self.floor != float("inf")

    def of(self, server: str, tool: str) -> int:
        """The tool's own name goes before globs, and of several globs the lowest limit holds."""
        table = self.by_server.get(server)
        if table is None:
            return self.of_all
        if tool in table:
            return table[tool]
        normal = normal_form(tool)
        named = [limit for name, limit in table.items() if name != "*" and NamePattern(name).matches(normal)]
        limits = [limit for limit in named if limit] or named
        return min(limits) if limits else table.get("*", self.of_all)
