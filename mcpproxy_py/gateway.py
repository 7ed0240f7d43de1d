"""One call through the house: snapshot, decide, write ahead, act, record.

Every way in makes an `Ask` and comes through `Gateway.call`; there is no second path. A decision is a
value, and this is the one place that acts on it. There is one place that closes the record, reached on
every path: done, refused, failed, cancelled, timed out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mcpproxy_py.core import answers, decide, record
from mcpproxy_py.core.finding import retrieve_tools
from mcpproxy_py.core.gatetools import ACKNOWLEDGEMENT
from mcpproxy_py.core.record import Outcome
from mcpproxy_py.core.redaction import Masker
from mcpproxy_py.core.rounds import answers_to, asks_back, questions_of
from mcpproxy_py.core.talk import Nobody, Talk
from mcpproxy_py.core.values import (
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
from mcpproxy_py.errors import Code, RpcError
from mcpproxy_py.scan import MASKER
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.tally import Tally
from mcpproxy_py.upstream.failure import UpstreamFailure

log = logging.getLogger(__name__)

EXPIRED: Final = "its question was not answered in time"
OWED: Final = 500
"""Events kept in memory while the record cannot be written; beyond that the oldest are lost, and counted."""

MAX_ROUNDS: Final = 16
"""How often a server may ask back within one call; a server that never stops asking must not hold it for ever."""
UNFINISHED: Final = Outcome("error", error=record.failure(Code.INTERNAL, "the gateway did not finish this call"))


class Upstreams(Protocol):
    """What the gateway needs of the upstream room."""

    @property
    def snapshot(self) -> Snapshot: ...
    async def ready(self, server: str) -> None: ...
    async def request(
        self, server: str, method: str, params: Mapping[str, Any], *, talk: Talk | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]: ...  # fmt: skip


class Record(Protocol):
    """What the gateway needs of the store room. The first two raise `StoreUnavailable`."""

    def append(self, *events: Mapping[str, Any]) -> None: ...
    async def synced(self) -> None: ...
    async def acknowledged(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    payload_bytes: int = 65_536
    in_flight: int = 1000
    refuse_unrecorded: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to an ask. `result` is what the server said, or a tool result that refuses; then `refusal` says
    why. A `pending` one asks back, and the call goes on with the next round."""

    id: str
    status: Status
    result: Mapping[str, Any]
    decision: Decision
    refusal: Refusal | None = None

    @property
    def warning(self) -> str | None:
        return self.decision.warning if isinstance(self.decision, Route) else None


LOCAL: Final[Mapping[str, Callable[[Snapshot, Mapping[str, Any]], dict[str, Any]]]] = {
    "retrieve_tools": lambda snapshot, params: answers.structured(retrieve_tools(snapshot, params)),
    "request_capability": lambda snapshot, params: answers.text(ACKNOWLEDGEMENT),
}


