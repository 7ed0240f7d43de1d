"""The one place that records: an ask before it is acted on, its rounds, and its end, which it has on every path.

One ask under way: what was decided, how it ended, and with that the reply to it.

What became of all asks, counted. Every label is from a closed set: what an agent made up is counted as `other`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from mcpproxy_py.core.policy import tool_results
from mcpproxy_py.core.record import events
from mcpproxy_py.core.record import events as record_events
from mcpproxy_py.core.record.events import Event, Outcome
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.values import (
    NOTHING,
    UNDECLARING,
    VARIANTS,
    Ask,
    Decision,
    Policy,
    Refusal,
    Route,
    Snapshot,
    Status,
)
from mcpproxy_py.errors import Code, StoreUnavailable
from mcpproxy_py.gateway.masker import MASKER, without_secrets
from mcpproxy_py.gateway.shares import COUNTED, NOT_KEPT, RecordShare

EXPIRED: Final = "its question was not answered in time"
TIMED_OUT: Final = Outcome("timeout", error=events.failure(Code.TIMEOUT, EXPIRED))
UNFINISHED: Final = Outcome("error", error=events.failure(Code.INTERNAL, "the gateway did not finish this call"))


class Call:
    """What was decided, whether it is on record, how it ended; none ends without an outcome to record. To whoever asked
    it is the reply: `result` is what the server said, or a tool result that refuses, and then `refusal` says why. A
    `pending` one asks back, and the call goes on with the next round."""

    __slots__ = (
        "ask", "closed", "confirmed", "decision", "handed_over", "metadata", "on_disk", "on_record", "outcome",
        "refusal", "result", "rule", "size", "snapshot", "started", "turn", "yes_by",
    )  # fmt: skip

    def __init__(self, ask: Ask, decision: Decision, snapshot: Snapshot) -> None:
        self.ask = ask
        self.decision = decision
        self.snapshot = snapshot
        """What was decided on."""
        self.started = time.perf_counter()
        self.on_record = ask.again
        self.handed_over = False
        """Whether the recorder has it, which will write it soon."""
        self.on_disk: int | None = None
        """How often recording had failed when this was known to be on the disk, which it has to be above read."""
        self.closed = False
        """Whether its record is, or is about to be: nothing of it may be sent from then on."""
        self.outcome: Outcome | None = UNFINISHED
        """`None` while it waits for its next round."""
        self.yes_by: str | None = None
        """Where a person said yes to it."""
        self.confirmed: Mapping[str, Any] = NOTHING
        """Who did, where that was outside of its client."""
        self.rule: str | None = None
        """What turned it down after all, where that was not the decision."""
        self.result: Mapping[str, Any] = NOTHING
        self.size = 0
        """Of the result as JSON, in bytes, once it is recorded."""
        self.metadata: Mapping[str, Any] = NOTHING
        """What its record says of an answer of our own."""
        self.turn: Callable[[], Awaitable[None]] | None = None
        """To be awaited before something is done with all of its result, where that is large."""
        self.refusal: Refusal | None = None

    @property
    def id(self) -> str:
        return self.ask.id

    @property
    def status(self) -> Status:
        return "pending" if self.outcome is None else self.outcome.status

    @property
    def warning(self) -> str | None:
        return self.decision.warning if isinstance(self.decision, Route) else None

    def answer(self, outcome: Outcome, result: Mapping[str, Any]) -> Call:
        self.outcome, self.result = outcome, result
        return self

    def refuse(self, refusal: Refusal, status: Status = "blocked") -> Call:
        """What a refusal says of arguments, names and servers is our own text, and leaves masked."""
        said = f"{refusal.message} {refusal.name}"
        if not said.isascii() or MASKER.named(said) or MASKER.shaped(said):
            refusal = without_secrets(refusal)
        self.refusal, self.rule, self.result = refusal, refusal.rule, tool_results.refused(refusal)
        self.outcome = events.refused(refusal, self.result, status)
        return self

    def ask_back(self, questions: Mapping[str, Any]) -> Call:
        self.outcome, self.result = None, questions
        return self


OWN_TOOLS: Final = frozenset({*VARIANTS, "retrieve_tools", "request_capability", "read_result"})
NONE: Final = "none"
"""The class of an ask that was turned down before its tool was known, or is about no tool."""


class CallLabels(NamedTuple):
    """What is counted as one."""

    variant: str
    tool_class: str
    outcome: Status
    rule: str


class CallCounters:
    def __init__(self) -> None:
        self.asks: Counter[CallLabels] = Counter()

    def count(self, ask: Ask, decision: Decision, rule: str, outcome: Status) -> None:
        """An ask has ended. `rule` decided in the end: a call that was allowed may still find no room."""
        variant = ask.tool if ask.surface == "gate" and ask.tool in OWN_TOOLS else variant_of(ask)
        tool_class = (decision.tool_class or NONE) if type(decision) is Route else class_of(decision)
        self.asks[CallLabels(variant, tool_class, outcome, rule)] += 1

    def by_variant(self) -> dict[str, dict[str, int]]:
        table: dict[str, dict[str, int]] = {}
        for kind, count in sorted(self.asks.items()):
            row = table.setdefault(kind.variant, {})
            row[kind.outcome] = row.get(kind.outcome, 0) + count
        return table


def variant_of(ask: Ask) -> str:
    """The gate's own tool that was called, or the surface where there is no choice of them."""
    if ask.surface in UNDECLARING:
        return ask.surface
    return ask.tool if ask.tool in OWN_TOOLS else "other"


