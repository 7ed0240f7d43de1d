"""The login of one server: its token on each request, renewed before it runs out, once for all who need it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from math import inf
from typing import Any, Final, TypeVar

from mcpproxy_py.core.oauth.discovery import Challenge, discover, read_challenge, union
from mcpproxy_py.core.oauth.errors import NoLoginOffered, OAuthRefused, OAuthUnreachable
from mcpproxy_py.core.oauth.login import union_of
from mcpproxy_py.core.oauth.options import OAuthOptions
from mcpproxy_py.core.oauth.states import MOVES, LoginProgress, OAuthEvent
from mcpproxy_py.core.oauth.tokens import LOST_CLIENT, LOST_GRANT, machine_login, refresh, revoke
from mcpproxy_py.core.oauth.values import HttpWanted, StoredLogin, stored_login
from mcpproxy_py.core.values import NOTHING
from mcpproxy_py.errors import Code, StoreUnavailable, UpstreamFailure
from mcpproxy_py.upstream.oauth.auth import LoginRequired, MoreScopeRequired
from mcpproxy_py.upstream.oauth.core_files import write_no_core_files
from mcpproxy_py.upstream.oauth.runner import FlowRunner, PrivateKey

log = logging.getLogger(__name__)
T = TypeVar("T")

LEASE: Final = 60.0
"""Longer than one request can take; whoever dies meanwhile leaves it to the next after that."""
LOOK_AGAIN: Final = 0.1
"""While somebody else renews it."""
POLL: Final = 5.0
"""While a person is waited for, who may have logged in at another gateway of this database."""
PAUSE: Final = 5.0
"""Until the next try, where the authorization server did not answer and the token is still good."""
NEEDS: Final = "it needs a login"
PING: Final = {"jsonrpc": "2.0", "id": 0, "method": "ping"}


class ServerLogin:
    """As `auth.ServerAuth` says. What is kept is used for this address and no other."""

    def __init__(
        self, name: str, url: str, options: OAuthOptions, runner: FlowRunner, key: PrivateKey | None = None
    ) -> None:
        self.name, self.url, self.options, self.key = name, url, options, key
        self.headers: Mapping[str, str] = NOTHING
        self.until = 0.0
        self.version = 0
        self.progress = LoginProgress()
        self.stored: StoredLogin | None = None
        self.why: str | None = None
        """Why a person is needed."""
        self.refusal: str | None = None
        """What went wrong last."""
        self.challenge: Challenge | None = None
        self._runner = runner
        self._row = 0
        self._asked_at = -1
        self._loaded = False
        self._offers = options.expected
        self._renewing: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._needed, self._given = asyncio.Event(), asyncio.Event()

    @property
    def _is_machine(self) -> bool:
        return self.options.grant != "authorization_code"

    # As a `ServerAuth`.

    async def prepare(self) -> None:
        if not self._loaded:
            await self._load()
        if self.why is not None:
            raise LoginRequired(self.name, self.why)
        tokens, now = self.stored.tokens if self.stored is not None else None, self._runner.clock()
        if tokens is None:
            if self._is_machine:
                await self._renewed()
        elif not tokens.fresh(now) and self._can_renew:
            if tokens.alive(now):
                self.until = min(tokens.expires_at or inf, now + PAUSE)
                self._renewal().add_done_callback(_seen)
            else:
                await self._renewed()

    async def challenged(self, status: int, header: str, version: int, again: bool) -> bool:
        challenge = read_challenge(header)
        if version != self.version and not again:
            return True
        if status == 403:
            return await self._step_up(challenge, again)
        self.challenge = challenge
        if self.why is not None:
            raise LoginRequired(self.name, self.why)
        if again:
            raise self._need("it does not accept the token that it was given")
        await self._load()
        if version != self.version:
            return True
        if self._can_renew:
            await self._renewed()
            return True
        if self.stored is None and not self._offers and not await self._probe(challenge):
            return False
        if self.stored is not None and self.stored.tokens is not None:
            await self._lose(self.stored.without_tokens())
        raise self._need(NEEDS)

    async def needed(self) -> str:
        await self._needed.wait()
        return str(LoginRequired(self.name, self.why or NEEDS))

    async def given(self) -> None:
        self._given.clear()
        while self.version == self._asked_at:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._given.wait()
                    return
            with suppress(UpstreamFailure):
                await self._load()

    # What is kept.

    def look_again(self) -> None:
        """It may be another one, or gone. One that was never used is read when it is."""
        if self._loaded:
            self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        with suppress(UpstreamFailure):
            await self._load()

    async def _load(self) -> None:
        found = await self._of_store(self._runner.store.load(self.name))
        self._loaded = True
        if found is None and self._row:
            self.stored, self._row = None, 0
        if found is not None and found[1] != self._row:
            write_no_core_files()
            data, row = found
            with suppress(ValueError):
                login = stored_login(data)
                issuer = self.options.issuer or login.issuer
                if login.server_url == self.url and login.issuer.rstrip("/") == issuer.rstrip("/"):
                    self._adopt(login, row)
        self._show()

    def _adopt(self, login: StoredLogin, row: int) -> None:
        had = self.stored.tokens if self.stored is not None else None
        self.stored, self._row = login, row
        if login.tokens is not None and login.tokens != had:
            if self.progress.state in ("no_token", "refused", "stepped_up", "valid"):
                self.progress.on("granted")
            self.why = self.refusal = None
            self._needed.clear()
            self._show()
            self._given.set()
        else:
            self._show()

    def _show(self) -> None:
        """What requests look at."""
        tokens = self.stored.tokens if self.stored is not None else None
        headers = {"authorization": f"Bearer {tokens.access}"} if tokens is not None and self.why is None else NOTHING
        if headers != self.headers:
            self.headers, self.version = headers, self.version + 1
        if tokens is None:
            self.until = 0.0 if self._is_machine or not self._loaded else inf
        else:
            self.until = inf if tokens.refresh_at is None or not self._can_renew else tokens.refresh_at

    async def keep(self, login: StoredLogin) -> None:
        """It is used from now on, also where it cannot be saved at once."""
        self._adopt(login, self._row)
        try:
            self._row = await self._runner.store.save(self.name, login.issuer, login.as_json())
        except StoreUnavailable as error:
            log.error("the login at %s is not saved yet: %s", self.name, error.message)
            self._saving = asyncio.ensure_future(self._save_later(login))

    async def _save_later(self, login: StoredLogin) -> None:
        while self.stored is login:
            await asyncio.sleep(PAUSE)
            with suppress(StoreUnavailable):
                self._row = await self._runner.store.save(self.name, login.issuer, login.as_json())
                return

    async def _lose(self, rest: StoredLogin | None) -> None:
        self.stored = rest
        self._show()
        with suppress(UpstreamFailure):
            if rest is None:
                await self._of_store(self._runner.store.drop(self.name))
                self._row = 0
            else:
                self._row = await self._of_store(self._runner.store.save(self.name, rest.issuer, rest.as_json()))

    async def _of_store(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except StoreUnavailable as error:
            why = f"what is kept of its login cannot be read or written: {error.message}"
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, why, sent=False) from None

    # Renewal.

    @property
    def _can_renew(self) -> bool:
        tokens = self.stored.tokens if self.stored is not None else None
        return self._is_machine or (tokens is not None and tokens.refresh is not None)

    def _renewal(self) -> asyncio.Task[None]:
        """One at a time, whoever waits for it and whoever stops waiting."""
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())
        return self._renewing

    async def _renewed(self) -> None:
        await asyncio.shield(self._renewal())

    async def _renew(self) -> None:
        if self._is_machine:
            await self._machine(self.challenge)
            return
        login, version = self.stored, self.version
        while login is not None and not await self._of_store(
            self._runner.store.claim(self.name, login.issuer, self._row, LEASE)
        ):
            await asyncio.sleep(LOOK_AGAIN)
            await self._load()
            if self.version != version:
                return  # somebody else did it
            login = self.stored
        if login is not None:
            await self._refresh(login)

    async def _refresh(self, login: StoredLogin) -> None:
        self._move("refresh")
        try:
            context = await self._runner.context(self.url, self.options, self.progress)
            fresh = await self._runner.run(refresh(context, login), context.rules, self.key)
        except OAuthRefused as error:
            self.refusal = error.message
            if error.error not in LOST_GRANT | LOST_CLIENT:
                raise await self._kept(login, error.message) from None
            log.warning("%s: %s; a person has to log in again", self.name, error.message)
            self._move("grant_lost")
            is_gone = error.error in LOST_CLIENT and login.client.origin == "registered"
            await self._lose(None if is_gone else login.without_tokens())
            raise self._need("its login is not valid any more") from None
        except OAuthUnreachable as error:
            raise await self._kept(login, str(error)) from None
        except BaseException:
            self._move("kept")
            raise
        self._move("granted")
        await self.keep(fresh)

    async def _kept(self, login: StoredLogin, why: str) -> UpstreamFailure:
        self._move("kept")
        self.refusal = why
        with suppress(StoreUnavailable):
            await self._runner.store.release(self.name, login.issuer)
        log.warning("%s: its login could not be renewed, and is kept: %s", self.name, why)
        message = f"its login cannot be renewed just now: {why}"
        return UpstreamFailure(Code.SERVER_UNAVAILABLE, message, data={"status": 401}, sent=False)

    async def _machine(self, challenge: Challenge | None) -> None:
        write_no_core_files()
        try:
            context = await self._runner.context(self.url, self.options, self.progress)
            flow = machine_login(context, challenge, self.stored)
            source = self.options.identity_provider
            await self.keep(await self._runner.run(flow, context.rules, self.key, source=source))
        except (OAuthRefused, OAuthUnreachable) as error:
            self.progress.on("refused")
            self.refusal = str(error)
            why = f"it gave this machine no token: {error}"
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, why, data={"status": 401}, sent=False) from None

    def _move(self, event: OAuthEvent) -> None:
        """What happens to the token while a person is logging in does not disturb where they are."""
        if event in MOVES[self.progress.state]:
            self.progress.on(event)

    # Where a person comes in.

    def _need(self, why: str) -> LoginRequired:
        self.why = why
        self._show()
        self._asked_at = self.version
        self._needed.set()
        return LoginRequired(self.name, why)

    async def _probe(self, challenge: Challenge) -> bool:
        """Whether there is a place to log in. Raises `UpstreamFailure` where there is one that cannot be used."""
        try:
            context = await self._runner.context(self.url, self.options, LoginProgress())
            await self._runner.run(discover(context, challenge, None), context.rules)
        except NoLoginOffered:
            return False
        except (OAuthRefused, OAuthUnreachable) as error:
            why = f"it wants a login, and there is none to be had: {error}"
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, why, data={"status": 401}, sent=False) from None
        self._offers = True
        return True

    async def _step_up(self, challenge: Challenge, again: bool) -> bool:
        if self.stored is None or self.stored.tokens is None:
            return False
        named = challenge.scope or "no scope is named"
        if again or not self.lacks(challenge.scope or ""):
            why = f"it wants more than its login gave: {named}, which was asked for already"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, why, data={"status": 403})
        if self._is_machine:
            await self._machine(challenge._replace(scope=union(union_of(self.stored), challenge.scope)))
            return True
        self.challenge, self._asked_at = challenge, self.version
        self._move("more_scope")
        raise MoreScopeRequired(self.name, named)

    def lacks(self, scope: str) -> bool:
        """Whether some of it was neither asked for nor given."""
        had = union_of(self.stored) if self.stored is not None else None
        return not set(scope.split()) <= set((had or "").split())

    @property
    def wanted_scope(self) -> str | None:
        """What the server turned a call away for, while nobody has logged in with it."""
        wanted, is_in = self.challenge, self.stored is not None and self.stored.tokens is not None
        if wanted is None or not is_in or wanted.error != "insufficient_scope" or not self.lacks(wanted.scope or ""):
            return None
        return wanted.scope

    async def ask_for_challenge(self) -> None:
        """What the server says to somebody whom it does not know, where it was not heard yet."""
        if self.challenge is None:
            context = await self._runner.context(self.url, self.options, LoginProgress())
            headers = {"accept": "application/json, text/event-stream"}
            with suppress(OAuthRefused, OAuthUnreachable):
                answer = await self._runner.run(_one(HttpWanted("POST", self.url, "the server", headers, json=PING)),
                                                context.rules)  # fmt: skip
                if answer.status == 401:
                    self.challenge = read_challenge(answer.challenge)

    async def log_out(self, *, revoked: bool) -> None:
        """Raises `OAuthRefused` and `OAuthUnreachable` where it was to be revoked and is not; it is kept then."""
        await self._load()
        if revoked and self.stored is not None:
            context = await self._runner.context(self.url, self.options, LoginProgress())
            await self._runner.run(revoke(context, self.stored), context.rules, self.key)
        await self._of_store(self._runner.store.drop(self.name))
        self.stored, self._row = None, 0
        self.progress.on("logged_out")
        self._need("somebody logged out of it")


def _one(wanted: HttpWanted) -> Any:
    return (yield wanted)


def _seen(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # whoever needs the token finds out by themselves
