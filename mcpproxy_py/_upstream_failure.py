"""The one exception this room raises at its callers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpproxy_py.errors import Code


class UpstreamFailure(Exception):
    """A request that got no result. `sent` is whether anything of it may have reached the upstream.

    `code` is SERVER_UNAVAILABLE, OVERLOADED, TIMEOUT or UPSTREAM_ERROR. For an error that the upstream
    answered with, `data` holds its JSON-RPC `code` and `data`.
    """

    def __init__(self, code: Code, message: str, *, data: Mapping[str, Any] | None = None, sent: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data: dict[str, Any] = dict(data or {})
        self.sent = sent


FORGOTTEN = "the server forgot this session"
MAY_HAVE_ACTED = "the call was under way, and the server may have acted"


def lost(why: str, sent: bool) -> UpstreamFailure:
    """The connection went away before the answer came."""
    outcome = MAY_HAVE_ACTED if sent else "nothing had been sent"
    return UpstreamFailure(Code.SERVER_UNAVAILABLE, f"{why}; {outcome}", sent=sent)


def bad_answer(message: str, data: Mapping[str, Any] | None = None) -> UpstreamFailure:
    """The upstream answered, but with an error or with nothing usable."""
    return UpstreamFailure(Code.UPSTREAM_ERROR, message, data=data)
