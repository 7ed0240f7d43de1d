"""Tokens of agents: each a principal with a scope of its own, which a person makes, rotates and revokes (SEC-2).

What is kept of one is a sealed record (`store/sealed_records`), and in it a digest of its secret. All of them are in
memory, so that no request waits for the database; another gateway's change is heard of and read.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
import anyio.abc

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Access, Scope
from mcpproxy_py.core.policy.token_terms import PREFIX, Rate, TokenTerms
from mcpproxy_py.core.values import Caller
from mcpproxy_py.errors import Code, GatewayError, StoreUnavailable
from mcpproxy_py.gateway.access.token_records import (
    AgentToken,
    KeptToken,
    TokenAdmission,
    TokenDeadlines,
    digest_of_secret,
)
from mcpproxy_py.store.sealed_records import (
    RecordConflict,
    RecordMemory,
    SealedRecord,
    SealedRecords,
    UnbelievedRecord,
    tells_of,
)

log = logging.getLogger(__name__)

KIND: Final = "token"
POLL: Final = 10.0
"""Seconds after which a gateway of several reads again what it should have heard of."""
TICK: Final = 0.5
"""Seconds by which a token may outlive its time on a stream that is open."""
WRITE_USES: Final = 60.0
AGAIN: Final = 1.0
MOST_TOKENS: Final = 2000
SOON: Final = 7 * 86400.0
SECRET_BYTES: Final = 32


class TokenUses(Protocol):
    async def read(self, kind: str) -> Mapping[str, float]: ...
    async def note(self, kind: str, uses: Mapping[str, float]) -> None: ...


class TokenStore(Protocol):
    """What this needs of the store room."""

    @property
    def shared(self) -> bool: ...
    def on_event(self, listener: Callable[[str, Any], None]) -> Callable[[], None]: ...
    async def sealed_records(self, kind: str) -> SealedRecords: ...
    async def sealed_record(self, kind: str, name: str) -> SealedRecord | UnbelievedRecord | None: ...
    async def put_sealed_record(
        self, kind: str, name: str, value: Any, *, expected: int | None = None, details: Mapping[str, Any] = ...
    ) -> SealedRecord: ...
    @property
    def last_uses(self) -> TokenUses: ...


class OnRecordAct(Protocol):
    """`Admin.on_record`."""

    async def __call__(
        self,
        action: str,
        subject: str | None,
        by: Caller,
        details: Mapping[str, Any],
        act: Callable[[], Awaitable[Any]],
    ) -> Any: ...


class TokenService:
    """`find` is asked with each request; the rest is for people. Raises `GatewayError` for what cannot be done."""

    def __init__(
        self,
        store: TokenStore,
        on_record: OnRecordAct,
        *,
        profile_scope: Callable[[str], Scope] = lambda name: NOTHING_IN_SCOPE,
        server_names: Callable[[], set[str]] = set[str],
        on_rates: Callable[[Mapping[str, Rate]], None] = lambda rates: None,
        on_end: Callable[[str], None] = lambda principal: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`profile_scope` gives the same object while a profile stays as it is. `on_end` is told of a principal that
        may not do anything any more; `on_rates` how often each may ask."""
        self._store = store
        self._on_record = on_record
        self._profile_scope = profile_scope
        self._server_names = server_names
        self._on_rates = on_rates
        self._on_end = on_end
        self._clock = clock
        self._deadlines = TokenDeadlines(clock)
        self._tokens: dict[str, AgentToken] = {}
        """By name."""
        self._by_digest: dict[bytes, AgentToken] = {}
        self._doubted: dict[str, UnbelievedRecord] = {}
        self._uses: Mapping[str, float] = {}
        self._written = clock()
        self._turn = asyncio.Lock()
        self._heard = asyncio.Event()

    # For each request.

    def find(self, given: str) -> Access | None:
        """Who comes with this token; `None` for one that is none, or no more. Looked up by its digest: what somebody
        could learn from how long that takes is about digests of their own guesses."""
        if not given.startswith(PREFIX):
            return None
        digest = digest_of_secret(given)
        token = self._by_digest.get(digest)
        if token is None or not token.takes(digest):
            return None
        token.used = self._clock()
        return token.access

    def admission(self, given: str) -> TokenAdmission | None:
        """Of a secret that `find` found, where it need not be looked up again until its token changes."""
        token = self._by_digest.get(digest := digest_of_secret(given))
        return None if token is None else token.admission(digest)

    @property
    def any(self) -> bool:
        """Whether somebody ever made one: then a credential that is none is refused, wherever it comes."""
        return bool(self._tokens or self._doubted)

    # In the background.

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Endless. All tokens are read when it has started; raises `StoreUnavailable` where they cannot be."""
        loop = asyncio.get_running_loop()

        def hear(kind: str, payload: Any) -> None:
            if tells_of(KIND, kind, payload):
                loop.call_soon_threadsafe(self._heard.set)

        end = self._store.on_event(hear)
        try:
            await self.reload()
            task_status.started()
            while True:
                await self._wait()
                await self._look()
        finally:
            end()

    async def _wait(self) -> None:
        """For news, and as long as nothing runs out."""
        patience = TICK if self._tokens else POLL if self._store.shared else None
        until = time.monotonic() + POLL
        while not self._heard.is_set():
            with anyio.move_on_after(patience):
                await self._heard.wait()
            self._end_expired()
            if time.monotonic() >= until:
                return

    async def _look(self) -> None:
        if self._heard.is_set() or self._store.shared:
            self._heard.clear()
            try:
                await self.reload()
            except StoreUnavailable as error:
                log.warning("cannot read the tokens of agents, and go on with those known: %s", error.message)
                self._heard.set()
                await anyio.sleep(AGAIN)
        await self._write_uses()

    async def reload(self) -> None:
        """As the database has them now."""
        async with self._turn:
            found = await self._store.sealed_records(KIND)
            self._uses = await self._store.last_uses.read(KIND)
            self._take(found)

    def _take(self, found: SealedRecords) -> None:
        tokens: dict[str, AgentToken] = {}
        for name, record in found.believed.items():
            try:
                kept = KeptToken.from_json(name, record.value)
            except (ValueError, KeyError, TypeError, AttributeError):
                log.error("the token '%s' was written by another version and cannot be read; it opens nothing", name)
                continue
            there = self._tokens.get(name)
            if there is None or there.kept.principal != kept.principal:
                there = AgentToken(kept, self._deadlines, self._profile_scope)
            there.use(kept)
            tokens[name] = there
        before, self._tokens, self._doubted = self._tokens, tokens, dict(found.unbelieved)
        for name, token in before.items():
            if tokens.get(name) is not token:
                token.revoke()
        self._by_digest = {digest: token for token in tokens.values() for digest in token.digests}
        self._on_rates({t.kept.principal: t.kept.terms.rate for t in tokens.values() if t.kept.terms.rate is not None})
        self._end_expired((*before.values(), *tokens.values()))

    def _end_expired(self, tokens: tuple[AgentToken, ...] | None = None) -> None:
        """Whatever goes on of one that may do nothing any more."""
        for token in tuple(self._tokens.values()) if tokens is None else tokens:
            if not token.ended and not token.is_alive:
                token.ended = True
                self._on_end(token.kept.principal)

    async def _write_uses(self) -> None:
        """When each was last used, now and then; nothing is decided by it."""
        now = self._clock()
        if abs(now - self._written) < WRITE_USES:
            return
        self._written = now
        fresh = {token.kept.name: token.used for token in self._tokens.values() if token.used > token.written}
        if not fresh:
            return
        try:
            await self._store.last_uses.note(KIND, fresh)
        except StoreUnavailable as error:
            log.warning("cannot write when tokens were used: %s", error.message)
            return
        for name, used in fresh.items():
            if (token := self._tokens.get(name)) is not None:
                token.written = used

    # For people.

    def list(self) -> list[dict[str, Any]]:
        return [self.show(name) for name in sorted({*self._tokens, *self._doubted})]

    def show(self, name: str) -> dict[str, Any]:
        if (doubted := self._doubted.get(name)) is not None:
            return {"name": name, "state": "not believed", "why": doubted.why}
        if (token := self._tokens.get(name)) is None:
            remedy = "See `mcpproxy token list`."
            raise GatewayError(Code.NOT_FOUND, f"There is no token '{quoted(name)}'", details={"remedy": remedy})
        return token.shown(max(token.used, self._uses.get(name, 0.0)))

    def counts(self) -> dict[str, int]:
        """For whoever looks after the gateway."""
        soon = self._clock() + SOON
        alive = [token for token in self._tokens.values() if token.is_alive]
        return {
            "active": len(alive),
            "expiring_soon": sum((t.kept.terms.expires or soon + 1) <= soon for t in alive),
            "expired": sum(token.state == "expired" for token in self._tokens.values()),
            "not_believed": len(self._doubted),
        }

    async def create(self, name: str, terms: TokenTerms, by: Caller) -> dict[str, Any]:
        """The one time that its secret is told."""
        warnings = self._warnings(terms)
        secret = new_secret()

        async def act() -> None:
            there = await self._store.sealed_record(KIND, name)
            serial, version = 1, 0
            if isinstance(there, SealedRecord):
                kept = KeptToken.from_json(name, there.value)
                if kept.revoked is None and not self._deadlines.is_over(kept.principal, kept.terms.expires):
                    remedy = f"Rotate it (`mcpproxy token rotate {name}`), or revoke it first."
                    raise GatewayError(Code.CONFLICT, f"There is a token '{name}'", details={"remedy": remedy})
                serial, version = kept.serial + 1, there.version
            elif there is not None:
                # Nobody knows how often this name was used. Each time was a version, so this is a number of none.
                serial, version = there.version + 1, there.version
            elif len(self._tokens) >= MOST_TOKENS:
                raise GatewayError(Code.CONFLICT, f"There are {MOST_TOKENS} tokens, which is as many as there can be")
            kept = KeptToken(name, serial, terms, digest_of_secret(secret), self._clock())
            await self._put(kept, version, by)

        await self._on_record("create_token", name, by, terms.as_json(), act)
        return {**self.show(name), "token": secret, "warnings": warnings}

    async def revoke(self, name: str, by: Caller) -> dict[str, Any]:
        """It opens nothing any more when this returns, here; at other gateways within a moment. Also one that is not
        believed, which is how that is settled."""
        self.show(name)

        async def act() -> None:
            there = await self._store.sealed_record(KIND, name)
            now = self._clock()
            if isinstance(there, SealedRecord):
                kept = KeptToken.from_json(name, there.value)
                if kept.revoked is None:
                    await self._put(replace(kept, revoked=now), there.version, by)
            elif there is not None:
                gone = KeptToken(name, there.version + 1, TokenTerms(), b"", now, revoked=now)
                await self._put(gone, there.version, by)

        await self._on_record("revoke_token", name, by, {}, act)
        return self.show(name)

    async def rotate(self, name: str, grace: float, expires: float | None, by: Caller) -> dict[str, Any]:
        """A new secret for the same principal, whose sessions stay. The old secret is good for `grace` seconds more."""
        self.show(name)
        secret = new_secret()

        async def act() -> None:
            there = await self._store.sealed_record(KIND, name)
            if not isinstance(there, SealedRecord):
                raise GatewayError(Code.CONFLICT, f"The token '{name}' is not believed: revoke it and make a new one")
            kept = KeptToken.from_json(name, there.value)
            if kept.revoked is not None or self._deadlines.is_over(kept.principal, kept.terms.expires):
                remedy = f"Make a new one: `mcpproxy token create {name}`."
                raise GatewayError(Code.CONFLICT, f"The token '{name}' has ended", details={"remedy": remedy})
            await self._put(kept.rotated(digest_of_secret(secret), self._clock(), grace, expires), there.version, by)

        await self._on_record("rotate_token", name, by, {"grace_seconds": grace}, act)
        return {**self.show(name), "token": secret, "warnings": []}

    async def _put(self, kept: KeptToken, version: int, by: Caller) -> None:
        details = {"principal": kept.principal, "by": by.principal, "source": by.source}
        try:
            await self._store.put_sealed_record(KIND, kept.name, kept.as_json(), expected=version, details=details)
        except RecordConflict:
            raise GatewayError(
                Code.CONFLICT, f"The token '{kept.name}' was changed meanwhile; look at it, then try again"
            ) from None
        except StoreUnavailable as error:
            raise GatewayError(Code.STORE_UNAVAILABLE, error.message) from None
        await self.reload()

    def _warnings(self, terms: TokenTerms) -> list[str]:
        if terms.profile is not None and self._profile_scope(terms.profile) is NOTHING_IN_SCOPE:
            raise GatewayError(Code.BAD_REQUEST, f"There is no profile '{terms.profile}'")
        known = self._server_names()
        return [f"There is no server '{name}' now" for name in terms.servers if name not in known]


def may_have_tokens(data_dir: Path, *, shared: bool) -> bool:
    """As far as can be told without the database: whether this gateway ever saw one, or others may have made some."""
    return shared or bool(RecordMemory(data_dir).known(KIND))


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)
