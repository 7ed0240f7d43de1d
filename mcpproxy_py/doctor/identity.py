"""Whether the keys of the identity provider can be had, and check anything."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from mcpproxy_py.doctor.running import CheckResult, CheckWarning, found
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings import Settings
from mcpproxy_py.settings.access.auth import JwtAuth

SUBJECT = "identity provider"


def identity_provider(settings: Settings) -> Iterator[CheckResult]:
    """As a gateway would fetch them. Nothing where no provider is configured."""
    if (jwt := settings.auth.jwt) is not None:
        yield found(SUBJECT, lambda: _keys(jwt))


def _keys(jwt: JwtAuth) -> str:
    from mcpproxy_py.serve.http.identity.fetch import KeysUnavailable, key_set, source_of
    from mcpproxy_py.serve.http.identity.keys import KeySet

    try:
        keys = KeySet(anyio.run(key_set, jwt))
    except KeysUnavailable as problem:
        message = f"no token of {jwt.issuer} can be checked: {problem}; see auth.jwt.issuer and auth.jwt.jwks"
        raise GatewayError(Code.IDENTITY_UNAVAILABLE, message) from None
    wanted = [name for name in jwt.algorithms if any(key.fits(name) for key in keys)]
    if not wanted:
        message = f"{source_of(jwt)} has no key for {', '.join(jwt.algorithms)}; see auth.jwt.algorithms"
        raise GatewayError(Code.IDENTITY_UNAVAILABLE, message)
    count = f"{len(keys)} {'key' if len(keys) == 1 else 'keys'} of {jwt.issuer} for {', '.join(wanted)}"
    if keys.skipped:
        raise CheckWarning(f"{count}; not used: {'; '.join(keys.skipped[:5])}")
    return count
