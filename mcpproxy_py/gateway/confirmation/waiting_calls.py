"""The calls that wait for a person outside of their clients, and that person's word (SEC-10).

Each is a sealed record (`store/sealed_records`) with a version, so of two people one is first, whichever gateways they
are at, and what somebody else wrote into the database, or put back, decides nothing. A yes lets nothing through by
itself: the gateway where the call waits reads it, holds it against the arguments that it has in memory, and takes it
once. When its client is gone, so is the call from there, and a yes that comes later finds nobody. A yes from elsewhere
is acknowledged, so that whoever said it learns whether it arrived.

The records are places that each gateway uses again, the oldest first: its last thousand stay to be seen here, and all
of them on record.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import anyio

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.protocol.constants import INTERNAL_ERROR
from mcpproxy_py.core.record import events
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.values import Ask, Caller, Relay, Route
from mcpproxy_py.errors import Code, GatewayError, RpcError, StoreUnavailable
from mcpproxy_py.gateway.access.tokens import OnRecordAct
from mcpproxy_py.gateway.approvals import MOST_CANDIDATES, Verdict, ambiguous, source_of
from mcpproxy_py.gateway.confirmation.liveness import GatewayLiveness, WaitingCallStore
from mcpproxy_py.gateway.confirmation.waiting_call import (
    ConfirmationStatus,
    OpenCall,
    WaitingCall,
    gateway_of,
    ids_meant,
    waiting_call,
)
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.store.cluster.event_bus import RESYNC
from mcpproxy_py.store.sealed_records import RecordConflict, SealedRecord, tells_of

log = logging.getLogger(__name__)

KIND: Final = "confirmation"
PLACES: Final = 1000
MOST_WAITING: Final = 500
"""At one gateway, of all principals."""
POLL: Final = 10.0
"""Seconds after which a gateway of several reads again what it should have heard of."""
AGAIN: Final = 1.0
SETTLE: Final = 5.0
DELIVERY: Final = 3.0
"""Seconds in which another gateway should have taken up a yes, before its person is told that it has not."""
REMEDY: Final = "See `mcpproxy approvals list`. A decision is final; the agent can call again."


class WaitingCalls:
    """Raises `GatewayError` for what cannot be done, and `StoreUnavailable`."""

    def __init__(
        self,
        store: WaitingCallStore,
        gateway_name: str,
        append: Callable[[Mapping[str, Any]], None],
        new_id: Callable[[float], str],
        masker: Masker = MASKER,
        *,
        on_waiting: Callable[[WaitingCall], None] = lambda call: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`append` puts an event on record, for those who follow them; `on_waiting` is told of each new one."""
        self._store = store
        self._gateway = gateway_name
        self._append = append
        self._new_id = new_id
        self._masker = masker
        self._on_waiting = on_waiting
        self._now = now
        self._on_record: OnRecordAct | None = None
        self._known: dict[str, tuple[WaitingCall, int]] = {}
        """By the name of the record: the call, and its version."""
        self._open: dict[str, OpenCall] = {}
        """Those that wait here, likewise."""
        self._free: deque[str] = deque()
        self._closing: set[asyncio.Task[None]] = set()
        self._delivering: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Semaphore(1)
        """Of our writes: the threads are for everybody."""
        self._loading = asyncio.Lock()
        self._is_loaded = False
        self._heard = asyncio.Event()
        self._changed = asyncio.Event()
        """Set once, at the next change of a record; then another one takes its place."""
        self._liveness = GatewayLiveness(store)
        self._due: set[str] | None = None
        """Names of records to be read again; `None`: all."""

    def serve(self, on_record: OnRecordAct) -> None:
        self._on_record = on_record

    # For the call that waits.

    @property
    def is_full(self) -> bool:
        return len(self._open) + len(self._closing) >= MOST_WAITING

    @asynccontextmanager
    async def waiting(self, ask: Ask, to: Route | Relay, question: str, patience: float) -> AsyncIterator[OpenCall]:
        """For as long as it waits. Whatever ends that, no yes is left behind that could still be taken."""
        await self._ready()
        if not self._free:
            raise RpcError(INTERNAL_ERROR, "too many calls wait for a person")
        now, name = self._now(), self._free.popleft()
        call = waiting_call(self._new_id(now), ask, to, question, self._masker, now, patience)
        opened = OpenCall(call, name, asyncio.get_running_loop().create_future())
        self._open[name] = opened
        try:
            opened.writing = asyncio.get_running_loop().create_task(self._put(name, call, None))
            await asyncio.shield(opened.writing)
            self._tell(call)
            self._on_waiting(call)
            yield opened
        finally:
            del self._open[name]
            closing = asyncio.get_running_loop().create_task(self._close(opened, opened.closes_as))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def end(self, principal: str) -> None:
        """Its access has ended."""
        for opened in self._open.values():
            if opened.call.principal == principal:
                opened.end("its token was revoked, or has expired")

    def end_all(self, why: str) -> None:
        for opened in self._open.values():
            opened.end(why)

    async def settle(self) -> None:
        """What ended here is written down, or not: at the next start it is."""
        if writing := self._closing | self._delivering:
            await asyncio.wait(writing, timeout=SETTLE)

    async def _close(self, opened: OpenCall, status: ConfirmationStatus) -> None:
        if opened.writing is not None:
            await asyncio.wait([opened.writing])
        try:
            await self._close_record(opened.name, opened.call.id, status, is_taken=opened.is_taken)
        except StoreUnavailable as error:
            log.warning("it is not written down yet that the call %s is %s: %s", opened.call.id, status, error.message)
        self._free.append(opened.name)

    async def _close_record(self, name: str, call_id: str, status: ConfirmationStatus, *, is_taken: bool) -> None:
        """A yes that nobody took is taken back."""
        while (known := self._known.get(name)) is not None and known[0].id == call_id:
            call, version = known
            if call.status != "waiting" and (is_taken or call.status != "approved"):
                return
            try:
                after = replace(call, status=status)
                await self._put(name, after, version)
                return self._tell(after)
            except RecordConflict:
                await self._read(name)
                if self._known.get(name) == known:
                    return None
        return None

    # For people.

    async def page(self, status: ConfirmationStatus | None, before: str | None, limit: int) -> list[dict[str, Any]]:
        """The newest first, older than `before` where that is given."""
        await self._ready_to_show()
        seen = sorted(map(self._as_seen, self._known), key=lambda call: call.id, reverse=True)
        found = (call for call in seen if status in (None, call.status) and (before is None or call.id < before))
        return [call.shown() for call in islice(found, limit)]

    async def show(self, typed: str) -> dict[str, Any]:
        await self._ready_to_show()
        return self._as_seen(self._found(typed)).shown()

    async def decide(self, typed: str, arguments_sha256: str, verdict: Verdict, by: Caller) -> dict[str, Any]:
        """A person's word, which is final, to the call with exactly these arguments."""
        await self._ready_to_show()
        name = self._found(typed)
        call = self._known[name][0]
        if arguments_sha256 != call.arguments_sha256:
            message = f"These are not the arguments of {call.id}: nothing was decided"
            raise GatewayError(Code.CONFLICT, message, details={"remedy": "Look at the call again, then decide."})
        details = {
            "confirmation_id": call.id, "activity_id": call.activity_id, "tool": call.tool,
            "arguments_sha256": call.arguments_sha256, "name": verdict.name, "notes": verdict.notes,
            "terminal": verdict.terminal,
        }  # fmt: skip
        assert self._on_record is not None
        self._must_wait(name, call.id)
        after = await self._on_record(
            f"{verdict.step}_call", call.server, by, details, lambda: self._decide(name, call.id, verdict, by)
        )
        return (await self._delivered(name, after) if after.is_undelivered else after).shown()

    async def _delivered(self, name: str, said: WaitingCall) -> WaitingCall:
        """As it is once the gateway where it waits has the yes, or has not for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DELIVERY):
                while self._known[name][0] == said:
                    await self._changed.wait()
        seen = self._as_seen(name)
        return seen if seen.id == said.id else said

    async def _decide(self, name: str, call_id: str, verdict: Verdict, by: Caller) -> WaitingCall:
        call, version = self._must_wait(name, call_id)
        who = {"principal": by.principal, "name": verdict.name, "source": source_of(by), "terminal": verdict.terminal}
        after = replace(
            call,
            status="approved" if verdict.step == "approve" else "denied",
            decided_at=self._now(),
            decided_by=self._masker.mask(who),
            notes=verdict.notes and self._masker.mask_text(verdict.notes),
            delivered=self._is_own(name) if verdict.step == "approve" else None,
        )
        try:
            await self._put(name, after, version)
        except RecordConflict:
            await self._read(name)
            self._must_wait(name, call_id)
            raise self._conflict(call_id, "was changed meanwhile") from None
        self._tell(after)
        return after

    def _must_wait(self, name: str, call_id: str) -> tuple[WaitingCall, int]:
        """Where it waits here, this process knows best."""
        call, version = self._known[name]
        seen = self._as_seen(name)
        if call.id != call_id:
            raise self._conflict(call_id, "no longer waits")
        if seen.status != "waiting":
            by = seen.decided_by or {}
            who = f" by {by.get('name') or by.get('principal')}" if seen.decided_by else ""
            raise self._conflict(call_id, f"is {seen.status}{who}")
        return call, version

    def _conflict(self, call_id: str, how: str) -> GatewayError:
        return GatewayError(Code.CONFLICT, f"The call {call_id} {how}", details={"remedy": REMEDY})

    def _found(self, typed: str) -> str:
        """The name of its record, by its whole id, or by a beginning of it that only one has."""
        names = {call.id: name for name, (call, _) in self._known.items()}
        if typed in names:
            return names[typed]
        meant = sorted(ids_meant(typed, names))
        if not meant:
            raise GatewayError(Code.NOT_FOUND, f"There is no call '{quoted(typed)}' that waits, or waited lately")
        if len(meant) > 1:
            calls = [self._as_seen(names[each]) for each in meant[: MOST_CANDIDATES + 1]]
            raise ambiguous(typed, [{"id": call.id, "status": call.status, "tool": call.tool} for call in calls])
        return names[meant[0]]

    def _as_seen(self, name: str) -> WaitingCall:
        call = self._known[name][0].at(self._now())
        opened = self._open.get(name)
        waits_here = opened is not None and opened.call.id == call.id and not opened.decision.done()
        if call.status == "waiting" and self._is_own(name) and not waits_here:
            return replace(call, status="cancelled")
        if self._is_far(name, call) and self._liveness.has_gone(gateway_of(name)):
            return replace(call, status="cancelled")
        return call

    def _is_far(self, name: str, call: WaitingCall) -> bool:
        """Whether another gateway has to be there, for something to come of it."""
        return (call.status == "waiting" or call.is_undelivered) and not self._is_own(name)

    async def erase(self, activity_id: str) -> None:
        """The record of this call was erased, and so is what was kept to show it to people."""
        await self._ready()
        for name, (call, version) in list(self._known.items()):
            if call.activity_id == activity_id:
                gone = {"arguments": None, "reason": None, "warning": None, "question": "", "notes": None}
                await self._put(name, replace(call, **gone), version)

    # What the database says.

    async def run(self) -> None:
        """Endless: hears of what other gateways wrote, and reads it."""
        loop = asyncio.get_running_loop()

        def hear(kind: str, payload: Any) -> None:
            if tells_of(KIND, kind, payload):
                loop.call_soon_threadsafe(self._note, None if kind == RESYNC else str(payload[1]))

        end = self._store.on_event(hear)
        try:
            while True:
                due, self._due = self._due, set()
                self._heard.clear()
                try:
                    await self._look(due)
                except StoreUnavailable as error:
                    log.warning("cannot read which calls wait for a person: %s", error.message)
                    self._note(None)
                    await anyio.sleep(AGAIN)
                with anyio.move_on_after(POLL if self._store.shared else None):
                    await self._heard.wait()
                if not self._heard.is_set():
                    self._note(None)
        finally:
            end()

    async def _ready(self) -> None:
        """All were read once. Raises `StoreUnavailable`."""
        if not self._is_loaded:
            await self._look(None)

    async def _ready_to_show(self) -> None:
        await self._ready()
        now = self._now()
        if any(self._is_far(name, call.at(now)) for name, (call, _) in self._known.items()):
            await self._liveness.look()

    def _note(self, name: str | None) -> None:
        if name is None:
            self._due = None
        elif self._due is not None:
            self._due.add(name)
        self._heard.set()

    async def _look(self, due: set[str] | None) -> None:
        begins = not self._is_loaded
        if due is None:
            async with self._loading:
                found = await self._store.sealed_records(KIND)
                for name, record in found.believed.items():
                    self._take(name, record)
                if not self._is_loaded:
                    self._begin()
        else:
            for name in due:
                await self._read(name)
        await self._tidy(begins)

    def _begin(self) -> None:
        """Places that were never used go first, then those of the oldest calls."""
        own = [f"{self._gateway}/{number:03}" for number in range(PLACES)]
        used = [name for name in own if name in self._known]
        used.sort(key=lambda name: self._known[name][0].id)
        self._free.extend([*(name for name in own if name not in self._known), *used])
        self._is_loaded = True

    async def _tidy(self, begins: bool) -> None:
        """What an earlier life of ours left, or could not write down: nobody waits there any more."""
        for name, (call, _) in list(self._known.items()):
            is_left = call.status == "waiting" or (begins and call.is_undelivered)
            if is_left and self._is_own(name) and name not in self._open:
                await self._close_record(name, call.id, "cancelled", is_taken=False)

    def _is_own(self, name: str) -> bool:
        return gateway_of(name) == self._gateway

    async def _read(self, name: str) -> None:
        record = await self._store.sealed_record(KIND, name)
        if isinstance(record, SealedRecord):
            self._take(name, record)

    async def _put(self, name: str, call: WaitingCall, expected: int | None) -> None:
        about = {"id": call.id, "status": call.status, "arguments_sha256": call.arguments_sha256}
        async with self._one_at_a_time:
            record = await self._store.put_sealed_record(KIND, name, call.as_json(), expected=expected, details=about)
        self._take(name, record)

    def _take(self, name: str, record: SealedRecord) -> None:
        """Never an older one: two may come in another order than they were written."""
        known = self._known.get(name)
        if known is not None and known[1] >= record.version:
            return
        try:
            call = WaitingCall.from_json(record.value)
        except TypeError:
            log.error("the waiting call in %s was written by another version and cannot be read", name)
            return
        self._known[name] = call, record.version
        self._changed.set()
        self._changed = asyncio.Event()
        if (opened := self._open.get(name)) is not None and opened.decide(call) and call.is_undelivered:
            task = asyncio.get_running_loop().create_task(self._acknowledge(name, call, record.version))
            self._delivering.add(task)
            task.add_done_callback(self._delivering.discard)

    async def _acknowledge(self, name: str, call: WaitingCall, version: int) -> None:
        """Beside the call, which does not wait for it. Where it was closed meanwhile, that says more."""
        try:
            await self._put(name, replace(call, delivered=True), version)
        except RecordConflict:
            return
        except StoreUnavailable as error:
            log.warning("the yes to %s is here, and that is not written down: %s", call.id, error.message)

    def _tell(self, call: WaitingCall) -> None:
        """What is done is done, also where nobody can be told of it."""
        try:
            self._append(events.confirmation_step(call.id, self._now(), call.status))
        except StoreUnavailable as error:
            log.error("no event was sent that the call %s is %s: %s", call.id, call.status, error.message)
