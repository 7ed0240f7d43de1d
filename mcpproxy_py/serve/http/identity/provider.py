"""An identity provider as the guard knows it: who comes with one of its tokens, for how long, and what to tell those
who do not get in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final

from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.http.cors import WELL_KNOWN
from mcpproxy_py.serve.http.credentials import LOGIN_HINT
from mcpproxy_py.serve.http.identity.claims import Lacking, ProfileScope
from mcpproxy_py.serve.http.identity.fetch import KeysUnavailable
from mcpproxy_py.serve.http.identity.metadata import ResourceMetadata
from mcpproxy_py.serve.http.identity.parsing import BadToken, looks_like_jwt
from mcpproxy_py.serve.http.identity.tokens import IdentityTokens, UserAccess
from mcpproxy_py.serve.http.open_requests import OpenRequests
from mcpproxy_py.serve.http.request import Handler, HttpRequest, RequestHead
from mcpproxy_py.settings.access.auth import Auth, JwtAuth

LOOK_AGAIN: Final = 30.0
"""Seconds after which the end of a token is compared with the clock again: that may have been set."""
RETRY: Final = ("retry-after", "15")


class IdentityProvider:
    def __init__(self, settings: Auth, jwt: JwtAuth, profile_scope: ProfileScope) -> None:
        self._tokens = IdentityTokens(jwt, profile_scope, on_end=self._ended)
        self._metadata = ResourceMetadata(jwt, settings.public_url)
        self._first_scopes = " ".join(jwt.first_scopes)
        self._open = OpenRequests()

    async def run(self) -> None:
        await self._tokens.keys.run()

    def is_for(self, bearer: str) -> bool:
        """Nothing is looked up, or asked of anybody, for what is no JWT."""
        return looks_like_jwt(bearer)

    def find(self, bearer: str) -> Access | None:
        """Of a token that is known."""
        return self._tokens.find(bearer)

    async def admit(self, bearer: str) -> Access:
        """Of a token that is not. Raises `GatewayError`."""
        try:
            return await self._tokens.verified(bearer)
        except BadToken as bad:
            raise GatewayError(Code.UNAUTHORIZED, f"This token is not accepted: {bad}", hint=LOGIN_HINT) from None
        except Lacking as lacking:
            message = "This token has none of the scopes that this gateway asks for"
            scopes = self._tokens.scopes_for(lacking.scopes, "read")
            raise GatewayError(Code.INSUFFICIENT_SCOPE, message, details={"scope": scopes}) from None
        except KeysUnavailable:  # the log and `mcpproxy doctor` say why
            message = "This token cannot be checked now: the keys of the identity provider are not available"
            raise GatewayError(Code.IDENTITY_UNAVAILABLE, message) from None

    def answering(self, endpoint: Handler, request: HttpRequest) -> Handler:
        """Who answers it: this endpoint, or ourselves. What only listens ends with its token."""
        access, path = request.access, request.head.path
        if path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/"):
            return self._metadata.answer
        return partial(self._held, endpoint, access) if isinstance(access, UserAccess) else endpoint

    async def _held(self, endpoint: Handler, access: UserAccess, request: HttpRequest) -> None:
        if access not in self._open:
            self._look_at_the_end_of(access)
        with self._open.held(access, request):
            await endpoint(request)

    def _look_at_the_end_of(self, access: UserAccess) -> None:
        loop = asyncio.get_running_loop()

        def look() -> None:
            if access not in self._open:
                return
            left = self._tokens.seconds_left(access)
            if left <= 0:
                self._ended(access)
            else:
                loop.call_later(min(left, LOOK_AGAIN), look)

        loop.call_soon(look)

    def _ended(self, access: UserAccess) -> None:
        self._open.end(access, listening_only=True)

    # What whoever does not get in is told.

    def headers(self, head: RequestHead, error: GatewayError) -> Iterator[tuple[str, str]]:
        """Those that go with this error, at a surface."""
        if error.code is Code.IDENTITY_UNAVAILABLE:
            yield RETRY
        elif error.code is Code.INSUFFICIENT_SCOPE:
            scopes = str(error.details.get("scope", ""))
            yield "www-authenticate", self._metadata.challenge(head, scopes, "insufficient_scope", error.message)
        elif error.code is Code.UNAUTHORIZED:
            wrong = "invalid_token" if (head.authorization or "").lower().startswith("bearer") else None
            yield "www-authenticate", self._metadata.challenge(head, self._first_scopes, wrong, error.message)
