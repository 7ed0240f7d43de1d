"""A question the catalog cannot answer as it was put. Said to the agent as a tool error that it can mend."""

from __future__ import annotations

from collections.abc import Iterable

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.search.tokens import nearest


class NotAnswered(ValueError):
    """Its message says what is wrong and what to ask instead."""


def unknown(what: str, given: str, known: Iterable[str]) -> NotAnswered:
    """An unknown name: the nearest known one where there is one, and all of them."""
    names = list(known)
    near = nearest(given, names, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return NotAnswered(f"Unknown {what} '{quoted(given)}'.{hint} Known: {', '.join(names)}")
