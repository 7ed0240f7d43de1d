"""How many calls a server gets at a time, and over which of its sessions each goes (UP-5, UP-7).

How many calls one server gets at a time, and what happens to those that come on top (UP-7).

Places held by questions that nobody comes back to, taken away when other calls wait for one (UP-5, UP-7).

A client of the modern era that was told the questions of its call is away until it answers, and nobody can say whether
it ever will. While there is room that costs nothing. When there is none, and another call waits, whoever was away
longest has had its time.

What went to one server and how long it took, in buckets whose number does not grow with the traffic.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from mcpproxy_py.core.values import ServerState
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.calls.legacy_sessions import LegacySessions
from mcpproxy_py.upstream.calls.session_pool import MAX_EXTRA, SessionPool
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.session.rpc import PendingRequest
from mcpproxy_py.upstream.session.session import UpstreamSession
from mcpproxy_py.upstream.spec import Sessions, UpstreamSpec

KEPT_BACK: Final = 5
"""One in so many slots is for other principals than the one that takes all it can; with fewer slots, none is."""
NO_QUOTA: Final = frozenset(("", "local"))
"""The gateway itself, and callers without a token on this machine, who can also change the configuration."""


class CallSlots:
    """At most `width` in flight and `room` waiting (as many, if not told); the next is refused at once.

    Each principal has a quota: a fifth of the slots, and of the queue, is kept for the others (SEC-7), and one call of
    each may always wait. A slot that becomes free goes to the principal with the fewest calls in flight, and of these
    to the one whose queue is the oldest.
    """

    def __init__(self, width: int, on_wait: Callable[[], None] = lambda: None) -> None:
        """`on_wait` is called for each that has to wait."""
        self.in_flight = 0
        self.waiting = 0
        self._width = self._room = max(1, width)
        self._taken: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._on_wait = on_wait

    def resize(self, width: int, room: int | None = None) -> None:
        self._width = max(1, width)
        self._room = max(1, width if room is None else room)
        self._admit()

    @asynccontextmanager
    async def place(self, patience: float, principal: str = "") -> AsyncIterator[None]:
        """Raises `UpstreamFailure(OVERLOADED)`; nothing was sent then."""
        if not self.acquire(principal):
            await self.wait(patience, principal)
        try:
            yield
        finally:
            self.release(principal)

    def acquire(self, principal: str) -> bool:
        """Takes a slot where one is free for this principal. Every slot, from here or from `wait`, has to be
        released."""
        width = self._width
        if self.in_flight >= width:
            return False
        if self._taken[principal] >= width - width // KEPT_BACK and principal not in NO_QUOTA:
            return False
        self._taken[principal] += 1
        self.in_flight += 1
        return True

    def release(self, principal: str) -> None:
        self.in_flight -= 1
        self._taken[principal] -= 1
        if self._queues:
            self._admit()

    async def wait(self, patience: float, principal: str) -> None:
        """Until there is a slot. Raises like `place`."""
        own = len(self._queues.get(principal, ()))
        if own >= self._room - self._room // KEPT_BACK and principal not in NO_QUOTA:
            has = f"{self._taken[principal]} calls in flight and {own} waiting"
            raise _overloaded(f"'{principal}' has {has}, which is its quota of max_concurrency")
        if own and self.waiting >= self._room:
            raise _overloaded(f"{self.in_flight} calls are in flight and {self.waiting} are waiting")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(principal, deque()).append(turn)
        self.waiting += 1
        self._on_wait()
        try:
            async with asyncio.timeout(patience):
                await turn
        except TimeoutError:
            self._give_up(principal, turn)
            raise _overloaded(f"no slot became free within {patience:g} s") from None
        except asyncio.CancelledError:
            self._give_up(principal, turn)
            raise

    def _give_up(self, principal: str, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled():  # the slot came in the same moment: hand it on
            self.release(principal)
        elif turn in self._queues.get(principal, ()):
            self._leave_queue(principal, turn)

    def _leave_queue(self, principal: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues[principal]
        queue.remove(turn)
        self.waiting -= 1
        if not queue:
            del self._queues[principal]

    def _admit(self) -> None:
        while self._queues:
            principal = min(self._queues, key=self._taken.__getitem__)
            turn = self._queues[principal][0]
            if not turn.done() and not self.acquire(principal):
                return
            self._leave_queue(principal, turn)
            if not turn.done():
                turn.set_result(None)


def _overloaded(why: str) -> UpstreamFailure:
    return UpstreamFailure(Code.OVERLOADED, f"the server is busy: {why}", sent=False)


EVICT_AFTER: Final = 30.0
"""How long a question may stay open while others wait, where nobody says otherwise."""
NEXT: Final = 0.05
"""One place at a time: whoever gets it is gone from the queue by then."""


class StalledCallEvictor:
    """`open_questions` gives the calls whose clients are away; `waiting` how many wait for a place."""

    def __init__(
        self, open_questions: Callable[[], Iterable[PendingRequest]], waiting: Callable[[], int], evict_after: float
    ) -> None:
        self._open_questions = open_questions
        self._waiting = waiting
        self._evict_after = evict_after
        self._timer: asyncio.TimerHandle | None = None

    def somebody_waits(self) -> None:
        if self._timer is None:
            self._look()

    def _look(self) -> None:
        self._timer = None
        if not self._waiting():
            return
        loop = asyncio.get_running_loop()
        oldest = min(self._open_questions(), key=lambda pending: pending.asked_at, default=None)
        left = self._evict_after if oldest is None else oldest.asked_at + self._evict_after - loop.time()
        if oldest is not None and left <= 0:
            oldest.fail(_given_up(self._evict_after))
        self._timer = loop.call_later(max(left, NEXT), self._look)


def _given_up(patience: float) -> UpstreamFailure:
    message = f"its question was not answered within {patience:.3g} s, and other calls waited for its slot"
    return UpstreamFailure(Code.TIMEOUT, f"{message}; the server may have acted")


BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds. From a local server that looks something up to a remote one that thinks."""


