"""The identity provider whose tokens are accepted, where there is one: with it come PyJWT and the SDK, which take long
to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mcpproxy_py.core.policy.scope import Scope
from mcpproxy_py.settings.access.auth import Auth

if TYPE_CHECKING:
    from mcpproxy_py.serve.http.identity.provider import IdentityProvider


def identity_provider(settings: Auth, profile_scope: Callable[[str], Scope]) -> IdentityProvider | None:
    """`profile_scope` gives what a profile allows at the moment."""
    if settings.jwt is None:
        return None
    from mcpproxy_py.serve.http.identity.provider import IdentityProvider

    return IdentityProvider(settings, settings.jwt, profile_scope)
