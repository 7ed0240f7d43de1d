"""Tokens of an identity provider: verified once, and known by their digest until they end (SEC-2).

A call with a token that is known costs a lookup. One that is not known is checked in this order, and the first that is
wrong answers: shape and size, algorithm, issuer, audience, times, key, signature, and then what its claims are good
for. What costs something, or asks somebody, comes last: a token that is not for us has no keys fetched.

A signature takes 0.02 to 1.5 ms to check (RSA with 2048 bits the least, P-521 the most), less than a request itself
takes, and holds the interpreter's lock meanwhile; so it is checked where it is, and not in a thread.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Access, Scope, ScopesFor
from mcpproxy_py.core.values import RANK, Operation
from mcpproxy_py.serve.http.identity.claims import ClaimRules, Grant, ProfileScope
from mcpproxy_py.serve.http.identity.keys import SigningKey, SigningKeys
from mcpproxy_py.serve.http.identity.parsing import BadToken, algorithm_of, key_id_of, parse
from mcpproxy_py.settings.access.auth import JwtAuth

MOST_KNOWN: Final = 4096
MOST_BAD: Final = 1024
BAD_FOR: Final = 30.0
"""Seconds in which a token that was wrong is not looked at again."""


class UserAccess(Access):
    """What one token gives, for as long as it is good."""

    __slots__ = ("_clock", "_grant", "ends", "thumbprint")

    def __init__(self, grant: Grant, thumbprint: str, scopes_for: ScopesFor, clock: Callable[[], float]) -> None:
        super().__init__(grant.principal, self._in_scope, scopes_for)
        self.ends = grant.ends
        self.thumbprint = thumbprint
        """Of the key that signed it."""
        self._grant = grant
        self._clock = clock

    def _in_scope(self) -> Scope | None:
        """A call that waited until the token ended is not sent any more."""
        return self._grant.scope() if self._clock() < self.ends else NOTHING_IN_SCOPE


class IdentityTokens:
    """Those of one provider."""

    def __init__(
        self, settings: JwtAuth, profile_scope: ProfileScope, clock: Callable[[], float] = time.time,
        on_end: Callable[[UserAccess], None] = lambda access: None,
    ) -> None:  # fmt: skip
        """`on_end` is told of tokens in use whose key is taken back."""
        self.settings = settings
        self.keys = SigningKeys(settings, self._keys_are)
        self._rules = ClaimRules(settings, profile_scope)
        self._algorithms = frozenset[str](settings.algorithms)
        self._clock = clock
        self._on_end = on_end
        self._known: OrderedDict[bytes, UserAccess] = OrderedDict()
        self._bad: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    def find(self, token: str) -> UserAccess | None:
        """A token that was verified before and is still good."""
        digest = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        access = self._known.get(digest)
        if access is not None and self._clock() >= access.ends:
            del self._known[digest]
            return None
        return access

    def seconds_left(self, access: UserAccess) -> float:
        return access.ends - self._clock()

    async def verified(self, token: str) -> UserAccess:
        """Raises `BadToken`, `Lacking` and `KeysUnavailable`."""
        now = self._clock()
        digest = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        if (bad := self._bad.get(digest)) is not None and now - bad[0] < BAD_FOR:
            raise BadToken(bad[1])
        try:
            access = await self._checked(token, now)
        except BadToken as error:
            self._bad[digest] = now, str(error)
            if len(self._bad) > MOST_BAD:
                self._bad.popitem(last=False)
            raise
        self._bad.pop(digest, None)
        self._known[digest] = access
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return access

    async def _checked(self, token: str, now: float) -> UserAccess:
        parsed = parse(token)
        algorithm = algorithm_of(parsed.header, self._algorithms)
        key_id = key_id_of(parsed.header)
        self._rules.check_origin(parsed.claims)
        self._rules.check_times(parsed.claims, now)
        key = await self.keys.find(key_id, algorithm)
        if key is None:
            raise BadToken("the token is signed with a key (kid) that the provider does not have")
        self._check_signature(token, key, algorithm)
        ends = self._rules.check_times(parsed.claims, self._clock())  # the key may have been long in coming
        grant = self._rules.grant(parsed.claims, ends)
        return UserAccess(grant, key.thumbprint, partial(self.scopes_for, grant.scopes), self._clock)

    def _check_signature(self, token: str, key: SigningKey, algorithm: str) -> None:
        import jwt

        try:
            jwt.PyJWS().decode(token, key.public, algorithms=[algorithm])
        except (jwt.exceptions.PyJWTError, ValueError, TypeError):
            raise BadToken("the signature of the token is wrong") from None

    def _keys_are(self, thumbprints: frozenset[str]) -> None:
        """What a key signed that the provider has taken back is not believed any more, also where it is in use."""
        for digest, access in list(self._known.items()):
            if access.thumbprint not in thumbprints:
                access.ends = 0.0
                del self._known[digest]
                self._on_end(access)
        self._bad.clear()

    # What a client has to ask its authorization server for.

    def scopes_for(self, has: frozenset[str], operation: Operation) -> str:
        """For calls of this risk, with those that the token has: of the scopes that allow it, the one that allows least
        beyond it."""
        required, operations = self.settings.required_scopes, self.settings.scopes_to_ask_for
        ceilings = {each: RANK[self.settings.ceiling_of(each)] for each in operations}
        enough = [each for each in operations if ceilings[each] >= RANK[operation]]
        cheapest = sorted(enough, key=ceilings.__getitem__)[:1]
        return " ".join(dict.fromkeys([*required, *(each for each in operations if each in has), *cheapest]))
