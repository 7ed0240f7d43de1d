"""One thing that was looked at, and what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from mcpproxy_py.errors import GatewayError

State = Literal["ok", "warning", "problem"]
Look = Callable[[], str]
"""Says what is fine, and raises what is not."""


class Finding(NamedTuple):
    subject: str
    state: State
    says: str
    """What is so; where it is a problem, how to mend it too."""


class Doubt(Exception):
    """Nothing that keeps a gateway from working today."""


def found(subject: str, look: Look) -> Finding:
    try:
        return Finding(subject, "ok", look())
    except Doubt as doubt:
        return Finding(subject, "warning", str(doubt))
    except GatewayError as error:
        return Finding(subject, "problem", error.message)
