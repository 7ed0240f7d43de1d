"""A person's yes before a call that the operator wants confirmed: in its client, or outside of it (SEC-4, SEC-10).

Nothing is sent from here. What comes after the yes is decided again, on the snapshot of that moment, by the permit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, Protocol

from mcpproxy_py.core.policy import confirmation
from mcpproxy_py.core.protocol.client_channel import ClientChannel, ReturningClient
from mcpproxy_py.core.values import Ask, Relay, Route
from mcpproxy_py.errors import RpcError, StoreUnavailable
from mcpproxy_py.gateway.confirmation.waiting_call import Ended, OpenCall, WaitingCall
from mcpproxy_py.gateway.recorder import EXPIRED, Call, Recorder
from mcpproxy_py.gateway.refusals import crowded, shutting_down, unrecordable, without_yes
from mcpproxy_py.gateway.shares import PrincipalShares
from mcpproxy_py.upstream.permit import NotPermitted

PAGE: Final = "mcpproxy/confirmation"
"""What stands on record where a method of the protocol would."""
DRAINING: Final = "the gateway is shutting down"
BEAT: Final = 5.0
"""Seconds between two signs of life to a client that waits."""
LOOK: Final = 0.1
"""Seconds between two looks for a client that has to come back."""
AWAY: Final = 60.0
"""Seconds that a client may be away for: who lost its connection is back after one."""
TURN: Final = 45.0
"""Seconds after which a modern client is sent away, to come back at once. Many give a request a minute."""
TURNS: Final = 8
"""Turns in which it should have its answer: clients follow ten at most, and the server may want some."""


class WaitingQueue(Protocol):
    """Where calls wait that are decided outside of their clients."""

    @property
    def is_full(self) -> bool: ...
    def waiting(
        self, ask: Ask, to: Route | Relay, question: str, patience: float
    ) -> AbstractAsyncContextManager[OpenCall]: ...
    def end_all(self, why: str) -> None: ...


class CallConfirmation:
    """Raises `NotPermitted` for a call to which nobody says yes."""

    def __init__(self, recorder: Recorder, shares: PrincipalShares, patience: float) -> None:
        self.queue: WaitingQueue | None = None
        """Without one, only clients can be asked."""
        self._recorder = recorder
        self._shares = shares
        self._patience = patience

    def drain(self) -> None:
        if self.queue is not None:
            self.queue.end_all(DRAINING)

    async def confirm(self, call: Call, to: Route | Relay, channel: ClientChannel) -> None:
        """What the operator wants confirmed waits for a person's yes, which is on record before anything is done."""
        if call.ask.carried and not call.ask.again:
            raise NotPermitted(without_yes(to, "answers to questions that nobody asked cannot be shown to one"))
        if self._shares.questions.is_used_up(call.ask.principal):
            raise NotPermitted(self._shares.questions.refusal(to.full_name, call.ask.principal))
        try:
            self._recorder.write_ahead(call)
            by = self._asked_where(call, to, channel)
            objection = await (self._by_page if by == "page" else self._by_client)(call, to, channel)
            if objection is not None:
                raise NotPermitted(without_yes(to, objection))
            self._recorder.confirmed(call.ask.id, PAGE if by == "page" else confirmation.METHOD)
            call.yes_by = by
        except StoreUnavailable:
            raise NotPermitted(unrecordable(to)) from None

    def _asked_where(self, call: Call, to: Route | Relay, channel: ClientChannel) -> Literal["client", "page"]:
        """REST and the command line put their own question, to whoever is there."""
        by = call.snapshot.servers[to.server].confirm_by if call.ask.surface != "rest" else "client"
        if by == "either":
            return "client" if self.queue is None or confirmation.takes_forms(channel.capabilities) else "page"
        return by

    async def _by_client(self, call: Call, to: Route | Relay, channel: ClientChannel) -> str | None:
        """Why there is no yes to this call; `None` where there is one, which is for these arguments and this once."""
        patience = self._patience
        if not confirmation.takes_forms(channel.capabilities):
            return "nobody can be asked by this client, which takes no forms (elicitation)"
        try:
            # Whoever holds the call of a client that went away with the question lets it expire: two clocks would race.
            async with asyncio.timeout(patience if channel.live else None):
                asked = await asyncio.to_thread(confirmation.question, to, self._recorder.mask)
                said = await channel.request(confirmation.METHOD, asked)
            self._recorder.answered(call, [confirmation.METHOD], said, ahead=True)
            return confirmation.objection(said)
        except RpcError as error:
            return f"asking failed: {error.message}"
        except TimeoutError:
            return self._nobody
        except asyncio.CancelledError as why:
            return self._expired(why)

    async def _by_page(self, call: Call, to: Route | Relay, channel: ClientChannel) -> str | None:
        """The same of a person elsewhere."""
        queue = self.queue
        if queue is None:
            return "nobody can be asked here but in a client"
        if queue.is_full:
            raise NotPermitted(crowded(to))
        try:
            with self._shares.questions.held(call.ask.principal):
                asked = await asyncio.to_thread(confirmation.question, to, self._recorder.mask)
                async with queue.waiting(call.ask, to, asked["message"], self._patience) as opened:
                    self._recorder.note_round(call.ask.id, "input_required", [PAGE])
                    said = await self._decided(opened, channel)
                    if isinstance(said, WaitingCall):
                        self._recorder.answered(call, [PAGE], _on_record(said), ahead=True)
        except RpcError as used_up:
            return used_up.message
        except asyncio.CancelledError as why:
            return self._expired(why)
        if isinstance(said, str):
            return said
        if isinstance(said, Ended):
            if said.why == DRAINING:
                raise NotPermitted(shutting_down(to))
            return said.why
        if said.status != "approved":
            return f"a person said no{f': {said.notes}' if said.notes else ''}"
        call.confirmed = _on_record(said)
        return None

    async def _decided(self, opened: OpenCall, channel: ClientChannel) -> WaitingCall | Ended | str:
        """What was decided, once the client is there to hear what comes of it; or why nothing will be."""
        loop, patience = asyncio.get_running_loop(), self._patience
        returning = channel if isinstance(channel, ReturningClient) else None
        begun = seen = turned = loop.time()
        turn, beat = min(TURN, patience / TURNS), 0
        while True:
            self._sign_of_life(opened, channel, beat)
            now, beat = loop.time(), beat + 1
            is_there = returning is None or returning.is_there
            seen = now if is_there else seen
            if opened.decision.done() and (is_there or isinstance(said := opened.decision.result(), Ended)
                                           or said.status != "approved"):  # fmt: skip
                return opened.take()
            if now - seen >= min(AWAY, patience):
                return "its client has gone"
            if now - begun >= patience:
                opened.closes_as = "expired"
                return self._nobody
            if returning is not None and is_there and now - turned >= turn:
                turned = now
                returning.come_back()
            pause = LOOK if not is_there else min(BEAT, turn, begun + patience - now)
            if opened.decision.done():
                await asyncio.sleep(LOOK)
            else:
                await asyncio.wait([opened.decision], timeout=max(pause, 0.001))

    def _sign_of_life(self, opened: OpenCall, channel: ClientChannel, beat: int) -> None:
        """Far below one, so that what the server says itself later is more."""
        if channel.wants_progress:
            message = f"Waits for a person's yes: mcpproxy approvals show {opened.call.id}"
            channel.notify("notifications/progress", {"progress": (beat + 1) / 1e6, "message": message})

    @property
    def _nobody(self) -> str:
        return f"nobody answered within {self._patience:g} s"

    def _expired(self, why: asyncio.CancelledError) -> str:
        """Time ran out where somebody else holds the clock; every other cancellation goes on."""
        if EXPIRED not in why.args or (task := asyncio.current_task()) is None:
            raise why
        task.uncancel()
        return self._nobody


def _on_record(said: WaitingCall) -> Mapping[str, Any]:
    """Who, and how."""
    action = "accept" if said.status == "approved" else "decline"
    return {"action": action, "confirmation_id": said.id, "by": dict(said.decided_by or {}), "notes": said.notes}
