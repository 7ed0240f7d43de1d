"""Who comes with which credential to the surfaces of agents (SEC-2): with the one `mcp_token`, which is `agent`, or
with a token of its own, or of the identity provider."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, Protocol

from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.policy.token_terms import PREFIX

if TYPE_CHECKING:
    from mcpproxy_py.serve.http.identity.provider import IdentityProvider

AGENT: Final = Access("agent")
LOGIN_HINT: Final = (
    "Connect with a client that supports MCP authorization: it opens the login page of the identity provider. Other "
    "clients send an agent token as Authorization: Bearer."
)
"""For people without a token that gives access, where an identity provider is configured."""


class Admission(Protocol):
    """Of a credential that was found to open something: whether it still does, without another look at it."""

    @property
    def access(self) -> Access: ...
    def holds(self) -> bool: ...


class AgentTokens(Protocol):
    """What this needs of the tokens. No I/O: it is asked with each request."""

    def find(self, given: str) -> Access | None: ...
    def admission(self, given: str) -> Admission | None: ...

    @property
    def any(self) -> bool: ...


class AgentCredentials:
    def __init__(
        self, mcp_token: str | None, tokens: AgentTokens | None = None, identity: IdentityProvider | None = None
    ) -> None:
        self._mcp_token = hashlib.sha256(mcp_token.encode()).digest() if mcp_token else None
        self._tokens = tokens
        self._identity = identity
        self.takes_others = mcp_token is not None or identity is not None
        """Whether what does not begin as our own tokens do may be one."""

    def find(self, bearer: str | None) -> Access | None:
        """`None` for no credential, and for one that opens nothing."""
        if bearer is None:
            return None
        if self._mcp_token is not None and _is(bearer, self._mcp_token):
            return AGENT
        if self._identity is not None and self._identity.is_for(bearer):
            return self._identity.find(bearer)
        return None if self._tokens is None else self._tokens.find(bearer)

    def admission(self, bearer: str, found: Access) -> Admission | None:
        """For one that `find` found this for, where one of our own tokens is it."""
        if self._tokens is None or not bearer.startswith(PREFIX):
            return None
        admission = self._tokens.admission(bearer)
        return None if admission is None or admission.access is not found else admission

    def to_verify(self, bearer: str | None) -> Awaitable[Access] | None:
        """For a token of the identity provider that came for the first time, which may take a while: what to wait for.
        Raises `GatewayError` then for one that opens nothing."""
        if bearer is None or self._identity is None or not self._identity.is_for(bearer):
            return None
        return self._identity.admit(bearer)

    def refuses(self, bearer: str | None) -> bool:
        """Whether one that opens nothing is turned away also where none is needed. Whoever says who it is is never
        taken for somebody else; but where nobody ever made a token, something else is meant by it."""
        return bearer is not None and (bearer.startswith(PREFIX) or (self._tokens is not None and self._tokens.any))


def _is(bearer: str, digest: bytes) -> bool:
    """Constant in time, whatever the lengths."""
    return hmac.compare_digest(hashlib.sha256(bearer.encode()).digest(), digest)
