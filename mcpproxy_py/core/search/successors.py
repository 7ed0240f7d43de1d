"""Which tools say that they are deprecated, and what to use in their place (FIND-3).

A tool's successor is one of the same server that its text names behind words like "use" or "replaced by". So a server
can put its own tools behind others of its own, and nobody else's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from mcpproxy_py.core.values import Tool

READ: Final = 2_000
"""Characters of a description."""
NAMED: Final = 8
_DEPRECATED: Final = re.compile(
    r"\b(?:deprecated|obsolete|superseded|replaced by|no longer (?:maintained|supported))\b", re.I
)
_INSTEAD: Final = re.compile(
    r"\b(?:use|using|prefer|see|call|try|switch to|migrate to|(?:replaced|superseded) (?:by|with)|in favou?r of)"
    r"(?: the)?(?: new| newer)?(?: tool)?[\s:]+[`'\"*]{0,3}([A-Za-z0-9_.:/-]{2,160})",
    re.I,
)


def successors(tools: Sequence[Tool]) -> Mapping[int, tuple[int, ...]]:
    """By the number of the tool that is deprecated."""
    found: dict[int, tuple[int, ...]] = {}
    numbers: dict[str, int] = {}
    for number, tool in enumerate(tools):
        text = _said(tool)
        if text and _DEPRECATED.search(text):
            numbers = numbers or {other.name: at for at, other in enumerate(tools)}
            known = (numbers.get(name) for name in _named(text))
            if there := tuple(dict.fromkeys(at for at in known if at is not None and at != number)):
                found[number] = there
    return found


def _said(tool: Tool) -> str:
    about = tool.wire.get("description")
    return about[:READ] if isinstance(about, str) else ""


def _named(text: str) -> Iterator[str]:
    for match in islice(_INSTEAD.finditer(text), NAMED):
        name = match.group(1).rstrip(".:/-")
        yield name
        if ":" in name:
            yield name.rpartition(":")[2]