class Gateway:
    """The one path from an ask to its reply. Its only state of its own is what is in flight and counted."""

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
        self._journal = journal
        self._limits = limits
        self._new_id = new_id
        self._masker = masker
        self.in_flight = 0
        self._idle = asyncio.Event()
        self._draining = False
        self.tally = tally or Tally()
        self.unrecorded = 0
        """Asks that could not be recorded when they should have been. Never silent: counted, logged, shown."""
        self._owed: deque[Mapping[str, Any]] = deque(maxlen=OWED)
        """Their events, which go on record as soon as that works again."""

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

    def new_ask(self, tool: str, params: Any, *, source: Source, surface: Surface, principal: str, client: Client,
                session_id: str | None = None, request_id: str | None = None, **more: Any) -> Ask:  # fmt: skip
        """`more`: the fields of an ask that only MCP's own surfaces have."""
        at = time.time()
        return Ask(
            self._new_id(at), at, tool, params, source, surface, principal, client, session_id, request_id, **more
        )

    async def call(self, ask: Ask, talk: Talk | None = None) -> Reply:
        """Answer an ask. Without `talk` its caller cannot be asked, and hears nothing but the reply. Raises nothing but
        cancellation: every failure is a reply, and on record."""
        reply = await self._answer(ask, talk or _mute(ask))
        await self._journal.acknowledged()
        return reply

    async def _answer(self, ask: Ask, talk: Talk) -> Reply:
        call = _Call(ask, decide.decide(ask, self.snapshot), time.perf_counter())
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
            self._finish(call)

    def decides(self, ask: Ask) -> Decision:
        """What would become of this ask now; nothing is done."""
        return decide.decide(ask, self.snapshot)

    async def turn_down(self, ask: Ask, refusal: Refusal) -> Reply:
        """Refuse an ask for a reason outside the decision, on record like any other."""
        reply = self._turn_down(ask, refusal)
        await self._journal.acknowledged()
        return reply

    def _turn_down(self, ask: Ask, refusal: Refusal) -> Reply:
        call = _Call(ask, refusal, time.perf_counter())
        reply = call.refuse(refusal)
        self._finish(call)
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
            "decision": self._asked(ask, decision)["metadata"],
            "refusal": answers.refusal_json(decision) if isinstance(decision, Refusal) else None,
            "rungs": [
                {"number": step.number, "rule": step.rule, "outcome": step.outcome, "message": step.message}
                for step in decide.explain(ask, self.snapshot)
            ],
        }

    async def _perform(self, call: _Call, talk: Talk) -> Reply:
        await self._once_connected(call)
        decision = call.decision
        if isinstance(decision, Refusal):
            return call.refuse(decision)
        if isinstance(decision, Local):
            result = LOCAL[decision.tool](self.snapshot, decision.params)
            return call.answer(record.outcome_of(result, {}), result)
        trouble = self._no_room(decision) or await self._write_ahead(call, decision)
        if trouble is not None:
            return call.refuse(trouble)
        return await self._forward(call, decision, talk)

    async def _once_connected(self, call: _Call) -> None:
        """Wait, once and bounded, where the answer hangs on a connection that is under way (UP-2)."""
        if isinstance(call.decision, Refusal) and call.decision.awaits is not None:
            await self._upstreams.ready(call.decision.awaits)
            call.decision = decide.decide(call.ask, self.snapshot)

    def _no_room(self, route: Route | Relay) -> Refusal | None:
        if self._draining:
            return decide.refuse(route, Code.SERVER_UNAVAILABLE, "draining", "The gateway is shutting down")
        if self.in_flight >= self._limits.in_flight:
            return decide.refuse(
                route, Code.OVERLOADED, "in_flight", f"The gateway has {self.in_flight} calls in flight"
            )
        return None

    async def _write_ahead(self, call: _Call, route: Route | Relay) -> Refusal | None:
        """The ask on record before the upstream hears of it; on disk first where its risk is above read (ACT-5)."""
        decided_on = self.snapshot
        try:
            if not call.on_record:
                self._journal.append(self._asked(call.ask, call.decision))
                call.on_record = True
            if route.risk != "read":
                await self._journal.synced()
        except StoreUnavailable as error:
            self._count_unrecorded(call.ask.id, error)
            if route.risk != "read" and self._limits.refuse_unrecorded:
                message = f"'{route.full_name}' is refused: it cannot be recorded"
                return decide.refuse(route, Code.STORE_UNAVAILABLE, "store", message)
        if self.snapshot is decided_on:
            return None
        again = decide.decide(call.ask, self.snapshot)  # the world changed while the disk was busy
        return again if isinstance(again, Refusal) else None

    async def _forward(self, call: _Call, to: Route | Relay, talk: Talk) -> Reply:
        self.in_flight += 1
        try:
            result = await self._converse(call, to, talk)
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

    async def _converse(self, call: _Call, to: Route | Relay, talk: Talk) -> dict[str, Any]:
        """The request, and the rounds that a modern server wants for it, where the client answers in mid-call."""
        method, params = _request(to)
        carried = call.ask.carried
        for _ in range(MAX_ROUNDS):
            result = await self._request(to, method, {**params, **carried}, talk, call.ask.meta)
            if not (talk.live and asks_back(result)):
                return result
            carried = await self._answered(call, result, talk)
        raise UpstreamFailure(Code.UPSTREAM_ERROR, f"the server asked back more than {MAX_ROUNDS} times")

    async def _request(
        self, to: Route | Relay, method: str, params: Mapping[str, Any], talk: Talk, meta: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """A read that never left, because its connection had just gone, is asked once more."""
        try:
            return await self._upstreams.request(to.server, method, params, talk=talk, meta=meta)
        except UpstreamFailure as failure:
            if failure.sent or failure.code is not Code.SERVER_UNAVAILABLE or to.risk != "read":
                raise
        await self._upstreams.ready(to.server)
        return await self._upstreams.request(to.server, method, params, talk=talk, meta=meta)

    async def _answered(self, call: _Call, result: Mapping[str, Any], talk: Talk) -> Mapping[str, Any]:
        """Put a modern server's questions to a client of the handshake era; what goes along in the next round."""
        questions = questions_of(result)
        methods = [method for method, _ in questions.values()]
        self.note_round(call.ask.id, "input_required", methods)
        try:
            said = {key: await talk.ask(method, params) for key, (method, params) in questions.items()}
        except RpcError as error:
            message = f"the server asks for input that the client does not give: {error.message}"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, message) from None
        self.note_round(call.ask.id, "answered", methods)
        return answers_to(result, said)

    def _ask_back(self, call: _Call, to: Route | Relay, talk: Talk, result: dict[str, Any]) -> Reply:
        """The server's turn ended with questions, and the client comes back with answers: one ask, several rounds."""
        if isinstance(talk, Nobody):
            message = f"'{to.full_name}' asks for input, which nobody can be asked for here"
            return call.refuse(decide.refuse(to, Code.UPSTREAM_ERROR, "upstream", message), "error")
        self.note_round(call.ask.id, "input_required", [method for method, _ in questions_of(result).values()])
        call.outcome = None
        return Reply(call.ask.id, "pending", result, call.decision)

    def note_round(self, ask_id: str, kind: str, methods: Sequence[str]) -> None:
        """The server asked back, or was answered: on record between the ask and its end."""
        self._append(ask_id, [record.round_trip(ask_id, time.time(), kind, methods)])

    def give_up(self, ask_id: str) -> None:
        """End an ask whose next round never came here. It may have gone to another gateway, which then knows better."""
        outcome = Outcome("timeout", error=record.failure(Code.TIMEOUT, EXPIRED))
        self._append(ask_id, [self._finished(ask_id, outcome, None)])

    def _asked(self, ask: Ask, decision: Decision) -> dict[str, Any]:
        return record.asked(ask, decision, self.snapshot.policy, self._limits.payload_bytes, self._masker)

    def _finish(self, call: _Call) -> None:
        """The one place that closes a record; one that waits for its next round stays open."""
        events = [] if call.on_record else [self._asked(call.ask, call.decision)]
        if call.outcome is not None:
            duration = (time.perf_counter() - call.started) * 1000
            events.append(self._finished(call.ask.id, call.outcome, duration))
            self.tally.count(call.ask, call.decision, call.rule or call.decision.rule, call.outcome.status)
        self._append(call.ask.id, events)

    def _finished(self, ask_id: str, outcome: Outcome, duration: float | None) -> dict[str, Any]:
        return record.finished(ask_id, time.time(), outcome, duration, self._limits.payload_bytes, self._masker)

    def _append(self, ask_id: str, events: Sequence[Mapping[str, Any]]) -> None:
        """On record now, or, where that fails, as soon as it works again."""
        due = [*self._owed, *events]
        try:
            self._journal.append(*due)
            self._owed.clear()
        except StoreUnavailable as error:
            self._owed = deque(due, OWED)
            self._count_unrecorded(ask_id, error)

    def _count_unrecorded(self, ask_id: str, error: StoreUnavailable) -> None:
        self.unrecorded += 1
        log.error("ask %s could not be recorded (%d so far): %s", ask_id, self.unrecorded, error)


