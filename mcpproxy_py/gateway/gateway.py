"""One call through the gateway: decide, confirm, write ahead, forward, record; and the one choke point (GATE-14).

Every way in makes an `Ask` and comes through `Gateway.call`, which alone acts on decisions, which are values. What
comes of a call is closed by the `Recorder` on every path.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mcpproxy_py.core.policy import decide, tool_results
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.protocol.client_channel import (
    FORWARDED_META,
    ClientChannel,
    NoClient,
    ReturningClient,
    forwarded_meta,
    narrowed,
)
from mcpproxy_py.core.protocol.request_state import INPUT_REQUIRED, answers_problem, answers_to, began, questions_of
from mcpproxy_py.core.protocol.tasks import TASK, TaskOrigin, with_tasks
from mcpproxy_py.core.record import events
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.values import (
    NOTHING,
    Ask,
    ClientInfo,
    Decision,
    LocalAnswer,
    Refusal,
    Relay,
    Route,
    Snapshot,
    Source,
    Surface,
)
from mcpproxy_py.errors import Code, RpcError, StoreUnavailable, UpstreamFailure
from mcpproxy_py.gateway import refusals
from mcpproxy_py.gateway.confirmation.call_confirmation import CallConfirmation
from mcpproxy_py.gateway.confirmation.login_offers import CONNECTED, LoginOffers, once_connected
from mcpproxy_py.gateway.local_answers import LocalAnswers
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.gateway.recorder import Call, CallCounters, EventLog, Recorder
from mcpproxy_py.gateway.shares import CallLimits, PrincipalShares, told
from mcpproxy_py.gateway.tasks.call_tasks import CallTasks
from mcpproxy_py.gateway.upstreams import Upstreams, decided_with_checks
from mcpproxy_py.upstream.permit import NotPermitted, Permitted, PermittedAnswer

log = logging.getLogger(__name__)


class CallPermit:
    """Leave to send what was decided for one call, in one of its rounds, when nothing has to be waited for any more."""

    __slots__ = ("_call", "_gateway", "_message", "_to", "channel", "method", "principal")

    def __init__(
        self, gateway: Gateway, call: Call, to: Route | Relay, channel: ClientChannel, carried: Mapping[str, Any]
    ) -> None:
        if isinstance(to, Relay):
            self.method, params = to.method, to.params
        else:
            self.method, params = "tools/call", {"name": to.tool.name, "arguments": to.args}
        self._message = Permitted(self.method, {**params, **carried} if carried else params, call.ask.meta)
        self._gateway = gateway
        self._call = call
        self._to = to
        self.channel = channel
        self.principal = call.ask.principal

    def __call__(self) -> Permitted:
        """The choke point: all that leaves for a server on somebody's behalf, in any round, leaves by this, and is
        written before anything else can happen. It was decided on the snapshot of this moment and accepted by the
        record: above read it is on the disk, and nothing has failed since; a read goes on record in this turn."""
        call, to, gateway = self._call, self._to, self._gateway
        if call.closed:
            raise NotPermitted(decide.refuse(to, Code.INTERNAL, "ended", f"The call of '{to.full_name}' has ended"))
        if to.risk == "read":
            if not call.handed_over:
                call.handed_over = True
                gateway.recorder.write_soon(call)
        elif call.on_disk != gateway.recorder.unrecorded and gateway.refuses_unrecorded:
            raise NotPermitted(refusals.unrecordable(to))
        snapshot = gateway.upstreams.snapshot
        if (access := call.ask.access) is not None:
            snapshot = snapshot.narrowed.get(access.settled) or access.view(snapshot)
        if snapshot is not call.snapshot:
            if (refusal := refusals.since_changed(call, to, snapshot)) is not None:
                raise NotPermitted(refusal)
            call.snapshot = snapshot
        return self._message

    def answer(self, body: Mapping[str, Any]) -> PermittedAnswer:
        """The same for what a client answers to a server in mid-call. That the server has gone is for the call to
        tell, which knows what became of it."""
        try:
            self()
        except NotPermitted as no:
            if no.refusal.code is not Code.SERVER_UNAVAILABLE:
                raise
        return PermittedAnswer(body)

    def note_resend(self) -> None:
        self._gateway.recorder.note_round(self._call.ask.id, "sent_again", [self.method])

    async def record_answer(self, method: str, body: Mapping[str, Any]) -> None:
        await self._gateway.record_answers(self._call, self._to, [method], body)

    @property
    def tool(self) -> str | None:
        """For whoever makes spans."""
        return self._to.tool.name if isinstance(self._to, Route) else None

    def within(self, trace: Mapping[str, str | None]) -> None:
        """The message says that it belongs to this trace; a key that is `None` is taken off."""
        meta = {**(self._message.meta or {}), **trace}
        self._message = self._message._replace(meta={key: value for key, value in meta.items() if value is not None})

    def about(self, method: str, params: Mapping[str, Any]) -> CallPermit:
        """Leave to send this for the same call, which goes on as a task."""
        permit = CallPermit(self._gateway, self._call, self._to, self.channel, NOTHING)
        permit.method, permit._message = method, Permitted(method, params, self._call.ask.meta)
        return permit


class Gateway:
    """The one path from an ask to its reply."""

    def __init__(
        self, upstreams: Upstreams, journal: EventLog, limits: CallLimits, new_id: Callable[[float], str],
        masker: Masker = MASKER, shares: PrincipalShares | None = None, tally: CallCounters | None = None,
    ) -> None:  # fmt: skip
        self.upstreams = upstreams
        self._limits = limits
        self._new_id = new_id
        self.shares = shares or PrincipalShares()
        self.shares.report = lambda who, share, count: self.note_refusal(told(who, share, count), share, who)
        self.recorder = Recorder(
            journal, masker, limits.payload_bytes, lambda: upstreams.snapshot.policy, tally or CallCounters(),
            self.shares.record,
        )  # fmt: skip
        self.confirmation = CallConfirmation(self.recorder, self.shares, limits.patience)
        self.local = LocalAnswers(self.shares.record)
        self._acknowledges = getattr(journal, "acknowledges", True)
        self.refuses_unrecorded = limits.refuse_unrecorded
        self.login_offers: LoginOffers | None = None
        self.tasks = CallTasks(self)
        self.in_flight = 0
        self._idle = asyncio.Event()
        self._draining = False

    @property
    def snapshot(self) -> Snapshot:
        return self.upstreams.snapshot

    @property
    def draining(self) -> bool:
        return self._draining

    async def drain(self) -> None:
        """Take no new calls any more, and return when the last one in flight has its answer."""
        self._draining = True
        self.shares.close()
        self.confirmation.drain()
        while self.in_flight:
            self._idle.clear()
            await self._idle.wait()

    def new_ask(
        self, tool: str, params: Any, *, source: Source, surface: Surface, principal: str, client: ClientInfo,
        session_id: str | None = None, request_id: str | None = None, server: str | None = None,
        method: str = "tools/call", meta: Mapping[str, Any] | None = None, plain: bool = False,
        access: Access | None = None, task: TaskOrigin | None = None,
    ) -> Ask:  # fmt: skip
        """Of the client's `_meta` only what may go along upstream."""
        at = time.time()
        return Ask(
            self._new_id(at), at, tool, params, source, surface, principal, client, session_id, request_id, server,
            method, meta and (None if FORWARDED_META.isdisjoint(meta) else forwarded_meta(meta)), plain=plain,
            access=access, task=task, asked_by=None if task is None else partial(began, task.mark, self.tasks.keys),
        )  # fmt: skip

    async def call(self, ask: Ask, channel: ClientChannel | None = None) -> Call:
        """Answer an ask; without `channel` its caller cannot be asked. Every failure is a reply, and on record."""
        snapshot = self.upstreams.snapshot
        if (access := ask.access) is not None:
            snapshot = snapshot.narrowed.get(access.settled) or access.view(snapshot)
        rates = self.shares.rates
        often = rates.refusal(ask.principal, ask.tool) if rates.of and not ask.again else None
        call = Call(ask, often or decide.decide(ask, snapshot), snapshot)
        try:
            if isinstance(call.decision, Refusal) and call.decision.rule == CONNECTED:
                await once_connected(self.upstreams, call, channel, None if self._draining else self.login_offers)
            if getattr(call.decision, "pending", None) is not None:
                call.ask, call.decision, call.snapshot = await decided_with_checks(self.upstreams, call.ask)
            decision = call.decision
            if isinstance(decision, Refusal):
                if decision.code is Code.INSUFFICIENT_SCOPE and isinstance(channel, ReturningClient):
                    channel.at_once()  # the challenge is a status of HTTP
                call.refuse(decision)
            elif isinstance(decision, LocalAnswer):
                await self.local.answer(call, decision)
            else:
                await self._forward(call, decision, channel or NoClient(ask=ask))
        except asyncio.CancelledError as why:
            refusal = refusals.no_longer_allowed(why)
            if refusal is None:
                call.outcome = refusals.given_up(why)
                raise
            call.refuse(refusal)
        except Exception:
            log.exception("ask %s failed inside the gateway", ask.id)
            broken = Refusal(Code.INTERNAL, "The gateway failed on this call; its log says why", "internal", "")
            call.refuse(broken, "error")
        finally:
            call.closed = True
            self.recorder.finish(call)
        if self._acknowledges:
            await self.recorder.acknowledged()
        if call.turn is not None:
            await call.turn()
        return call

    async def decides(self, ask: Ask) -> Decision:
        """What would become of this ask now; nothing is done."""
        return (await decided_with_checks(self.upstreams, ask))[1]

    async def turn_down(self, ask: Ask, refusal: Refusal) -> Call:
        """Refuse an ask for a reason outside the decision, on record like any other."""
        call = self._turn_down(ask, refusal)
        if self._acknowledges:
            await self.recorder.acknowledged()
        return call

    def _turn_down(self, ask: Ask, refusal: Refusal) -> Call:
        call = Call(ask, refusal, self.snapshot).refuse(refusal)
        call.closed = True
        self.recorder.finish(call)
        return call

    def note_refusal(self, refusal: Refusal, what: str, principal: str, server: str | None = None) -> None:
        """Something was refused that is no ask of a client's; that is on record too (UP-5, SEC-7)."""
        ask = self.new_ask(
            what, {}, source="internal", surface="passthrough", principal=principal, client=ClientInfo(server or ""),
            server=server, method=what,
        )  # fmt: skip
        self._turn_down(ask, refusal)

    async def explain(self, ask: Ask) -> dict[str, Any]:
        """The decision run dry: nothing is sent or recorded."""
        ask, decision, snapshot = await decided_with_checks(self.upstreams, ask)
        return refusals.explained(ask, decision, snapshot, self.recorder.asked(ask, decision)["metadata"])

    # From the decision to the server. What stands in the way raises `NotPermitted`, wherever it is met.

    async def _forward(self, call: Call, to: Route | Relay, channel: ClientChannel) -> None:
        try:
            if to.confirm:
                self._check_room(to, call.ask.principal)
                await self.confirmation.confirm(call, to, channel)
            self._check_room(to, call.ask.principal)
            if to.risk != "read":
                await self._write_ahead(call, to)
            if call.ask.again or call.ask.carried:
                await self.record_answers(call, to, [], call.ask.carried.get("inputResponses", {}))
            self.in_flight += 1
            mine, who = self.shares.in_flight.taken, call.ask.principal
            mine[who] = mine.get(who, 0) + 1
            try:
                narrow = narrowed(channel, call.ask.surface) if channel.capabilities else channel
                there = self.upstreams.snapshot.servers.get(to.server)
                if there is not None and there.tasks is not None and call.ask.surface != "passthrough":
                    narrow = with_tasks(narrow)
                result = await self._converse(call, to, narrow)
                if result.get("resultType") == TASK:
                    permit = CallPermit(self, call, to, narrow, NOTHING).about
                    result = await self.tasks.went_on(call, to, channel, result, permit)
            finally:
                self.in_flight -= 1
                mine[who] -= 1
                if not self.in_flight:
                    self._idle.set()
        except NotPermitted as no:
            call.refuse(*refusals.not_permitted(no))
        except UpstreamFailure as failure:
            call.refuse(*refusals.failed(to, failure))
        else:
            call.turn = getattr(result, "turn", None) or call.turn  # of a `LargeResult`
            self._close(call, to, channel, result)

    async def _converse(self, call: Call, to: Route | Relay, channel: ClientChannel) -> dict[str, Any]:
        """The server's last word: a result, or questions for a client that answers between calls only. A client that
        can be asked in mid-call answers here."""
        carried = call.ask.carried
        for _ in range(self._limits.rounds):
            permit = CallPermit(self, call, to, channel, carried)
            try:
                result = await self.upstreams.request(to.server, permit)
            except (UpstreamFailure, NotPermitted) as failure:
                if not await self._may_repeat(call, to, channel, failure):
                    raise
                if failure.sent:
                    permit.note_resend()
                result = await self.upstreams.request(to.server, permit)
            if not (channel.live and result.get("resultType") == INPUT_REQUIRED):
                return result
            carried = await self._answered(call, to, result, channel)
        raise UpstreamFailure(Code.UPSTREAM_ERROR, f"the server asked for input more than {self._limits.rounds} times")

    async def _may_repeat(
        self, call: Call, to: Route | Relay, channel: ClientChannel, failure: UpstreamFailure | NotPermitted
    ) -> bool:
        """Whether it is asked once more: nothing of it was done, and what stood in the way has gone."""
        offers = None if self._draining else self.login_offers
        if offers is not None and isinstance(failure, UpstreamFailure) and await offers.widened(call, channel, failure):
            return True
        if to.risk != "read" or not refusals.reconnects(failure):
            return False
        await self.upstreams.ready(to.server)  # its connection had just gone
        return True

    async def _answered(
        self, call: Call, to: Route | Relay, result: Mapping[str, Any], channel: ClientChannel
    ) -> Mapping[str, Any]:
        """Put a modern server's questions to a client of the handshake era; what goes along in the next round."""
        questions = questions_of(result)
        methods = [method for method, _ in questions.values()]
        try:
            said = {key: await channel.request(method, params) for key, (method, params) in questions.items()}
        except RpcError as error:
            message = f"the server asks for input that the client does not give: {error.message}"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, message) from None
        await self.record_answers(call, to, methods, said)
        return answers_to(result, said)

    def _close(self, call: Call, to: Route | Relay, channel: ClientChannel, result: dict[str, Any]) -> None:
        if result.get("resultType") == INPUT_REQUIRED:
            self._ask_back(call, to, channel, result)
        elif result.get("resultType") == TASK:
            call.ask_back(result)  # its end is on record when somebody sees it
        else:
            outcome = events.outcome_of(result, {"confirmed": call.confirmed} if call.confirmed else {})
            if isinstance(to, Route) and to.warning is not None:
                log.warning("ask %s: %s", call.ask.id, to.warning)
                result = tool_results.with_warning(result, to.warning)
            call.answer(outcome, result)

    def _ask_back(self, call: Call, to: Route | Relay, channel: ClientChannel, result: dict[str, Any]) -> None:
        """The server's turn ended with questions, and the client comes back with answers: one ask, several rounds."""
        if isinstance(channel, NoClient):
            call.refuse(refusals.unanswerable(to), "error")
            return
        self.recorder.note_round(call.ask.id, "input_required", [method for method, _ in questions_of(result).values()])
        call.ask_back(result)

    # What has to be there before the permit is asked for.

    def _check_room(self, to: Route | Relay, principal: str) -> None:
        if self._draining:
            raise NotPermitted(refusals.shutting_down(to))
        if self.in_flight >= self._limits.in_flight:
            raise NotPermitted(refusals.full(to, self.in_flight))
        shares = self.shares
        for share in (shares.in_flight, shares.record):
            if share.taken.get(principal, 0) >= share.most:
                raise NotPermitted(share.refusal(to.full_name, principal))

    async def _write_ahead(self, call: Call, to: Route | Relay) -> None:
        """The ask on disk before the upstream hears of it, where its risk is above read (ACT-5)."""
        try:
            self.recorder.write_ahead(call)
            await self._on_disk(call)
        except StoreUnavailable:
            if self._limits.refuse_unrecorded:
                raise NotPermitted(refusals.unrecordable(to)) from None

    async def record_answers(self, call: Call, to: Route | Relay, methods: list[str], said: Any) -> None:
        """What a client answered on record before its server hears of it, like the ask before: on disk above read.
        Raises `NotPermitted`."""
        if problem := answers_problem(said, self.snapshot.policy.max_depth):
            raise NotPermitted(refusals.unfit_answers(to, problem))
        above_read = to.risk != "read"
        try:
            if not call.on_record:  # a first round that brings answers
                self.recorder.write_ahead(call)
            self.recorder.answered(call, methods, said, ahead=above_read)
            if above_read:
                await self._on_disk(call)
        except StoreUnavailable:
            if self._limits.refuse_unrecorded:
                raise NotPermitted(refusals.unrecordable(to)) from None

    async def _on_disk(self, call: Call) -> None:
        await self.recorder.synced(call)
        call.on_disk = self.recorder.unrecorded
