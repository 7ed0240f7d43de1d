"""How many calls a server gets at a time, and over which of its sessions each goes (UP-5, UP-7)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.upstream.calls.lane import Lane
from mcpproxy_py.upstream.calls.legacy_sessions import Elder
from mcpproxy_py.upstream.calls.pressure import Pressure
from mcpproxy_py.upstream.calls.session_pool import MAX_EXTRA, Pool
from mcpproxy_py.upstream.calls.traffic import Traffic
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.session.rpc import PendingRequest
from mcpproxy_py.upstream.session.session import Session
from mcpproxy_py.upstream.spec import Sessions, UpstreamSpec

logger = logging.getLogger(__name__)

SHARED: Final[frozenset[Sessions]] = frozenset(("auto", "shared"))


class Calls:
    """`main` gives the live main session, or raises `UpstreamFailure`."""

    def __init__(self, spec: UpstreamSpec, main: Callable[[], Session], pool: Pool, elder: Elder, hurry: float) -> None:
        pressure = Pressure(self._away, lambda: self.lane.waiting, hurry)
        self.lane = Lane(spec.max_concurrency, pressure.somebody_waits)
        self.sessions: Sessions = spec.sessions
        """The kind in force: `auto` until the server shows that it has to be `exclusive`."""
        self.traffic = Traffic()
        self._spec = spec
        self._main = main
        self._pool = pool
        self._elder = elder
        self.configure(spec)

    def configure(self, spec: UpstreamSpec) -> None:
        if spec.sessions != self._spec.sessions or not spec.same_connection(self._spec):
            self.sessions = spec.sessions
        self._spec = spec
        self._resize()

    def asked_outside(self) -> None:
        """The server asked something outside the stream of any call: sharing would mix up whose questions are whose."""
        if self.sessions == "auto":
            logger.info("%s asks its clients questions: from now on each call has a session to itself", self._spec.name)
            self.sessions = "exclusive"
            self._resize()

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
        self.lane.resize(min(most, 1 + MAX_EXTRA) if self.alone else most, room=most)

    async def request(self, permit: Permit) -> dict[str, Any]:
        """The raw result, once there is a place and a session for it. Raises `UpstreamFailure` and `NotPermitted`. What
        it waited for its place is told by the queue, so it does not count for how fast the server is."""
        lane, talk, timeout = self.lane, permit.talk, self._spec.timeout
        try:
            main, end = self._main(), time.monotonic() + timeout
            if waits := not lane.enter():
                await lane.wait(timeout)
            started = time.monotonic()
            try:
                if waits:
                    main = self._main()  # the one before may have gone meanwhile
                elder = talk is not None and talk.live and self._elder.fits(main, talk, self.sessions)
                if self.sessions in SHARED and not elder:
                    return await main.request(permit, timeout=max(0.0, end - started))
                async with AsyncExitStack() as stack:
                    session = await self._seated(stack, main, permit, elder, end)
                    return await session.request(permit, timeout=_left(end))
            finally:
                self.traffic.took(time.monotonic() - started)
                lane.leave()
        except UpstreamFailure as failure:
            self.traffic.failures[failure.code] += 1
            raise

    async def _seated(self, stack: AsyncExitStack, main: Session, permit: Permit, elder: bool, end: float) -> Session:
        kind, talk = self.sessions, permit.talk
        if elder:
            session = await self._elder.enter(stack, permit, kind, _left(end))
            if session is not None:
                return session
        if kind == "exclusive":
            return await stack.enter_async_context(self._pool.alone(main, permit, _left(end)))
        if kind == "per_client" and talk is not None and talk.key:
            return await stack.enter_async_context(self._pool.own(permit, talk.key, _left(end)))
        return main


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())
