"""One call through the house: snapshot, decide, write ahead, act, record.

Every way in makes an `Ask` and comes through `Gateway.call`; there is no second path. A decision is a
value, and this is the one place that acts on it. There is one place that closes the record, reached on
every path: done, refused, failed, cancelled, timed out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mcpproxy_py.core import answers, decide, record
from mcpproxy_py.core.finding import retrieve_tools
from mcpproxy_py.core.gatetools import ACKNOWLEDGEMENT
from mcpproxy_py.core.record import Outcome
from mcpproxy_py.core.values import (
    VARIANTS,
    Ask,
    Client,
    Decision,
    Local,
    Refusal,
    Route,
    Snapshot,
    Source,
    Status,
)
from mcpproxy_py.errors import Code
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.upstream.failure import UpstreamFailure

log = logging.getLogger(__name__)

OWED: Final = 500
"""Events kept in memory while the record cannot be written; beyond that the oldest are lost, and counted."""

OnProgress = Callable[[Mapping[str, Any]], None]
"""Takes the raw params of one progress notification. On the event loop; must not block."""


class Upstreams(Protocol):
    """What the gateway needs of the upstream room."""

    @property
    def snapshot(self) -> Snapshot: ...
    async def ready(self, server: str) -> None: ...
    async def call_tool(
        self, server: str, tool: str, args: Mapping[str, Any], *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]: ...


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
    """The answer to an ask. `result` is always an MCP tool result; `refusal` says why, where it is one."""

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

    def __init__(self, upstreams: Upstreams, journal: Record, limits: Limits, new_id: Callable[[float], str]) -> None:
        self._upstreams = upstreams
        self._journal = journal
        self._limits = limits
        self._new_id = new_id
        self.in_flight = 0
        self._idle = asyncio.Event()
        self._draining = False
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """Asks by (outer tool, status), for metrics."""
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

    def new_ask(self, tool: str, params: Any, *, source: Source, surface: str, principal: str, client: Client,
                session_id: str | None = None, request_id: str | None = None) -> Ask:  # fmt: skip
        at = time.time()
        return Ask(self._new_id(at), at, tool, params, source, surface, principal, client, session_id, request_id)

    async def call(self, ask: Ask, on_progress: OnProgress | None = None) -> Reply:
        """Answer an ask. Raises nothing but cancellation: every failure is a reply, and on record."""
        reply = await self._answer(ask, on_progress)
        await self._journal.acknowledged()
        return reply

    async def _answer(self, ask: Ask, on_progress: OnProgress | None) -> Reply:
        call = _Call(ask, decide.decide(ask, self.snapshot), time.perf_counter())
        try:
            return await self._perform(call, on_progress)
        except asyncio.CancelledError:
            call.outcome = Outcome("cancelled", error={"code": "CANCELLED", "message": "the caller gave up"})
            raise
        except Exception:
            log.exception("ask %s failed inside the gateway", ask.id)
            broken = Refusal(Code.INTERNAL, "The gateway failed on this call; its log says why", "internal", "")
            return call.refuse(broken, "error")
        finally:
            self._finish(call)

    def explain(self, ask: Ask) -> dict[str, Any]:
        """The decision run dry: nothing is waited for, sent or recorded."""
        decision = decide.decide(ask, self.snapshot)
        return {
            "decision": record.asked(ask, decision, self.snapshot.policy, self._limits.payload_bytes)["metadata"],
            "refusal": answers.refusal_json(decision) if isinstance(decision, Refusal) else None,
            "rungs": [
                {"number": step.number, "rule": step.rule, "outcome": step.outcome, "message": step.message}
                for step in decide.explain(ask, self.snapshot)
            ],
        }

    async def _perform(self, call: _Call, on_progress: OnProgress | None) -> Reply:
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
        return await self._forward(call, decision, on_progress)

    async def _once_connected(self, call: _Call) -> None:
        """Wait, once and bounded, where the answer hangs on a connection that is under way (UP-2)."""
        if isinstance(call.decision, Refusal) and call.decision.awaits is not None:
            await self._upstreams.ready(call.decision.awaits)
            call.decision = decide.decide(call.ask, self.snapshot)

    def _no_room(self, route: Route) -> Refusal | None:
        if self._draining:
            return decide.refuse(route, Code.SERVER_UNAVAILABLE, "draining", "The gateway is shutting down")
        if self.in_flight >= self._limits.in_flight:
            return decide.refuse(
                route, Code.OVERLOADED, "in_flight", f"The gateway has {self.in_flight} calls in flight"
            )
        return None

    async def _write_ahead(self, call: _Call, route: Route) -> Refusal | None:
        """The ask on record before the upstream hears of it; on disk first where its risk is above read (ACT-5)."""
        decided_on = self.snapshot
        try:
            self._journal.append(self._asked(call))
            call.on_record = True
            if route.risk != "read":
                await self._journal.synced()
        except StoreUnavailable as error:
            self._count_unrecorded(call.ask.id, error)
            if route.risk != "read" and self._limits.refuse_unrecorded:
                message = f"Tool '{route.tool.full_name}' is refused: the call cannot be recorded"
                return decide.refuse(route, Code.STORE_UNAVAILABLE, "store", message)
        if self.snapshot is decided_on:
            return None
        again = decide.decide(call.ask, self.snapshot)  # the world changed while the disk was busy
        return again if isinstance(again, Refusal) else None

    async def _forward(self, call: _Call, route: Route, on_progress: OnProgress | None) -> Reply:
        self.in_flight += 1
        try:
            result = await self._upstreams.call_tool(route.server, route.tool.name, route.args, on_progress=on_progress)
        except UpstreamFailure as failure:
            return call.refuse(*_failed(route, failure))
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()
        if result.get("resultType", "complete") != "complete":
            message = f"Tool '{route.tool.full_name}' asks for input, which this surface does not pass on"
            return call.refuse(decide.refuse(route, Code.UPSTREAM_ERROR, "upstream", message), "error")
        outcome = record.outcome_of(result, {})
        if route.warning is not None:
            log.warning("ask %s: %s", call.ask.id, route.warning)
            result = answers.with_warning(result, route.warning)
        return call.answer(outcome, result)

    def _asked(self, call: _Call) -> dict[str, Any]:
        return record.asked(call.ask, call.decision, self.snapshot.policy, self._limits.payload_bytes)

    def _finish(self, call: _Call) -> None:
        """The one place that closes a record."""
        duration = (time.perf_counter() - call.started) * 1000
        closing = record.finished(call.ask.id, time.time(), call.outcome, duration, self._limits.payload_bytes)
        self.outcomes[_counted(call.ask.tool), call.outcome.status] += 1
        due = [*self._owed, *(() if call.on_record else (self._asked(call),)), closing]
        try:
            self._journal.append(*due)
            self._owed.clear()
        except StoreUnavailable as error:
            self._owed = deque(due, OWED)
            self._count_unrecorded(call.ask.id, error)

    def _count_unrecorded(self, ask_id: str, error: StoreUnavailable) -> None:
        self.unrecorded += 1
        log.error("ask %s could not be recorded (%d so far): %s", ask_id, self.unrecorded, error)


class _Call:
    """One ask under way: what was decided, whether it is on record, how it ended."""

    __slots__ = ("ask", "decision", "on_record", "outcome", "started")

    def __init__(self, ask: Ask, decision: Decision, started: float) -> None:
        self.ask = ask
        self.decision = decision
        self.started = started
        self.on_record = False
        self.outcome = Outcome("error", error=record.failure(Code.INTERNAL, "the gateway did not finish this call"))

    def answer(self, outcome: Outcome, result: Mapping[str, Any]) -> Reply:
        self.outcome = outcome
        return Reply(self.ask.id, outcome.status, result, self.decision)

    def refuse(self, refusal: Refusal, status: Status = "blocked") -> Reply:
        result = answers.refused(refusal)
        self.outcome = record.refused(refusal, result, status)
        return Reply(self.ask.id, status, result, self.decision, refusal)


def _failed(route: Route, failure: UpstreamFailure) -> tuple[Refusal, Status]:
    status: Status = "timeout" if failure.code is Code.TIMEOUT else "error" if failure.sent else "blocked"
    details = {"upstream": failure.data} if failure.data else {}
    return decide.refuse(route, failure.code, "upstream", failure.message, details), status


def _counted(tool: str) -> str:
    """Labels stay bounded: what an agent made up is counted as one."""
    return tool if tool in LOCAL or tool in VARIANTS else "other"
