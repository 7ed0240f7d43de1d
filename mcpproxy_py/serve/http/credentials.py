"""Who comes with which credential to the surfaces of agents (SEC-2): with the one `mcp_token`, which is `agent`, or
with a token of its own."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, Protocol

from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.policy.token_terms import PREFIX

AGENT: Final = Access("agent")


class AgentTokens(Protocol):
    """What this needs of the tokens. No I/O: it is asked with each request."""

    def find(self, given: str) -> Access | None: ...

    @property
    def any(self) -> bool: ...


class AgentCredentials:
    def __init__(self, mcp_token: str | None, tokens: AgentTokens | None = None) -> None:
        self._mcp_token = hashlib.sha256(mcp_token.encode()).digest() if mcp_token else None
        self._tokens = tokens
        self.takes_others = mcp_token is not None
        """Whether what does not begin as our own tokens do may be one."""

    def find(self, bearer: str | None) -> Access | None:
        """`None` for no credential, and for one that opens nothing."""
        if bearer is None:
            return None
        if self._mcp_token is not None and _is(bearer, self._mcp_token):
            return AGENT
        return None if self._tokens is None else self._tokens.find(bearer)

    def refuses(self, bearer: str | None) -> bool:
        """Whether one that opens nothing is turned away also where none is needed. Whoever says who it is is never
        taken for somebody else; but where nobody ever made a token, something else is meant by it."""
        return bearer is not None and (bearer.startswith(PREFIX) or (self._tokens is not None and self._tokens.any))


def _is(bearer: str, digest: bytes) -> bool:
    """Constant in time, whatever the lengths."""
    return hmac.compare_digest(hashlib.sha256(bearer.encode()).digest(), digest)
