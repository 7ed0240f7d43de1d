"""Pins of servers (SEC-3): what each listed when it was approved, and what becomes of a listing that says otherwise.

All that is approved is in memory, read at the start from records with a seal. Each listing is held against it before it
is published. What policy approves is written at once; of two gateways that see a server for the first time the first to
write wins, and the other holds its listing against that. What the database cannot tell is not approved: a first listing
counts only where the database says that there was none before. What it cannot take at the moment is in force, and
written as soon as it can.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

import anyio

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.pins.judge import approve, reject
from mcpproxy_py.core.pins.listing import PROMPT, PinnedListing, listing_of
from mcpproxy_py.core.values import Caller
from mcpproxy_py.errors import Code, GatewayError, StoreUnavailable
from mcpproxy_py.gateway.approvals import OnRecord
from mcpproxy_py.gateway.pins.parts import Part, ServerPins, approved_after, merged, of_part
from mcpproxy_py.gateway.pins.review import PinReview, findings_of, review_of, rows_of, without_removed
from mcpproxy_py.gateway.pins.storage import KIND, Pin, PinStorage, beside
from mcpproxy_py.store.cluster.event_bus import RESYNC
from mcpproxy_py.store.sealed_records import RecordConflict
from mcpproxy_py.upstream.lists.in_force import Listing, ListingInForce, SaidListing
from mcpproxy_py.upstream.spec import UpstreamSpec

log = logging.getLogger(__name__)

PinStep = Literal["approve", "reject"]
TRIES: Final = 5
AGAIN: Final = 1.0
LONGEST_PAUSE: Final = 30.0
MOST_SUBJECTS: Final = 50_000
"""That policy approves of one server: one that lists other names each time must not fill the database."""
MOST_ON_RECORD: Final = 50
MOST_DIFFERENCES: Final = 2_000
POLICY: Final = "policy"


class PinService:
    """Raises `GatewayError` for what cannot be done, and `StoreUnavailable`. A listing it always judges."""

    def __init__(
        self, storage: PinStorage, on_event: Callable[[Callable[[str, Any], None]], Callable[[], None]],
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """`on_event` tells of what other gateways do."""
        self._storage = storage
        self._on_event = on_event
        self._now = now
        self._pins: dict[str, Pin] = {}
        self._servers: dict[str, ServerPins] = {}
        self._turns: dict[str, anyio.Lock] = defaultdict(anyio.Lock)
        self._stale: set[str] = set()
        """Servers whose pin has to be read again, or written."""
        self._wake = asyncio.Event()
        self._judge_again: Callable[[str], Awaitable[None]] = _nobody
        self._configured: Callable[[], Container[str]] = lambda: self._servers
        self._on_record: OnRecord | None = None

    async def load(self) -> None:
        """All of them. Where the database does not answer, each is read when its server is listed."""
        try:
            self._pins = await self._storage.all()
            await self._storage.tidy(list(self._pins.values()))
        except StoreUnavailable as error:
            log.warning("the pins of servers could not be read: %s", error.message)

    def serve(
        self,
        on_record: OnRecord,
        judge_again: Callable[[str], Awaitable[None]],
        configured: Callable[[], Container[str]] | None = None,
    ) -> None:
        """`judge_again` makes the upstream room ask again what is in force of a server. `configured` gives the names
        of all servers: no listing is compared with the tools of a removed one."""
        self._on_record, self._judge_again = on_record, judge_again
        self._configured = configured or self._configured

    # -- what the upstream room asks

    async def judged(self, spec: UpstreamSpec, said: SaidListing) -> ListingInForce:
        listed = await beside(partial(listing_of, said.tools, said.instructions, about=said.about))
        async with self._turns[spec.name]:
            review = await self._reviewed(spec, listed, "listing", said.heard)
            state = self._state(spec)
            state.listing = review
            self._tell(state)
            return review.in_force(spec.name, spec.trust)

    async def judged_prompts(self, spec: UpstreamSpec, said: Listing) -> Listing:
        listed = await beside(partial(listing_of, [], None, said))
        async with self._turns[spec.name]:
            review = await self._reviewed(spec, listed, "prompts", True)
            state = self._state(spec)
            state.prompts = review
            self._tell(state)
            waits = {subject.removeprefix(PROMPT) for subject in review.judged.waiting}
            approved = (review.pin.approved or PinnedListing()).prompts.keys()
            shown = review.judged.in_force.prompts
            return [dict(wire) for name, wire in shown.items() if name in approved or name not in waits]

    async def _reviewed(self, spec: UpstreamSpec, listed: PinnedListing, part: Part, heard: bool) -> PinReview:
        server, sure = spec.name, True
        for _ in range(TRIES):
            pin = self._pins[server] = await beside(partial((await self._known(server)).named, listed))
            review = await self._review(spec, listed, pin, part, heard and sure)
            to_keep = review.judged.to_keep
            if to_keep is None or not heard:
                return review
            kept = merged(pin, to_keep, part, review)
            if len(kept.tools) + len(kept.prompts) > MOST_SUBJECTS:
                sure = False  # from here on a person has to want more of them
                continue
            try:
                await self._keep_by_policy(server, pin, kept, part, review)
                return review
            except RecordConflict:  # another gateway was first: what it wrote is what this is held against
                self._pins.pop(server, None)
        return await self._review(spec, listed, Pin(unread="it is changed all the time"), part, heard)

    async def _review(self, spec: UpstreamSpec, listed: PinnedListing, pin: Pin, part: Part, sure: bool) -> PinReview:
        """What is only remembered of a server, without a seal, may add nothing to what is approved."""
        configured = self._configured()
        mine = of_part(replace(pin, findings=without_removed(pin.findings, configured)), part)
        if part == "listing" and not sure and mine.approved is not None and listed.instructions is None:
            listed = replace(listed, instructions=mine.approved.instructions)
        others = {
            name: list(state.listing.judged.in_force.tools.values())
            for name, state in self._servers.items()
            if name != spec.name and name in configured and state.listing is not None
        }
        manual = spec.trust == "manual" or (not sure and mine.approved is not None)
        return await beside(
            partial(review_of, mine, listed, manual=manual, trusted=spec.trust_annotations, server=spec.name,
                    others=others)
        )  # fmt: skip

    async def _known(self, server: str) -> Pin:
        pin = self._pins.get(server)
        if pin is not None and pin.unread is None:
            return pin
        try:
            pin = await self._storage.one(server)
        except StoreUnavailable as error:
            pin = Pin(unread=error.message)
            self._later(server)
        self._pins[server] = pin
        return pin

    async def _keep_by_policy(self, server: str, pin: Pin, kept: PinnedListing, part: Part, review: PinReview) -> None:
        def made() -> tuple[Pin, dict[str, Any]]:
            approved = pin.approved or PinnedListing()
            subjects = [each for each in kept.subjects() if approved.digest_of(each) is None]
            after = approved_after(pin, kept, POLICY, prompts_read=pin.prompts_read or part == "prompts",
                              findings={each: rows_of(found) for each, found in review.findings.items()})  # fmt: skip
            why = "first listing" if pin.version == 0 else "new or riskier than before"
            return after, {"step": "approve", "by": POLICY, "why": why, **_on_record_of(subjects)}

        after, details = await beside(made)
        try:
            self._pins[server] = await self._storage.keep(server, after, details)
        except StoreUnavailable as error:
            log.warning("%s: what is approved of it could not be written yet: %s", server, error.message)
            self._pins[server] = replace(after, unwritten=True, at=self._now())
            self._later(server)

    def _state(self, spec: UpstreamSpec) -> ServerPins:
        state = self._servers.setdefault(spec.name, ServerPins(spec))
        state.spec = spec
        return state

    def _tell(self, state: ServerPins) -> None:
        """Once for each state of things: a server must not be able to fill the log."""
        server, waiting = state.spec.name, state.waiting()
        blocked = len(state.listing.judged.blocked) if state.listing else 0
        now = state.seen if waiting else ""
        if now and now != state.told:
            unusable = next((each.pin.unusable for each in state.reviews if each.pin.unusable), None)
            log.warning(
                "%s: %s (%d to decide, %d tools blocked until then); see `mcpproxy pins diff %s`. If the server is "
                "your own and you work on it: `mcpproxy pins approve --server %s --all`",
                server, unusable or "what it lists is not what was approved", len(waiting), blocked, server, server,
            )  # fmt: skip
        state.told = now

    # -- what a person asks

    def rows(self) -> list[dict[str, Any]]:
        """Each server that has a pin or was listed."""
        return [self._row(name) for name in sorted(self._pins.keys() | self._servers.keys())]

    def server_pins(self, server: str) -> ServerPins:
        """Raises `KeyError` where it was not listed in this life."""
        return self._servers[server]

    async def show(self, server: str, *, texts: bool = False) -> dict[str, Any]:
        state, pin = self._servers.get(server), self._pins.get(server)
        if state is None and (pin is None or pin.version == 0):
            raise GatewayError(Code.NOT_FOUND, f"There is no pin of a server '{quoted(server)}'",
                               details={"servers": [row["server"] for row in self.rows()]})  # fmt: skip
        more: dict[str, Any] = {
            "differences": [],
            "cut": 0,
            "blocked_tools": {},
            "finding_rows": {},
            "refused": [],
            "seen": None,
        }
        if state is not None:
            found = [each for waits in state.waiting().values() for each in waits]
            more = {
                "differences": [each._asdict() for each in found[:MOST_DIFFERENCES]],
                "cut": max(0, len(found) - MOST_DIFFERENCES),
                "blocked_tools": dict(state.listing.judged.blocked) if state.listing else {},
                "finding_rows": {
                    subject: [dict(zip(("kind", "where", "excerpt", "text"), row, strict=True)) for row in rows]
                    for each in state.reviews for subject, rows in findings_of(each).items()
                },
                "refused": [each for review in state.reviews for each in review.refused],
                "seen": state.seen,
            }  # fmt: skip
        if texts:
            approved = (pin.approved if pin else None) or PinnedListing()
            more["approved_texts"] = await beside(approved.as_json)
        return {**self._row(server), **more}

    async def decide(
        self, server: str, step: PinStep, subjects: Sequence[str] | None, seen: str, by: Caller,
        said: Mapping[str, Any],
    ) -> dict[str, Any]:  # fmt: skip
        """`seen` is what was shown to whoever decides: what has changed since is not decided about. `said` goes on
        record with it."""
        async with self._turns[server]:
            state = self._servers.get(server)
            if state is None:
                await self.show(server)
                raise GatewayError(Code.CONFLICT, f"'{server}' was not listed since this gateway started")
            waiting = state.waiting()
            refused = [each for review in state.reviews for each in review.refused]
            if not waiting and not subjects:
                raise GatewayError(Code.CONFLICT, f"Nothing of '{server}' waits for a decision")
            if seen != state.seen:
                remedy = f"Look again: mcpproxy pins diff {server}"
                raise GatewayError(Code.CONFLICT, f"What '{server}' lists has changed meanwhile; nothing was decided",
                                   details={"remedy": remedy})  # fmt: skip
            chosen = list(waiting) if subjects is None else _chosen(subjects, {**waiting, **dict.fromkeys(refused)})
            pin = self._pins.get(server, Pin())
            if pin.unusable is not None and set(chosen) != set(waiting):
                raise GatewayError(Code.CONFLICT, f"'{server}': {pin.unusable}, so it is decided as a whole")
            await self._decide(state, pin, step, chosen, by, said)
        await self._judge_again(server)
        return await self.show(server)

    async def _decide(
        self, state: ServerPins, pin: Pin, step: PinStep, chosen: list[str], by: Caller, said: Mapping[str, Any]
    ) -> None:
        server, base = state.spec.name, None if pin.unusable else pin.approved
        change = approve if step == "approve" else reject
        kept = await beside(partial(change, base, state.listed(), chosen))
        found = {each: rows for review in state.reviews for each, rows in findings_of(review).items() if each in chosen}
        read = pin.prompts_read or any(each.startswith(PROMPT) for each in chosen)
        after = approved_after(pin, kept, by.principal, prompts_read=read, findings=found if step == "approve" else {})
        after = replace(after, known_by_digest={
            each: known for each, known in after.known_by_digest.items() if step == "reject" or each not in chosen
        })  # fmt: skip
        details = {"step": step, "by": by.principal, "source": by.source, **said, **_on_record_of(chosen)}

        async def act() -> None:
            try:
                self._pins[server] = await self._storage.keep(server, after, details)
            except RecordConflict:
                self._later(server)
                raise GatewayError(Code.CONFLICT, f"The pin of '{server}' was changed elsewhere meanwhile; nothing "
                                                  "was decided") from None  # fmt: skip

        if self._on_record is None:
            raise GatewayError(Code.INTERNAL, "nobody can decide yet")
        await self._on_record(f"{step}_pins", server, by, {**said, **_on_record_of(chosen)}, act)

    def _row(self, server: str) -> dict[str, Any]:
        state, pin = self._servers.get(server), self._pins.get(server, Pin())
        approved = pin.approved or PinnedListing()
        waiting = state.waiting() if state else {}
        return {
            "server": server,
            "trust": state.spec.trust if state else None,
            "tools": len(approved.tools) + sum(each.startswith("tool:") for each in pin.known_by_digest),
            "prompts": len(approved.prompts),
            "instructions": approved.instructions is not None,
            "waiting": len(waiting),
            "blocked": len(state.listing.judged.blocked) if state and state.listing else 0,
            "findings": len({subject for each in state.reviews for subject in findings_of(each)}) if state else 0,
            "rejected": sorted(approved.rejected)[:MOST_DIFFERENCES],
            "unusable": pin.unusable,
            "unwritten": pin.unwritten,
            "version": pin.version,
            "by": pin.by or None,
            "at": pin.at,
        }

    # -- what other gateways do, and what could not be done at once

    async def run(self) -> None:
        """Endless."""
        loop, here = asyncio.get_running_loop(), threading.get_ident()

        def listen(kind: str, payload: Any) -> None:
            if kind == RESYNC:
                loop.call_soon_threadsafe(self._later, *self._pins, *self._servers)
            elif kind == "record" and threading.get_ident() != here:  # what we wrote ourselves we know
                match payload:
                    case [str(of), str(server)] if of == KIND:
                        loop.call_soon_threadsafe(self._later, server)
                    case _:
                        return

        end = self._on_event(listen)
        try:
            pause = AGAIN
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._catch_up()
                pause = min(2 * pause, LONGEST_PAUSE) if self._stale else AGAIN
                if self._stale:
                    await anyio.sleep(pause)
                    self._wake.set()
        finally:
            end()

    def _later(self, *servers: str) -> None:
        self._stale.update(servers)
        self._wake.set()

    async def _catch_up(self) -> None:
        due, self._stale = self._stale, set()
        for server in due:
            try:
                async with self._turns[server]:
                    another = await self._caught_up(server)
                if another:
                    await self._judge_again(server)
            except StoreUnavailable:
                self._stale.add(server)
            except Exception:
                log.exception("%s: its pin could not be looked at again", server)

    async def _caught_up(self, server: str) -> bool:
        """Whether something else is approved now."""
        pin = self._pins.get(server)
        if pin is not None and pin.unwritten:
            try:
                self._pins[server] = await self._storage.keep(server, pin, {"step": "approve", "by": POLICY,
                                                                            "why": "written late"})  # fmt: skip
                return False
            except RecordConflict:
                self._pins.pop(server, None)
        found = await self._storage.one(server)
        if pin is not None and (found.version, found.doubt, pin.unread) == (pin.version, pin.doubt, None):
            return False
        self._pins[server] = found
        return True


def _chosen(subjects: Sequence[str], waiting: Mapping[str, Any]) -> list[str]:
    unknown = [each for each in subjects if each not in waiting]
    if unknown:
        named = ", ".join(quoted(each) for each in unknown[:5])
        raise GatewayError(Code.NOT_FOUND, f"This waits for no decision: {named}",
                           details={"waiting": list(waiting)[:MOST_ON_RECORD]})  # fmt: skip
    return list(dict.fromkeys(subjects))


def _on_record_of(subjects: Sequence[str]) -> dict[str, Any]:
    return {"subjects": list(subjects[:MOST_ON_RECORD]), "count": len(subjects)}


async def _nobody(server: str) -> None:
    return