def class_of(decision: Decision) -> str:
    return (decision.tool_class if isinstance(decision, Route | Refusal) else None) or NONE


log = logging.getLogger(__name__)

MOST_OF_ANSWERS: Final = 16_384
"""Bytes kept of what a client answers in one round."""
ROUND: Final = 512
"""Bytes that a round takes beside that, about."""
OWED: Final = 500
"""Events kept in memory while the record cannot be written; beyond that the oldest are lost, and counted."""


class EventLog(Protocol):
    """What the gateway needs of the store room. The first two raise `StoreUnavailable`."""

    def append(self, *events: Event) -> None: ...
    async def synced(self) -> None: ...
    async def acknowledged(self) -> None: ...


class Recorder:
    def __init__(
        self, journal: EventLog, masker: Masker, payload_bytes: int, policy: Callable[[], Policy], tally: CallCounters,
        share: RecordShare,
    ) -> None:  # fmt: skip
        self._journal = journal
        self._masker = masker
        self.mask = masker.mask
        self._payload_bytes = payload_bytes
        self._policy = policy
        self.tally = tally
        self._share = share
        self.acknowledged = journal.acknowledged
        """To be awaited before an answer leaves: everything that was recorded so far may be answered for."""
        self.unrecorded = 0
        """Asks that could not be recorded when they should have been. Never silent: counted, logged, shown."""
        self._later: list[Call] = []
        """Those whose ask is not on record yet."""
        self._owed: deque[Event] = deque(maxlen=OWED)
        """Their events, which go on record as soon as that works again."""

    def asked(self, ask: Ask, decision: Decision) -> dict[str, Any]:
        """What would go on record of this ask, for those who only want to see it."""
        return record_events.asked(ask, decision, self._policy(), self._payload_bytes, self._masker)

    def write_soon(self, call: Call) -> None:
        """The ask on record in the next turn of the event loop, while its server works on it already, or together with
        its end, if that is sooner. The calls of one turn share one write."""
        if call.on_record:
            return
        if not self._later:
            asyncio.get_running_loop().call_soon(self._catch_up)
        self._later.append(call)

    def _catch_up(self) -> None:
        """What cannot be written now goes on record with the end of its call, or is owed from then on."""
        calls, self._later = self._later, []
        with suppress(StoreUnavailable):
            self.write_ahead(*calls)

    def write_ahead(self, *calls: Call) -> None:
        """The asks on record before anybody else hears of them. Raises `StoreUnavailable`, which is counted then."""
        due = [call for call in calls if not call.on_record]
        if not due:
            return
        try:
            self._journal.append(*self._asked(due))
        except StoreUnavailable as error:
            for call in due:
                self._count_unrecorded(call.ask.id, error)
            raise
        for call in due:
            call.on_record = True

    async def synced(self, call: Call) -> None:
        """On disk too, where it may act on something. Raises and counts likewise."""
        try:
            await self._journal.synced()
        except StoreUnavailable as error:
            self._count_unrecorded(call.ask.id, error)
            raise

    def confirmed(self, ask_id: str, method: str) -> None:
        """A person's yes, used up by being written. Raises `StoreUnavailable`."""
        self._journal.append(record_events.round_trip(ask_id, time.time(), "confirmed", [method]))

    def finish(self, call: Call) -> None:
        """The one place that closes a record; one that waits for its next round stays open. Of a call that was refused
        before it had one, there may be none: then it is counted (SEC-7)."""
        ended, share = time.perf_counter(), self._share
        if ended >= share.until:
            share.roll(ended)
        refusal, who = call.refusal, call.ask.principal
        if refusal is not None and not call.on_record and not call.handed_over:
            used_up = share.of_refused.get(who, 0) >= share.most_refused or share.taken.get(who, 0) >= share.most
            if (used_up or refusal.rule in COUNTED) and self._is_only_counted(call, refusal):
                return
        events: list[Event] = [] if call.on_record else self._asked([call])
        call.on_record = True
        if call.outcome is not None:
            duration = (ended - call.started) * 1000
            event = record_events.finished_text(
                call.ask.id, time.time(), call.outcome, duration, self._payload_bytes, self._masker
            )
            call.size = event.size
            used = share.taken[who] = share.taken.get(who, 0) + len(event.head) + len(event.payload)
            if refusal is not None:
                share.of_refused[who] = share.of_refused.get(who, 0) + len(event.head) + len(event.payload)
            events.append(event if used < share.whole else share.without_payload(who, event))
            self.tally.count(call.ask, call.decision, call.rule or call.decision.rule, call.outcome.status)
        self._append(call.ask.id, events)

    def _is_only_counted(self, call: Call, refusal: Refusal) -> bool:
        """What the gateway itself asks is not; there is little of that."""
        if call.ask.source == "internal":
            return False
        if refusal.rule not in COUNTED:
            self._share.refused(call.ask.principal)
        self.tally.count(call.ask, call.decision, refusal.rule, "blocked")
        return True

    def note_round(self, ask_id: str, kind: str, methods: Sequence[str]) -> None:
        """The server asked back, or was answered: on record between the ask and its end."""
        self._catch_up()
        self._append(ask_id, [record_events.round_trip(ask_id, time.time(), kind, methods, masker=self._masker)])

    def give_up(self, ask_id: str) -> None:
        """End an ask whose next round never came here. It may have gone to another gateway, which then knows better."""
        self._append(
            ask_id,
            [record_events.finished_text(ask_id, time.time(), TIMED_OUT, None, self._payload_bytes, self._masker)],
        )

    def end_later(self, ask_id: str, principal: str, outcome: Outcome, duration_ms: float | None) -> None:
        """The end of a call that was answered with a task, seen by somebody; without a duration, as it was guessed."""
        event = record_events.finished_text(
            ask_id, time.time(), outcome, duration_ms, self._payload_bytes, self._masker
        )
        share = self._share
        used = share.taken[principal] = share.taken.get(principal, 0) + len(event.head) + len(event.payload)
        self._append(ask_id, [event if used < share.whole else share.without_payload(principal, event)])

    def _asked(self, calls: Sequence[Call]) -> list[Event]:
        limit, masker = self._payload_bytes, self._masker
        events: list[Event] = []
        share, taken = self._share, self._share.taken
        for call in calls:
            who = call.ask.principal
            event = record_events.asked_text(call.ask, call.decision, call.snapshot.policy, limit, masker)
            used = taken[who] = taken.get(who, 0) + len(event.head) + len(event.payload)
            refused = 0 if call.refusal is None else share.of_refused.get(who, 0)
            if used >= share.whole or refused >= share.most_refused // 2:
                event = share.without_payload(who, event)
            if call.refusal is not None:
                share.of_refused[who] = refused + len(event.head) + len(event.payload)
            events.append(event)
        return events

    def _append(self, ask_id: str, events: Sequence[Event]) -> None:
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

    # Of later rounds, and what clients answer in mid-call.

    def answered(self, call: Call, methods: Sequence[str], said: Any, *, ahead: bool) -> None:
        """What a client answered, masked and bounded, before its server hears of it. With `ahead` raises
        `StoreUnavailable`, which is counted then; without, it is owed where it cannot be written."""
        self._catch_up()
        share, who = self._share, call.ask.principal
        text = self._masker.payload(said, min(self._payload_bytes, MOST_OF_ANSWERS))[0]
        kept = text if share.taken.get(who, 0) < share.whole else NOT_KEPT
        share.taken[who] = share.taken.get(who, 0) + len(kept) + ROUND
        event = record_events.round_trip(call.ask.id, time.time(), "answered", methods, json.loads(kept), self._masker)
        if call.ask.again and call.ask.meta:
            event["forwarded"] = call.ask.meta
        if not ahead:
            self._append(call.ask.id, [event])
            return
        try:
            self._journal.append(event)
        except StoreUnavailable as error:
            self._count_unrecorded(call.ask.id, error)
            raise
