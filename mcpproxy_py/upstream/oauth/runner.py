"""Runs flows: sends what they want sent, signs, waits, and asks a person where one is wanted."""

from __future__ import annotations

import asyncio
import importlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import anyio.to_thread

from mcpproxy_py.core.oauth.addresses import AddressRules
from mcpproxy_py.core.oauth.discovery import LoginContext
from mcpproxy_py.core.oauth.errors import OAuthRefused
from mcpproxy_py.core.oauth.login import LoginSecrets
from mcpproxy_py.core.oauth.options import AssertionSource, OAuthOptions
from mcpproxy_py.core.oauth.states import LoginProgress
from mcpproxy_py.core.oauth.tokens import identity_assertion
from mcpproxy_py.core.oauth.values import (
    AssertionWanted,
    Flow,
    HttpWanted,
    PauseWanted,
    PersonWanted,
    SignatureWanted,
)
from mcpproxy_py.upstream.oauth.auth import LoginStore

if TYPE_CHECKING:
    from mcpproxy_py.upstream.oauth.blocks import SdkBlocks
    from mcpproxy_py.upstream.oauth.exchange import OAuthHttp

T = TypeVar("T")
ASSERTION_LIFE: Final = 300
AskPerson = Callable[[PersonWanted], Awaitable[Mapping[str, str]]]


class PrivateKey:
    """What a machine shows who it is with (RFC 7523). Not shown itself."""

    def __init__(self, pem: str, algorithm: str) -> None:
        self._pem = pem
        self._algorithm = algorithm

    def assertion(self, wanted: SignatureWanted, now: float) -> str:
        """Raises `OAuthRefused` for a key that is none."""
        import jwt

        claims: dict[str, Any] = {
            "iss": wanted.client_id, "sub": wanted.client_id, "aud": wanted.audience, "iat": int(now),
            "exp": int(now) + ASSERTION_LIFE, "jti": str(uuid4()),
        }  # fmt: skip
        try:
            return jwt.encode(claims, self._pem, algorithm=self._algorithm)
        except Exception as error:
            raise OAuthRefused(
                f"the private key cannot be used with {self._algorithm} ({type(error).__name__})"
            ) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivateKey) and (self._pem, self._algorithm) == (other._pem, other._algorithm)

    def __hash__(self) -> int:
        return hash((self._pem, self._algorithm))


class FlowRunner:
    """One for all servers. What a flow needs besides values is imported with the first of them."""

    def __init__(self, store: LoginStore, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.clock = clock
        self._loading = asyncio.Lock()

    @cached_property
    def _http(self) -> OAuthHttp:
        from mcpproxy_py.upstream.oauth.exchange import OAuthHttp
        from mcpproxy_py.upstream.transports.http_clients import HttpClients

        return OAuthHttp(HttpClients(), self.clock)

    async def blocks(self) -> SdkBlocks:
        """The SDK, loaded beside the event loop, once."""
        async with self._loading:
            module = await anyio.to_thread.run_sync(importlib.import_module, "mcpproxy_py.upstream.oauth.blocks")
            return module.BLOCKS

    async def context(self, url: str, options: OAuthOptions, progress: LoginProgress) -> LoginContext:
        from mcpproxy_py.upstream.oauth.exchange import rules_for

        return LoginContext(url, await rules_for(url), options, await self.blocks(), progress)

    async def secrets(self) -> LoginSecrets:
        verifier, challenge = (await self.blocks()).pkce()
        return LoginSecrets(secrets.token_urlsafe(32), verifier, challenge)

    async def run(
        self, flow: Flow[T], rules: AddressRules, key: PrivateKey | None = None, ask: AskPerson | None = None,
        source: AssertionSource | None = None,
    ) -> T:  # fmt: skip
        """What the flow returns. Raises `OAuthRefused` and `OAuthUnreachable`."""
        came: Any = None
        thrown: Exception | None = None
        while True:
            try:
                wanted = flow.throw(thrown) if thrown is not None else flow.send(came)
            except StopIteration as end:
                return end.value
            came = thrown = None
            try:
                match wanted:
                    case HttpWanted():
                        came = await self._http.send(wanted, rules)
                    case SignatureWanted():
                        if key is None:
                            raise OAuthRefused("there is no private key to sign with")
                        came = key.assertion(wanted, self.clock())
                    case AssertionWanted():
                        if source is None:
                            raise OAuthRefused("there is no identity provider to ask for an assertion")
                        there = await self.context(source.issuer, OAuthOptions(expected=True), LoginProgress())
                        came = await self.run(identity_assertion(there, source, wanted), there.rules)
                    case PauseWanted():
                        await anyio.sleep(wanted.seconds)
                    case PersonWanted():
                        if ask is None:
                            raise OAuthRefused("nobody is there to log in")
                        came = await ask(wanted)
            except Exception as error:
                thrown = error