class _Call:
    """One ask under way: what was decided, whether it is on record, how it ended."""

    __slots__ = ("ask", "decision", "on_record", "outcome", "rule", "started")

    def __init__(self, ask: Ask, decision: Decision, started: float) -> None:
        self.ask = ask
        self.decision = decision
        self.started = started
        self.on_record = ask.again
        self.outcome: Outcome | None = UNFINISHED
        self.rule: str | None = None
        """What turned it down after all, where that was not the decision."""

    def answer(self, outcome: Outcome, result: Mapping[str, Any]) -> Reply:
        self.outcome = outcome
        return Reply(self.ask.id, outcome.status, result, self.decision)

    def refuse(self, refusal: Refusal, status: Status = "blocked") -> Reply:
        result = answers.refused(refusal)
        self.rule = refusal.rule
        self.outcome = record.refused(refusal, result, status)
        return Reply(self.ask.id, status, result, self.decision, refusal)


def _mute(ask: Ask) -> Talk:
    return Nobody(Caller(ask.principal, ask.source, ask.client, ask.request_id))


def _request(to: Route | Relay) -> tuple[str, Mapping[str, Any]]:
    if isinstance(to, Relay):
        return to.method, to.params
    return "tools/call", {"name": to.tool.name, "arguments": to.args}


def _failed(to: Route | Relay, failure: UpstreamFailure) -> tuple[Refusal, Status]:
    status: Status = "timeout" if failure.code is Code.TIMEOUT else "error" if failure.sent else "blocked"
    details = {"upstream": failure.data} if failure.data else {}
    return decide.refuse(to, failure.code, "upstream", failure.message, details), status


def _given_up(why: asyncio.CancelledError) -> Outcome:
    """A cancellation may say that it was time that ran out."""
    if EXPIRED in why.args:
        return Outcome("timeout", error=record.failure(Code.TIMEOUT, EXPIRED))
    return Outcome("cancelled", error={"code": "CANCELLED", "message": "the caller gave up"})


def _no_longer_allowed(why: asyncio.CancelledError) -> Refusal | None:
    """The refusal that a call was cancelled with, between two of its rounds; the cancelling is over with that."""
    refusal = why.args[0] if why.args and isinstance(why.args[0], Refusal) else None
    if refusal is not None and (task := asyncio.current_task()) is not None:
        task.uncancel()
    return refusal
