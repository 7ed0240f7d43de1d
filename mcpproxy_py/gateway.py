"""One call through the house: snapshot, decide, write ahead, act, record.

Every way in makes an `Ask` and comes through `Gateway.call`; there is no second path. A decision is a
value, and this is the one place that acts on it. What comes of it is closed by the `Recorder` on every path: done,
refused, failed, cancelled, timed out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from mcpproxy_py.call import EXPIRED, TIMED_OUT, Call, Reply
from mcpproxy_py.confirming import why_not
from mcpproxy_py.conversation import Conversations, Upstreams
from mcpproxy_py.core import answers, decide, record
from mcpproxy_py.core.finding import retrieve_tools
from mcpproxy_py.core.gatetools import ACKNOWLEDGEMENT
from mcpproxy_py.core.record import Outcome
from mcpproxy_py.core.redaction import Masker
from mcpproxy_py.core.rounds import asks_back, questions_of
from mcpproxy_py.core.talk import Nobody, Talk
from mcpproxy_py.core.values import (
    NOTHING,
    Ask,
    Caller,
    Client,
    Decision,
    Local,
    Refusal,
    Relay,
    Route,
    Snapshot,
    Source,
    Status,
    Surface,
)
from mcpproxy_py.errors import Code
from mcpproxy_py.recording import Record, Recorder
from mcpproxy_py.scan import MASKER
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.tally import Tally
from mcpproxy_py.upstream.failure import UpstreamFailure

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    payload_bytes: int = 65_536
    in_flight: int = 1000
    refuse_unrecorded: bool = True
    patience: float = 300
    """Seconds that a person has to say yes to a call."""


LOCAL: Final[Mapping[str, Callable[[Snapshot, Mapping[str, Any]], dict[str, Any]]]] = {
    "retrieve_tools": lambda snapshot, params: answers.structured(retrieve_tools(snapshot, params)),
    "request_capability": lambda snapshot, params: answers.text(ACKNOWLEDGEMENT),
}


class Gateway:
    """The one path from an ask to its reply. Its only state of its own is what is in flight."""

    def __init__(
        self,
        upstreams: Upstreams,
        journal: Record,
        limits: Limits,
        new_id: Callable[[float], str],
        masker: Masker = MASKER,
        tally: Tally | None = None,
    ) -> None:
        self._upstreams = upstreams
        self._limits = limits
        self._new_id = new_id
        self.recorder = Recorder(
            journal, masker, limits.payload_bytes, lambda: upstreams.snapshot.policy, tally or Tally()
        )
        self._conversations = Conversations(upstreams, self.recorder.note_round)
        self.in_flight = 0
        self._idle = asyncio.Event()
        self._draining = False

    @property
    def snapshot(self) -> Snapshot:
        return self._upstreams.snapshot

    @property
    def draining(self) -> bool:
        return self._draining

    async def drain(self) -> None:
        """Take no new calls from now on, and return when the last one in flight has its answer."""
        self._draining = True
        while self.in_flight:
            self._idle.clear()
            await self._idle.wait()

    def new_ask(
        self, tool: str, params: Any, *, source: Source, surface: Surface, principal: str, client: Client,
        session_id: str | None = None, request_id: str | None = None, server: str | None = None,
        method: str = "tools/call", meta: Mapping[str, Any] | None = None, carried: Mapping[str, Any] = NOTHING,
    ) -> Ask:  # fmt: skip
        at = time.time()
        return Ask(
            self._new_id(at), at, tool, params, source, surface, principal, client, session_id, request_id, server,
            method, meta, carried,
        )  # fmt: skip

    async def call(self, ask: Ask, talk: Talk | None = None) -> Reply:
        """Answer an ask. Without `talk` its caller cannot be asked, and hears nothing but the reply. Raises nothing but
        cancellation: every failure is a reply, and on record."""
        reply = await self._answer(ask, talk or _mute(ask))
        await self.recorder.acknowledged()
        return reply

    async def _answer(self, ask: Ask, talk: Talk) -> Reply:
        call = Call(ask, decide.decide(ask, self.snapshot))
        try:
            return await self._perform(call, talk)
        except asyncio.CancelledError as why:
            if (refusal := _no_longer_allowed(why)) is not None:
                return call.refuse(refusal)
            call.outcome = _given_up(why)
            raise
        except Exception:
            log.exception("ask %s failed inside the gateway", ask.id)
            broken = Refusal(Code.INTERNAL, "The gateway failed on this call; its log says why", "internal", "")
            return call.refuse(broken, "error")
        finally:
            self.recorder.finish(call)

    def decides(self, ask: Ask) -> Decision:
        """What would become of this ask now; nothing is done."""
        return decide.decide(ask, self.snapshot)

    async def turn_down(self, ask: Ask, refusal: Refusal) -> Reply:
        """Refuse an ask for a reason outside the decision, on record like any other."""
        reply = self._turn_down(ask, refusal)
        await self.recorder.acknowledged()
        return reply

    def _turn_down(self, ask: Ask, refusal: Refusal) -> Reply:
        call = Call(ask, refusal)
        reply = call.refuse(refusal)
        self.recorder.finish(call)
        return reply

    def unattributed(self, server: str, method: str) -> None:
        """A server asked something that belongs to no one call. It was refused; that is on record too (UP-5)."""
        ask = self.new_ask(
            method, {}, source="internal", surface="passthrough", principal="server", client=Client(server),
            server=server, method=method,
        )  # fmt: skip
        message = f"Server '{server}' asked {method[:80]}, and no call tells for whom"
        hint = "Set `sessions: exclusive` for this server, so that its questions belong to one call."
        self._turn_down(ask, Refusal(Code.UPSTREAM_ERROR, message, "unattributed", hint, f"{server}:{method[:80]}"))

    def explain(self, ask: Ask) -> dict[str, Any]:
        """The decision run dry: nothing is waited for, sent or recorded."""
        decision = decide.decide(ask, self.snapshot)
        return {
            "decision": self.recorder.asked(ask, decision)["metadata"],
            "refusal": answers.refusal_json(decision) if isinstance(decision, Refusal) else None,
            "rungs": [
                {"number": step.number, "rule": step.rule, "outcome": step.outcome, "message": step.message}
                for step in decide.explain(ask, self.snapshot)
            ],
        }

    async def _perform(self, call: Call, talk: Talk) -> Reply:
        if isinstance(call.decision, Refusal) and call.decision.awaits is not None:
            await self._once_connected(call, call.decision.awaits)
        decision = call.decision
        if isinstance(decision, Refusal):
            return call.refuse(decision)
        if isinstance(decision, Local):
            result = LOCAL[decision.tool](self.snapshot, decision.params)
            return call.answer(record.outcome_of(result, {}), result)
        decided_on = self.snapshot
        trouble = (
            (await self._not_confirmed(call, decision, talk) if _wants_yes(decision) else None)
            or self._no_room(decision)
            or (await self._write_ahead(call, decision) if decision.risk != "read" else None)
            or self._changed(call, decision, decided_on)
        )
        if trouble is not None:
            return call.refuse(trouble)
        if decision.risk == "read":
            self.recorder.write_soon(call)
        return await self._forward(call, decision, talk)

    async def _once_connected(self, call: Call, server: str) -> None:
        """Wait, once and bounded, where the answer hangs on a connection that is under way (UP-2)."""
        await self._upstreams.ready(server)
        call.decision = decide.decide(call.ask, self.snapshot)

    async def _not_confirmed(self, call: Call, to: Route, talk: Talk) -> Refusal | None:
        """What the operator wants confirmed waits for a person's yes, which is on record before anything is done."""
        try:
            self.recorder.write_ahead(call)
            objection = await why_not(to, talk, self._limits.patience)
            if objection is None:
                self.recorder.confirmed(call.ask.id)
                return None
        except StoreUnavailable:
            return _unrecordable(to)
        return _without_yes(to, objection)

    def _no_room(self, route: Route | Relay) -> Refusal | None:
        if self._draining:
            return decide.refuse(route, Code.SERVER_UNAVAILABLE, "draining", "The gateway is shutting down")
        if self.in_flight >= self._limits.in_flight:
            return decide.refuse(
                route, Code.OVERLOADED, "in_flight", f"The gateway has {self.in_flight} calls in flight"
            )
        return None

    async def _write_ahead(self, call: Call, route: Route | Relay) -> Refusal | None:
        """The ask on disk before the upstream hears of it, where its risk is above read (ACT-5)."""
        try:
            self.recorder.write_ahead(call)
            await self.recorder.synced(call)
        except StoreUnavailable:
            if self._limits.refuse_unrecorded:
                return _unrecordable(route)
        return None

    def _changed(self, call: Call, to: Route | Relay, decided_on: Snapshot) -> Refusal | None:
        """Decided anew, where the world changed while the disk was busy or a person thought."""
        if self.snapshot is decided_on:
            return None
        again = decide.decide(call.ask, self.snapshot)
        if isinstance(again, Refusal):
            return again
        if _wants_yes(again) and not (_wants_yes(to) and to.risk == again.risk):
            return _without_yes(to, "what it does changed meanwhile, so ask again")
        return None

    async def _forward(self, call: Call, to: Route | Relay, talk: Talk) -> Reply:
        self.in_flight += 1
        try:
            result = await self._conversations.hold(call.ask, to, talk)
        except UpstreamFailure as failure:
            return call.refuse(*_failed(to, failure))
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()
        if asks_back(result):
            return self._ask_back(call, to, talk, result)
        outcome = record.outcome_of(result, {})
        if isinstance(to, Route) and to.warning is not None:
            log.warning("ask %s: %s", call.ask.id, to.warning)
            result = answers.with_warning(result, to.warning)
        return call.answer(outcome, result)

    def _ask_back(self, call: Call, to: Route | Relay, talk: Talk, result: dict[str, Any]) -> Reply:
        """The server's turn ended with questions, and the client comes back with answers: one ask, several rounds."""
        if isinstance(talk, Nobody):
            message = f"'{to.full_name}' asks for input, which nobody can be asked for here"
            return call.refuse(decide.refuse(to, Code.UPSTREAM_ERROR, "upstream", message), "error")
        methods = [method for method, _ in questions_of(result).values()]
        self.recorder.note_round(call.ask.id, "input_required", methods)
        return call.ask_back(result)


