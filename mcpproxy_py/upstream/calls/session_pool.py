"""The sessions beside a server's main one, opened when calls need them, bounded, and ended when nobody does.

One session beside a server's main one: for one call at a time, or for one client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio.abc

from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.session.session import UpstreamSession

logger = logging.getLogger(__name__)


class PooledSession:
    """`busy` is how many calls have a seat on it. It ends after `idle` seconds without any, where there is a limit."""

    def __init__(self, key: str, idle: float | None, can_ask: bool = True) -> None:
        self.key = key
        self.can_ask = can_ask
        """Whether the server hears that it can send requests to the client."""
        self.busy = 0
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self.since = self._loop.time()
        self._over = asyncio.Event()
        self._ready: asyncio.Future[UpstreamSession] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    async def live(self, opening: AbstractAsyncContextManager[UpstreamSession]) -> None:
        """From opening it to its end. Whoever waits for it is told what went wrong; nobody else is."""
        try:
            async with opening as session:
                session.connection.on_closed = self.end
                if session.closed.is_set():
                    raise _not_opened(session.connection.why)
                self._ready.set_result(session)
                if not self.busy:  # whoever it was opened for did not wait
                    session.connection.unbind_client()
                await self._over.wait()
        except Exception as error:
            self._fail(error)
        finally:
            self.end()
            if not self._ready.done():
                self._fail(_not_opened("the server is being stopped"))

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, UpstreamFailure):
            logger.error("an additional session failed", exc_info=error)
            error = _not_opened(type(error).__name__)
        if not self._ready.done():
            self._ready.set_exception(_not_opened(error.message))
            self._ready.exception()  # whoever waited for it may have given up

    def end(self) -> None:
        self._over.set()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    @property
    def ever_open(self) -> bool:
        return self._ready.done() and self._ready.exception() is None

    @property
    def open(self) -> bool:
        return self.ever_open and not self.over

    @property
    def unanswered(self) -> bool:
        """Whether its server may still be at a call that was given up."""
        return self.ever_open and self.now.connection.unanswered

    @property
    def now(self) -> UpstreamSession:
        """Only where it is `open`."""
        return self._ready.result()

    async def session(self, patience: float) -> UpstreamSession:
        """Raises `UpstreamFailure`; nothing of the call was sent then."""
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            raise _not_opened(f"it took longer than {patience:.3g} s") from None

    def take(self) -> None:
        self.busy += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def give_back(self) -> None:
        self.busy -= 1
        if not self.busy:
            self.since = self._loop.time()
            if self._idle is not None:
                self._timer = self._loop.call_later(self._idle, self.end)
            if self.ever_open:
                self.now.connection.unbind_client()


def _not_opened(why: str) -> UpstreamFailure:
    prefix = "no further session with it could be opened: "
    return UpstreamFailure(Code.SERVER_UNAVAILABLE, prefix + why.removeprefix(prefix), sent=False)


MAX_EXTRA: Final = 8
"""Beside the main session, where each serves one call at a time. They can be processes."""
IDLE: Final = 60.0
MAX_CLIENTS: Final = 32
CLIENT_IDLE: Final = 600.0
"""A client's own session may hold what it was doing, so it may rest longer."""
RETRY_PAUSE: Final = 1.0
"""A server that opens no further session is not asked for one with every call."""

Open = Callable[[int, Permit | None, bool, bool], AbstractAsyncContextManager[UpstreamSession]]
"""(number, the call it is opened for if it is to be one call at a time, whether for that client alone, whether the
server can send requests)"""


