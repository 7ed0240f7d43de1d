"""Which URIs a resource template may expand to (RFC 6570)."""

from __future__ import annotations

import re
from typing import Final

_EXPRESSION: Final = re.compile(r"\{[^{}]*\}")


def may_expand_to(template: object, uri: str) -> bool:
    """Whether the literal parts of a template stand in this URI, in their order.

    The scheme has to be literal, or a server could claim every URI. The values between the literals are not checked:
    the server that listed the template decides which of them exist. One pass, whatever the template holds.
    """
    if not isinstance(template, str) or not uri.startswith(template.partition("{")[0]):
        return False
    first, *literals = _EXPRESSION.split(template)
    if ":" not in first or not literals:
        return False
    last = literals.pop()
    at = len(first)
    for literal in literals:
        found = uri.find(literal, at)
        if found < 0:
            return False
        at = found + len(literal)
    return len(uri) - len(last) >= at and uri.endswith(last)
