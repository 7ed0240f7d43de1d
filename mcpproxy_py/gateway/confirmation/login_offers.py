"""A person at the client of a call is offered the login that its server needs, or one with a permission more for this
call, and the call goes on after it (UP-9).

Offered to a client that opens addresses (elicitation with `url`) and is on this machine, because that is where the
browser brings the answer. What a login is good for is decided as always: by the ladder, when the call goes on. All who
wait for one server wait for the same login; who declined is left alone for a while, and so is a server at which it
did not work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from mcpproxy_py.core import json_values
from mcpproxy_py.core.oauth.addresses import origin
from mcpproxy_py.core.policy.confirmation import METHOD
from mcpproxy_py.core.protocol.client_channel import ClientChannel
from mcpproxy_py.core.values import Caller, Decision, Refusal, Snapshot
from mcpproxy_py.errors import Code, GatewayError, RpcError, UpstreamFailure
from mcpproxy_py.gateway.recorder import Call
from mcpproxy_py.gateway.shares import Share
from mcpproxy_py.gateway.upstreams import Upstreams, decided_now
from mcpproxy_py.upstream.oauth.auth import MoreScopeRequired

CONNECTED: Final = "connected"
"""The rung that looks at the connection."""
COMPLETE: Final = "notifications/elicitation/complete"
LONGEST_SCOPE: Final = 200
LEFT_ALONE: Final = 60.0
"""Seconds without another offer, to a principal that did not take one, and at a server where it did not work."""
MOST_LEFT_ALONE: Final = 1000
LOOK: Final = 0.5
"""Seconds between two looks whether there is still something to wait for."""
SOON: Final = 0.05
SETTLES: Final = 5.0
"""Seconds after a login in which its server begins to be connected."""
_NO: Final[Mapping[str, str]] = {"decline": "the person declined", "cancel": "the person put it away"}


class LoginAddress(Protocol):
    """A login that waits for a browser."""

    done: asyncio.Event
    error: str | None


class LoginPages(Protocol):
    """What this needs of the upstream room; see `upstream.oauth.logins`."""

    async def joined(self, name: str) -> tuple[LoginAddress, str]: ...
    def attempt_at(self, name: str) -> LoginAddress | None: ...
    def lacks(self, name: str, scope: str) -> bool: ...


class OfferEnded(GatewayError):
    """Nobody logged in, and this is what may be said of it to whoever called."""


OnRecord = Callable[[str, str | None, Caller, Mapping[str, Any], Callable[[], Awaitable[None]]], Awaitable[None]]
"""Does something that is on record before, and its end after; see `Admin.on_record`."""

Lacks = Callable[[Decision, Snapshot], bool]
"""Whether what was decided just now still wants the login."""


async def once_connected(
    upstreams: Upstreams, call: Call, channel: ClientChannel | None, offers: LoginOffers | None
) -> None:
    """Wait, once and bounded, where the answer hangs on a connection that is under way (UP-2), or on a login."""
    await _ready(upstreams, call)
    if offers is not None and channel is not None:
        await offers.offer(call, channel)


async def _ready(upstreams: Upstreams, call: Call) -> None:
    if isinstance(call.decision, Refusal) and call.decision.awaits is not None:
        await upstreams.ready(call.decision.awaits)
        call.decision, call.snapshot = decided_now(upstreams, call.ask)


def opens_addresses(capabilities: Mapping[str, Any]) -> bool:
    declared = json_values.as_object(capabilities.get("elicitation"))
    return declared is not None and json_values.as_object(declared.get("url")) is not None


def login_at(decision: Decision, snapshot: Snapshot) -> str | None:
    """The server whose login would change this."""
    if not isinstance(decision, Refusal) or decision.rule != CONNECTED or decision.name is None:
        return None
    server = snapshot.servers.get(decision.name.partition(":")[0])
    return server.name if server is not None and server.state == "needs_login" else None


class LoginOffers:
    def __init__(
        self, pages: LoginPages, upstreams: Upstreams, on_record: OnRecord, questions: Share, patience: float
    ) -> None:
        self._pages = pages
        self._upstreams = upstreams
        self._on_record = on_record
        self._questions = questions
        self._patience = patience
        self._left_alone: dict[tuple[str, str], tuple[float, str]] = {}

    async def offer(self, call: Call, channel: ClientChannel) -> None:
        """Decided again after it; where nobody logged in, the refusal says so."""
        server, refused = login_at(call.decision, call.snapshot), call.decision
        if server is None or not isinstance(refused, Refusal) or not self._is_possible(call, channel):
            return
        message = f"Server '{server}' needs a login before this call can go on."
        why = await self._why_none(call, channel, server, message, lambda now, seen: login_at(now, seen) == server)
        if why is None:
            await self._goes_on(call)
            return
        call.decision = replace(refused, message=f"{refused.message}. A login was offered: {why}")
        if self._upstreams.snapshot.policy.frozen:
            call.decision = replace(call.decision, code=Code.FROZEN, rule="freeze")

    async def widened(self, call: Call, channel: ClientChannel, wants: UpstreamFailure) -> bool:
        """Whether the server, which turned the call away for a permission that its login did not give, has one by now.
        Then the call may be sent once more, which goes on record: by its answer the server says that it did not act
        (RFC 6750, 3.1), and a person has just logged in for this call. Raises `UpstreamFailure`."""
        if not isinstance(wants, MoreScopeRequired) or not self._is_possible(call, channel):
            return False
        server, scope = wants.server, wants.scope
        message = (
            f"Server '{server}' wants one more permission before this call can go on: "
            f"{json_values.quoted(scope, LONGEST_SCOPE)}."
        )

        def lacks(now: Decision, seen: Snapshot) -> bool:
            return not isinstance(now, Refusal) and self._pages.lacks(server, scope)

        why = await self._why_none(call, channel, server, message, lacks)
        if why is not None and not self._upstreams.snapshot.policy.frozen:
            said = f"{wants.message}. It was offered: {why}"
            raise UpstreamFailure(wants.code, said, data=wants.data, sent=wants.sent)
        return True

    def _is_possible(self, call: Call, channel: ClientChannel) -> bool:
        if not opens_addresses(channel.capabilities):
            return False
        return not (call.ask.again or call.ask.carried or not channel.local or call.snapshot.policy.frozen)

    async def _why_none(
        self, call: Call, channel: ClientChannel, server: str, message: str, lacks: Lacks
    ) -> str | None:
        """Why there is no login after the offer; `None` where there is one, or another reason to go on."""
        who = call.ask.principal
        why = self._why_not(who, server)
        if why is None and not self._questions.is_used_up(who):
            try:
                act = partial(self._offered, call, server, channel, message, lacks)
                await self._on_record("offer_login", server, channel.caller, {"call": call.id}, act)
            except OfferEnded as ended:
                why = ended.message
            except GatewayError:
                why = "it does not work just now"
                self._leave_alone("", server, why)
        return why

    async def _goes_on(self, call: Call) -> None:
        call.decision, call.snapshot = decided_now(self._upstreams, call.ask)
        await _ready(self._upstreams, call)

    # What is on record.

    async def _offered(self, call: Call, server: str, channel: ClientChannel, message: str, lacks: Lacks) -> None:
        """Over when there is a login, or another reason to decide again. Raises `GatewayError`."""
        _, address = await self._pages.joined(server)
        number = f"login-{call.id}"
        over = asyncio.ensure_future(self._over(call, server, lacks))
        asked = asyncio.ensure_future(self._asked(channel, message, address, number))
        try:
            # Whoever holds the call of a client that went away with the question lets it expire: two clocks would race.
            async with asyncio.timeout(self._patience if channel.live else None):
                await asyncio.wait((over, asked), return_when=asyncio.FIRST_COMPLETED)
            if not over.done():
                self._taken(asked, call.ask.principal, server)
                with self._questions.held(call.ask.principal):
                    async with asyncio.timeout(self._patience):
                        await asyncio.wait((over,))
            over.result()
        except TimeoutError:
            raise OfferEnded(Code.TIMEOUT, f"nobody logged in within {self._patience:g} s") from None
        except RpcError as error:
            raise OfferEnded(Code.OVERLOADED, error.message) from None
        finally:
            for task in (over, asked):
                task.cancel()
            # Not `gather`, which would lose why this call is cancelled in this moment: the refusal that it ends with.
            await asyncio.wait((over, asked))
            for task in (over, asked):
                if not task.cancelled():
                    task.exception()
        if channel.live:
            channel.notify(COMPLETE, {"elicitationId": number})

    async def _asked(self, channel: ClientChannel, message: str, address: str, number: str) -> dict[str, Any]:
        where = (
            f"The page is at {origin(address)}. "
            "All who call this server through mcpproxy use the account that you log in with."
        )
        params = {"mode": "url", "message": f"{message} {where}", "url": address}
        return await channel.request(METHOD, {**params, "elicitationId": number} if channel.live else params)

    def _taken(self, asked: asyncio.Task[dict[str, Any]], who: str, server: str) -> None:
        """The client opened the address, as far as it says. Raises `OfferEnded`."""
        try:
            action = asked.result().get("action")
        except RpcError:
            why = "the client answered with an error"
        else:
            if action == "accept":
                return
            why = _NO.get(action, "the client gave no answer to it") if isinstance(action, str) else _NO["cancel"]
        self._leave_alone(who, server, why)
        raise OfferEnded(Code.NOT_CONFIRMED, why)

    async def _over(self, call: Call, server: str, lacks: Lacks) -> None:
        """Until nothing is lacking. Raises `GatewayError` where no login comes any more."""
        until = None
        while True:
            decision, snapshot = decided_now(self._upstreams, call.ask)
            if snapshot.policy.frozen:
                raise OfferEnded(Code.FROZEN, "this gateway was frozen meanwhile")
            if not lacks(decision, snapshot) or (until is not None and time.monotonic() > until):
                return
            attempt = self._pages.attempt_at(server)
            if attempt is None:
                await asyncio.sleep(LOOK)
            elif not attempt.done.is_set():
                until = None
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await attempt.done.wait()
            elif attempt.error is not None and self._pages.attempt_at(server) is attempt:
                raise GatewayError(Code.SERVER_UNAVAILABLE, f"The login at {server} did not work: {attempt.error}")
            else:
                until = time.monotonic() + SETTLES if until is None else until
                await asyncio.sleep(SOON)

    # Who is left alone.

    def _leave_alone(self, who: str, server: str, why: str) -> None:
        now = time.monotonic()
        if len(self._left_alone) >= MOST_LEFT_ALONE:
            self._left_alone = {key: kept for key, kept in self._left_alone.items() if kept[0] > now}
        if len(self._left_alone) < MOST_LEFT_ALONE:
            self._left_alone[who, server] = now + LEFT_ALONE, why

    def _why_not(self, who: str, server: str) -> str | None:
        now = time.monotonic()
        for key in ((who, server), ("", server)):
            until, why = self._left_alone.get(key, (0.0, ""))
            if until > now:
                return f"{why}, and it is not offered again for {round(until - now)} s"
        return None