class SessionPool:
    def __init__(self, open_session: Open, numbers: Iterator[int]) -> None:
        """`numbers` tells all sessions with one server apart, those of other pools too."""
        self._open_session = open_session
        self._tasks: anyio.abc.TaskGroup | None = None
        self._extras: list[PooledSession] = []
        self._numbers = numbers
        self._not_before = 0.0

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """Sessions are opened only in here, and all end with it."""
        try:
            async with anyio.create_task_group() as self._tasks:
                yield
                self._tasks.cancel_scope.cancel()
        finally:
            self._tasks = None

    def __len__(self) -> int:
        return len(self._extras)

    def sessions(self) -> list[UpstreamSession]:
        return [extra.now for extra in self._extras if extra.open]

    @asynccontextmanager
    async def shared(self, patience: float, can_ask: bool = True) -> AsyncIterator[UpstreamSession]:
        """One session for all, which stays. Raises `UpstreamFailure`."""
        shared = (each for each in self._extras if not each.key and each.can_ask is can_ask and not each.over)
        extra = next(shared, None) or self._opened("", None, None, MAX_EXTRA, can_ask)
        async with _seat(extra, patience) as session:
            yield session

    @asynccontextmanager
    async def alone(
        self, main: UpstreamSession | None, permit: Permit, patience: float, can_ask: bool = True
    ) -> AsyncIterator[UpstreamSession]:
        """A session without any other call on it, nor one that was given up and that its server may still be at
        (UP-11). Raises `UpstreamFailure`."""
        unanswered = main is not None and main.connection.unanswered
        if main is not None and not main.connection.calls and not unanswered:
            yield main
            return
        fit = [each for each in self._extras if each.open and each.can_ask is can_ask and not each.key]
        free = [each for each in fit if not (each.busy or each.unanswered)]
        extra = free[-1] if free else self._opened("", permit, IDLE, MAX_EXTRA + unanswered, can_ask)
        async with _seat(extra, patience) as session:
            yield session

    @asynccontextmanager
    async def own(self, permit: Permit, key: str, patience: float) -> AsyncIterator[UpstreamSession]:
        """The own session of the client with this key. Raises `UpstreamFailure`."""
        known = next((extra for extra in self._extras if extra.key == key and not extra.over), None)
        async with _seat(known or self._opened(key, permit, CLIENT_IDLE, MAX_CLIENTS), patience) as session:
            yield session

    def of(self, key: str) -> list[UpstreamSession]:
        """The sessions that belong to one client."""
        return [extra.now for extra in self._extras if extra.open and extra.key == key]

    def forget(self, key: str) -> None:
        """This client is gone."""
        for extra in self._extras:
            if extra.key == key:
                extra.end()

    def _opened(
        self, key: str, permit: Permit | None, idle: float | None, most: int, can_ask: bool = True
    ) -> PooledSession:
        self._make_room(most)
        if self._tasks is None or asyncio.get_running_loop().time() < self._not_before:
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, "no further session with it could be opened", sent=False)
        extra = PooledSession(key, idle, can_ask)
        self._extras.append(extra)
        self._tasks.start_soon(self._live, extra, permit)
        return extra

    def _make_room(self, most: int) -> None:
        """A full pool lets go of whoever was idle longest, those first that cannot be used. What still ends is bounded
        too: it can be a process."""
        living = [extra for extra in self._extras if not extra.over]
        idle = [extra for extra in living if not extra.busy]
        full = len(living) >= most
        if len(self._extras) >= 2 * most or (full and not idle):
            raise UpstreamFailure(Code.OVERLOADED, f"the server is busy: {most} further sessions are open", sent=False)
        if full:
            min(idle, key=lambda extra: (not extra.unanswered, extra.since)).end()

    async def _live(self, extra: PooledSession, permit: Permit | None) -> None:
        try:
            await extra.live(self._open_session(next(self._numbers), permit, bool(extra.key), extra.can_ask))
        finally:
            self._extras.remove(extra)
            if not extra.ever_open:
                self._not_before = asyncio.get_running_loop().time() + RETRY_PAUSE


@asynccontextmanager
async def _seat(extra: PooledSession, patience: float) -> AsyncIterator[UpstreamSession]:
    extra.take()
    try:
        yield await extra.session(patience)
    finally:
        extra.give_back()