def _mute(ask: Ask) -> Talk:
    return Nobody(Caller(ask.principal, ask.source, ask.client, ask.request_id))


def _wants_yes(to: Route | Relay | Local) -> TypeGuard[Route]:
    return isinstance(to, Route) and to.confirm


def _without_yes(to: Route | Relay, why: str) -> Refusal:
    message = f"Tool '{to.full_name}' needs a person's yes: {why}"
    return decide.refuse(to, Code.NOT_CONFIRMED, "confirm", message)


def _unrecordable(to: Route | Relay) -> Refusal:
    message = f"'{to.full_name}' is refused: it cannot be recorded"
    return decide.refuse(to, Code.STORE_UNAVAILABLE, "store", message)


def _failed(to: Route | Relay, failure: UpstreamFailure) -> tuple[Refusal, Status]:
    status: Status = "timeout" if failure.code is Code.TIMEOUT else "error" if failure.sent else "blocked"
    details = {"upstream": failure.data} if failure.data else {}
    return decide.refuse(to, failure.code, "upstream", failure.message, details), status


def _given_up(why: asyncio.CancelledError) -> Outcome:
    """A cancellation may say that it was time that ran out."""
    if EXPIRED in why.args:
        return TIMED_OUT
    return Outcome("cancelled", error={"code": "CANCELLED", "message": "the caller gave up"})


def _no_longer_allowed(why: asyncio.CancelledError) -> Refusal | None:
    """The refusal that a call was cancelled with, between two of its rounds; the cancelling is over with that."""
    refusal = why.args[0] if why.args and isinstance(why.args[0], Refusal) else None
    if refusal is not None and (task := asyncio.current_task()) is not None:
        task.uncancel()
    return refusal