class RequestStats:
    """Of one server since the gateway started, whatever became of its connections."""

    __slots__ = ("_buckets", "failures", "seconds")

    def __init__(self) -> None:
        self.failures: Counter[Code] = Counter()
        self.seconds = 0.0
        self._buckets = [0] * (len(BOUNDS) + 1)

    def took(self, seconds: float) -> None:
        """One request has come back, or was given up, after this time."""
        self._buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def requests(self) -> int:
        return sum(self._buckets)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """How many took at most so many seconds; the last bound is infinite."""
        return zip((*BOUNDS, float("inf")), accumulate(self._buckets), strict=True)


@dataclass(frozen=True, slots=True)
class ServerStats:
    """One server at this moment, for whoever watches it."""

    name: str
    state: ServerState
    in_flight: int
    waiting: int
    sessions: int
    restarts: int
    ignored: Mapping[str, int]
    traffic: RequestStats


logger = logging.getLogger(__name__)

SHARED: Final[frozenset[Sessions]] = frozenset(("auto", "shared"))


class CallScheduler:
    """`main` gives the live main session, or raises `UpstreamFailure`."""

    def __init__(
        self,
        spec: UpstreamSpec,
        main: Callable[[], UpstreamSession],
        pool: SessionPool,
        legacy: LegacySessions,
        evict_after: float,
    ) -> None:
        pressure = StalledCallEvictor(self._away, lambda: self.slots.waiting, evict_after)
        self.slots = CallSlots(spec.max_concurrency, pressure.somebody_waits)
        self.sessions: Sessions = spec.sessions
        """The kind in force: `auto` until the server shows that it has to be `exclusive`."""
        self.traffic = RequestStats()
        self.main: UpstreamSession | None = None
        """The session that all callers share, while it is live. Its server sets it."""
        self._spec = spec
        self._main = main
        self._pool = pool
        self._legacy_sessions = legacy
        self.configure(spec)

    def configure(self, spec: UpstreamSpec) -> None:
        if spec.sessions != self._spec.sessions or not spec.same_connection(self._spec):
            self.sessions = spec.sessions
        self._spec = spec
        self._resize()

    def asked_outside(self) -> None:
        """The server asked something outside the stream of any call, while calls were under way: sharing would mix up
        whose questions are whose. What it asks with none under way says nothing of that (UP-11)."""
        if self.sessions == "auto":
            logger.info(
                "%s sends requests to its clients: from now on each call has a session of its own", self._spec.name
            )
            self.sessions = "exclusive"
            self._resize()

    @property
    def session_mode(self) -> tuple[str, str]:
        """How sessions are shared now, and why."""
        spec = self._spec
        if spec.sessions != "auto":
            why = f"recommended by the catalog: {spec.sessions_why}" if spec.sessions_why else "configured"
            return spec.sessions, why
        if self.sessions == "auto":
            return "shared", "automatic: shares one session"
        return self.sessions, "automatic: it asked during a call without saying whose"

    @property
    def alone(self) -> bool:
        """Whether each call has a session to itself."""
        return self.sessions == "exclusive"

    def _away(self) -> list[PendingRequest]:
        try:
            sessions = [self._main(), *self._pool.sessions()]
        except UpstreamFailure:
            return []  # it is gone, and its calls hear of that
        return [each for session in sessions for each in session.connection.away()]

    def _resize(self) -> None:
        most = self._spec.max_concurrency
        self.slots.resize(min(most, 1 + MAX_EXTRA) if self.alone else most, room=most)

    async def request(self, permit: Permit) -> dict[str, Any]:
        """The raw result, once there is a place and a session for it. Raises `UpstreamFailure` and `NotPermitted`. What
        it waited for its place is told by the queue, so it does not count for how fast the server is."""
        slots, channel, timeout, who = self.slots, permit.channel, self._spec.timeout, permit.principal
        try:
            main, end = self.main or self._main(), time.monotonic() + timeout
            if waits := not slots.acquire(who):
                await slots.wait(timeout, who)
            started = time.monotonic()
            try:
                if waits:
                    main = self.main or self._main()  # the one before may have gone meanwhile
                legacy = channel is not None and channel.live and main.handshake.stamp.era == "modern"
                legacy = legacy and self._legacy_sessions.is_session_based(main, permit, self.sessions)
                if self.sessions in SHARED and not legacy:
                    return await main.request(permit, timeout=max(0.0, end - started))
                try:
                    return await self._request_seated(main, permit, legacy, end)
                except UpstreamFailure as failure:
                    if not (legacy and self._legacy_sessions.needs_task(main, permit, failure)):
                        raise
                permit.note_resend()
                return await self._request_seated(main, permit, False, end)
            finally:
                self.traffic.took(time.monotonic() - started)
                slots.release(who)
        except UpstreamFailure as failure:
            self.traffic.failures[failure.code] += 1
            raise

    async def _request_seated(self, main: UpstreamSession, permit: Permit, legacy: bool, end: float) -> dict[str, Any]:
        """Over a session that is the call's for its time: the client's own, one without other calls, or a shared one
        of the session-based revision."""
        kind, channel = self.sessions, permit.channel
        async with AsyncExitStack() as stack:
            session = await self._legacy_sessions.enter(stack, main, permit, kind, _left(end)) if legacy else None
            if session is None and kind == "exclusive":
                session = await stack.enter_async_context(self._pool.alone(main, permit, _left(end)))
            if session is None and kind == "per_client" and channel is not None and channel.key:
                session = await stack.enter_async_context(self._pool.own(permit, channel.key, _left(end)))
            return await (session or main).request(permit, timeout=_left(end))


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())
