"""The sessions beside a server's main one, opened when calls need them, bounded, and ended when nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio.abc

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.calls.extra import Extra
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.session.session import Session

MAX_EXTRA: Final = 8
"""Beside the main session, where each serves one call at a time. They can be processes."""
IDLE: Final = 60.0
MAX_CLIENTS: Final = 32
CLIENT_IDLE: Final = 600.0
"""A client's own session may hold what it was doing, so it may rest longer."""
RETRY_PAUSE: Final = 1.0
"""A server that opens no further session is not asked for one with every call."""

Open = Callable[[int, Permit | None, bool], AbstractAsyncContextManager[Session]]
"""(number, the call it is opened for if it is to be one call at a time, whether for that client alone)"""


class Pool:
    def __init__(self, open_session: Open, numbers: Iterator[int]) -> None:
        """`numbers` tells all sessions with one server apart, those of other pools too."""
        self._open_session = open_session
        self._tasks: anyio.abc.TaskGroup | None = None
        self._extras: list[Extra] = []
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

    def sessions(self) -> list[Session]:
        return [extra.now for extra in self._extras if extra.open]

    @asynccontextmanager
    async def shared(self, patience: float) -> AsyncIterator[Session]:
        """One session for all, which stays. Raises `UpstreamFailure`."""
        known = next((extra for extra in self._extras if not extra.key and not extra.over), None)
        async with _seat(known or self._opened("", None, None, MAX_EXTRA), patience) as session:
            yield session

    @asynccontextmanager
    async def alone(self, main: Session | None, permit: Permit, patience: float) -> AsyncIterator[Session]:
        """A session without any other call on it. Raises `UpstreamFailure`."""
        if main is not None and not main.connection.calls:
            yield main
            return
        free = [extra for extra in self._extras if extra.open and not extra.busy and not extra.key]
        extra = free[-1] if free else self._opened("", permit, IDLE, MAX_EXTRA)
        async with _seat(extra, patience) as session:
            yield session

    @asynccontextmanager
    async def own(self, permit: Permit, key: str, patience: float) -> AsyncIterator[Session]:
        """The own session of the client with this key. Raises `UpstreamFailure`."""
        known = next((extra for extra in self._extras if extra.key == key and not extra.over), None)
        async with _seat(known or self._opened(key, permit, CLIENT_IDLE, MAX_CLIENTS), patience) as session:
            yield session

    def of(self, key: str) -> list[Session]:
        """The sessions that belong to one client."""
        return [extra.now for extra in self._extras if extra.open and extra.key == key]

    def forget(self, key: str) -> None:
        """This client is gone."""
        for extra in self._extras:
            if extra.key == key:
                extra.end()

    def _opened(self, key: str, permit: Permit | None, idle: float | None, most: int) -> Extra:
        self._make_room(most)
        if self._tasks is None or asyncio.get_running_loop().time() < self._not_before:
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, "no further session with it could be opened", sent=False)
        extra = Extra(key, idle)
        self._extras.append(extra)
        self._tasks.start_soon(self._live, extra, permit)
        return extra

    def _make_room(self, most: int) -> None:
        """A full pool lets go of whoever was idle longest. What still ends is bounded too: it can be a process."""
        living = [extra for extra in self._extras if not extra.over]
        idle = [extra for extra in living if not extra.busy]
        full = len(living) >= most
        if len(self._extras) >= 2 * most or (full and not idle):
            raise UpstreamFailure(Code.OVERLOADED, f"the server is busy: {most} further sessions are open", sent=False)
        if full:
            min(idle, key=lambda extra: extra.since).end()

    async def _live(self, extra: Extra, permit: Permit | None) -> None:
        try:
            await extra.live(self._open_session(next(self._numbers), permit, bool(extra.key)))
        finally:
            self._extras.remove(extra)
            if not extra.ever_open:
                self._not_before = asyncio.get_running_loop().time() + RETRY_PAUSE


@asynccontextmanager
async def _seat(extra: Extra, patience: float) -> AsyncIterator[Session]:
    extra.take()
    try:
        yield await extra.session(patience)
    finally:
        extra.give_back()
