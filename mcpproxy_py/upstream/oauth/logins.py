"""The logins of all servers: which server has which, and what a person does about them.

What a login is made of is imported with the first server that may need one: it is a sixtieth of a start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from mcpproxy_py.core.oauth.errors import OAuthRefused, OAuthUnreachable
from mcpproxy_py.errors import Code, GatewayError, UpstreamFailure
from mcpproxy_py.upstream.oauth.auth import LoginStore
from mcpproxy_py.upstream.oauth.callback import CallbackListener
from mcpproxy_py.upstream.spec import UpstreamSpec

if TYPE_CHECKING:
    from mcpproxy_py.core.oauth.values import PersonWanted
    from mcpproxy_py.upstream.oauth.attempt import LoginAttempt
    from mcpproxy_py.upstream.oauth.runner import FlowRunner
    from mcpproxy_py.upstream.oauth.server_login import ServerLogin

EXCHANGE: Final = 45.0
"""Seconds that a page waits to say how it went."""


class ServerLogins:
    """Made once. `auth_for` is what the supervisor asks for the login of a server."""

    def __init__(self, store: LoginStore, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._listener = CallbackListener(self._answered)
        self._logins: dict[str, ServerLogin] = {}
        self._attempts: dict[str, LoginAttempt] = {}

    @cached_property
    def _runner(self) -> FlowRunner:
        from mcpproxy_py.upstream.oauth.runner import FlowRunner

        return FlowRunner(self._store, self._clock)

    def auth_for(self, spec: UpstreamSpec) -> ServerLogin | None:
        """`None` where its credentials are configured, or none are wanted."""
        options = spec.oauth
        if spec.url is None or options is None:
            self._logins.pop(spec.name, None)
            return None
        from mcpproxy_py.upstream.oauth.runner import PrivateKey
        from mcpproxy_py.upstream.oauth.server_login import ServerLogin

        key = PrivateKey(spec.private_key, spec.signing_algorithm) if spec.private_key is not None else None
        login = self._logins.get(spec.name)
        if login is None or (login.url, login.options, login.key) != (spec.url, options, key):
            login = self._logins[spec.name] = ServerLogin(spec.name, spec.url, options, self._runner, key)
        return login

    def changed_elsewhere(self, name: str | None) -> None:
        """Somebody logged in or out at another gateway; `None`: nobody knows where."""
        for login in self._logins.values():
            if name in (None, login.name):
                login.look_again()

    # What a person does. All raise `GatewayError`.

    async def begin(self, name: str, *, device: bool = False) -> dict[str, Any]:
        """What has to be opened by a browser, and where the answer is waited for."""
        login = self._by_a_person(name)
        while (before := self._attempts.pop(name, None)) is not None:
            await before.end()  # meanwhile somebody may have begun another
        attempt = self._begun(login, device=device)
        person = await self._started(name, attempt)
        return self.described(name) | _wanted(person, attempt)

    async def joined(self, name: str) -> tuple[LoginAttempt, str]:
        """The login that waits for a person now, for as many as ask, and its address; begun where there is none."""
        login, attempt = self._by_a_person(name), self._attempts.get(name)
        if attempt is None or attempt.done.is_set():
            attempt = self._begun(login, device=False)
        person = await self._started(name, attempt)
        if attempt.is_device:
            raise GatewayError(Code.CONFLICT, f"Somebody is logging in to {name} by a code already")
        if not attempt.listens:
            raise GatewayError(Code.CONFLICT, f"A browser cannot bring the answer of a login at {name} by itself")
        return attempt, person.url

    def attempt_at(self, name: str) -> LoginAttempt | None:
        """The newest one, whether it still waits or not."""
        return self._attempts.get(name)

    def lacks(self, name: str, scope: str) -> bool:
        """Whether its login does not reach so far; of a server that has gone nobody says so."""
        login = self._logins.get(name)
        return login is not None and login.lacks(scope)

    def wanted_scopes(self) -> dict[str, str]:
        """Of the servers that turned a call away for a permission which its login did not give."""
        found = ((name, login.wanted_scope) for name, login in self._logins.items())
        return {name: scope for name, scope in found if scope is not None}

    async def answer(self, name: str, address: str) -> dict[str, Any]:
        """The address that a browser was sent to, from somebody who has seen it."""
        attempt = self._attempts.get(name)
        if attempt is None or attempt.done.is_set():
            raise GatewayError(Code.CONFLICT, f"No login at {name} waits for an answer; begin one")
        try:
            attempt.answer(address)
        except OAuthRefused as error:
            raise GatewayError(Code.BAD_REQUEST, f"{error}".capitalize()) from None
        await attempt.done.wait()
        if attempt.error is not None:
            raise GatewayError(Code.SERVER_UNAVAILABLE, f"The login at {name} did not work: {attempt.error}")
        return self.described(name)

    async def log_out(self, name: str, *, revoked: bool) -> dict[str, Any]:
        login = self._login(name)
        if (attempt := self._attempts.pop(name, None)) is not None:
            await attempt.end()
        try:
            await login.log_out(revoked=revoked)
        except (OAuthRefused, OAuthUnreachable, UpstreamFailure) as error:
            raise GatewayError(Code.SERVER_UNAVAILABLE, f"{name} stays logged in: {error}") from None
        return self.described(name)

    def described(self, name: str) -> dict[str, Any]:
        """Where it is, with nothing that is secret."""
        login, attempt = self._login(name), self._attempts.get(name)
        stored = login.stored
        tokens = stored.tokens if stored is not None else None
        return {
            "server": name,
            "state": login.progress.state,
            "waiting": attempt is not None and not attempt.done.is_set(),
            "error": attempt.error if attempt is not None and attempt.error is not None else login.refusal,
            "issuer": stored.issuer if stored is not None else None,
            "scope": tokens.scope if tokens is not None else None,
            "wanted_scope": login.wanted_scope,
            "expires_at": tokens.expires_at if tokens is not None else None,
            "renews": tokens is not None and tokens.refresh is not None,
        }

    def _begun(self, login: ServerLogin, *, device: bool) -> LoginAttempt:
        from mcpproxy_py.upstream.oauth.attempt import LoginAttempt

        attempt = self._attempts[login.name] = LoginAttempt(login, self._runner, self._listener, device=device)
        return attempt

    async def _started(self, name: str, attempt: LoginAttempt) -> PersonWanted:
        try:
            return await attempt.start()
        except OAuthRefused as error:
            raise GatewayError(Code.SERVER_UNAVAILABLE, f"A login at {name} is not possible: {error}") from None

    def _by_a_person(self, name: str) -> ServerLogin:
        login = self._login(name)
        if login.options.grant == "client_credentials":
            raise GatewayError(Code.CONFLICT, f"{name} is logged in to by this machine itself; nobody has to")
        return login

    def _login(self, name: str) -> ServerLogin:
        login = self._logins.get(name)
        if login is None:
            raise GatewayError(Code.NOT_FOUND, f"There is no server '{name}' that one logs in to")
        return login

    async def _answered(self, target: str) -> tuple[bool, str]:
        """Somebody's browser is here."""
        from mcpproxy_py.core.oauth.login import answer_of

        with suppress(OAuthRefused):
            state = answer_of(target).get("state") or ""
            for attempt in self._attempts.values():
                if state and attempt.state == state:
                    return await self._taken(attempt, target)
        return False, "No login waits for this answer. Begin it again, and use the newest page."

    async def _taken(self, attempt: LoginAttempt, target: str) -> tuple[bool, str]:
        try:
            attempt.answer(target)
        except OAuthRefused as error:
            return False, f"{error}. Go back to where you began."
        try:
            async with asyncio.timeout(EXCHANGE):
                await attempt.done.wait()
        except TimeoutError:
            return False, "It takes longer than it should. Go back to where you began, which says how it went."
        if attempt.error is not None:
            return False, f"{attempt.error}. Go back to where you began."
        return True, f"mcpproxy has its login at {attempt.login.name}. You can close this page and go back."


def _wanted(person: PersonWanted, attempt: LoginAttempt) -> dict[str, Any]:
    from mcpproxy_py.upstream.oauth.attempt import LASTS

    return {
        "authorization_url": person.url,
        "redirect_uri": person.redirect_uri or None,
        "user_code": person.user_code or None,
        "verification_uri": person.verification_uri or None,
        "listens": attempt.listens,
        "lasts": min(person.lasts, LASTS),
    }
