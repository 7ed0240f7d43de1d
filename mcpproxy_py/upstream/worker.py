"""One server's life: connect, list, publish, wait, and start over, for ever (UP-2)."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from mcpproxy_py.core.search import Segment
from mcpproxy_py.core.values import Server, ServerState
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.board import Board
from mcpproxy_py.upstream.connection import Connection
from mcpproxy_py.upstream.dial import Dialer
from mcpproxy_py.upstream.failure import UpstreamFailure
from mcpproxy_py.upstream.handshake import ProbeKilled, negotiate
from mcpproxy_py.upstream.lane import Lane
from mcpproxy_py.upstream.logfile import CappedLog
from mcpproxy_py.upstream.session import Session
from mcpproxy_py.upstream.shelf import KnownListings, Listing, Shelf
from mcpproxy_py.upstream.spec import UpstreamSpec

logger = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
STEADY: Final = 10.0
"""A connection that lived this long was good: the next attempt comes at once, and the pauses start small again."""
COALESCE: Final = 0.1
"""Servers tell of ten changed tools with ten notifications."""
LIST_TIMEOUT: Final = 60.0

OnNotification = Callable[[str, str, Mapping[str, Any]], None]


class Worker:
    """Everything that changes about one server is born and changed in here, on the event loop."""

    def __init__(
        self, spec: UpstreamSpec, *, board: Board, dialer: Dialer, log_path: Path, known: KnownListings | None,
        clock: Callable[[], float], on_notification: OnNotification | None,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.lane = Lane(spec.max_concurrency)
        self.session: Session | None = None
        self.state: ServerState = "connecting"
        self.error: str | None = None
        self.restarts = 0
        self._told = ""
        self.done = anyio.Event()
        self._board = board
        self._dialer = dialer
        self._log = CappedLog(log_path)
        self._clock = clock
        self._tell = on_notification
        self.since = clock()
        self._shelf = Shelf(known)
        self._life = anyio.CancelScope()
        self._stopped = False
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._stale = asyncio.Event()
        self._probe = True
        self._show(self._first_state())

    # What the supervisor asks of it.

    async def run(self) -> None:
        """Until `stop`. Each turn is one life, ended early when the server has to be started anew."""
        try:
            await self._load_known()
            while not self._stopped:
                with anyio.CancelScope() as self._life:
                    await self._live(self.spec)
        finally:
            self.done.set()

    async def ready(self) -> None:
        self._wake.set()
        try:
            async with asyncio.timeout(self.spec.connect_timeout):
                await self._settled.wait()
        except TimeoutError:
            return

    def restart(self) -> None:
        self._wake.set()
        self.restarts += 1
        self._start_over()

    async def change(self, spec: UpstreamSpec) -> None:
        """Take on a new configuration; the connection is kept where it is the same one."""
        keeps, self.spec = self.spec.same_connection(spec), spec
        self.lane.resize(spec.max_concurrency)
        if not spec.lazy:
            self._wake.set()
        await self._derive()
        if keeps:
            self._show(self.state, self.error)
        else:
            if spec.lazy:
                self._wake.clear()
            self._start_over()

    def stop(self) -> None:
        self._stopped = True
        self._life.cancel()

    @property
    def tool_count(self) -> int:
        return len(self._shelf.tools)

    def counts(self) -> dict[str, int]:
        return self.session.connection.counts() if self.session else {}

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[tuple[Session, float]]:
        """A place in the lane, the live session, and how much of the call's time is left. Raises `UpstreamFailure`."""
        self._require_session()
        timeout = self.spec.timeout
        begun = time.monotonic()
        async with self.lane.place(timeout):
            yield self._require_session(), max(0.0, timeout - (time.monotonic() - begun))

    def _require_session(self) -> Session:
        session = self.session
        if session is None or session.closed.is_set():
            why = self.error or f"it is {self.state}"
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, f"{self.spec.name} is not connected: {why}", sent=False)
        return session

    # One life.

    def _first_state(self) -> ServerState:
        if not self.spec.enabled:
            return "disabled"
        return "sleeping" if self.spec.lazy and not self._wake.is_set() else "connecting"

    def _start_over(self) -> None:
        self.session = None
        self._show(self._first_state())
        self._life.cancel()

    async def _live(self, spec: UpstreamSpec) -> None:
        self._show(self._first_state())
        if not spec.enabled:
            await anyio.sleep_forever()
        if spec.lazy:
            await self._wake.wait()
        failures = 0
        while True:
            self._show("connecting", self.error)
            begun = anyio.current_time()
            reason, was_connected = await self._connection(spec)
            self.restarts += 1
            failures = 0 if was_connected and anyio.current_time() - begun > STEADY else failures + 1
            await self._pause(reason, failures)

    async def _pause(self, reason: str, failures: int) -> None:
        """Full jitter: many servers lost at once must not come back at once."""
        logger.log(logging.WARNING if reason != self._told else logging.DEBUG, "%s: %s", self.spec.name, reason)
        self.error = self._told = reason
        if failures:
            self._show("failed", reason)
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10))
            await anyio.sleep(random.uniform(0, longest))

    async def _connection(self, spec: UpstreamSpec) -> tuple[str, bool]:
        """From connecting to the end; gives why it ended, and whether it ever was a connection."""
        connected = False
        try:
            async with self._dialer.open(spec, self._log) as connection:
                session = await self._connect(connection, spec)
                connected = True
                self._enter(session)
                await self._stay(session)
                return connection.why, True
        except Exception as error:
            return self._reason(error, spec), connected
        finally:
            self.session = None

    def _enter(self, session: Session) -> None:
        session.connection.on_closed = partial(self._lost, session)
        self.session = session
        self._show("connected")
        if session.closed.is_set():
            self._lost(session)

    def _lost(self, session: Session) -> None:
        """Told at once: what is left of a dead server can take seconds to end, and it is no server meanwhile."""
        if self.session is session:
            self.session = None
            self._show("connecting", session.connection.why)

    async def _connect(self, connection: Connection, spec: UpstreamSpec) -> Session:
        try:
            with anyio.fail_after(spec.attempt_limit):
                return await self._greet(connection, spec)
        except UpstreamFailure:
            if connection.closed.is_set():  # why it ended says more than which question went unanswered
                raise UpstreamFailure(Code.SERVER_UNAVAILABLE, connection.why) from None
            raise

    async def _greet(self, connection: Connection, spec: UpstreamSpec) -> Session:
        connection.on_notification = self._notified
        probe = self._probe and spec.transport != "sse"
        try:
            handshake = await negotiate(connection, probe=probe)
        except ProbeKilled:
            self._probe = spec.transport != "stdio"  # it may be the question that it did not survive
            raise
        except UpstreamFailure:
            self._probe = True
            raise
        self._probe = not (handshake.probe_unanswered and spec.transport == "stdio")
        session = Session(spec.name, connection, handshake)
        self._stale.clear()
        await self._adopt(session, await session.list_tools())
        return session

    async def _stay(self, session: Session) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_changes, session)
            if session.modern:
                tasks.start_soon(session.listen, self._stale)
            await session.closed.wait()
            tasks.cancel_scope.cancel()

    def _notified(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self._stale.set()
        if self._tell is not None:
            self._tell(self.spec.name, method, params)

    def _reason(self, error: Exception, spec: UpstreamSpec) -> str:
        inner = _innermost(error)
        if isinstance(inner, UpstreamFailure):
            return inner.message
        if isinstance(inner, TimeoutError):
            said = self._log.last_line
            limit = f"it did not finish connecting within {spec.attempt_limit:g} s"
            return f"{limit}; it last wrote: {said}" if said else limit
        logger.error("%s: the connection failed", spec.name, exc_info=error)
        return f"the connection failed ({type(inner).__name__})"

    # Its tools.

    async def _follow_changes(self, session: Session) -> None:
        await self._shelf.remember(self.spec.name)
        while True:
            await self._stale.wait()
            await anyio.sleep(COALESCE)
            self._stale.clear()
            try:
                listed = await session.list_tools(LIST_TIMEOUT)
            except UpstreamFailure as failure:
                logger.warning("%s: its tools could not be listed again: %s", self.spec.name, failure.message)
                continue
            if listed != self._shelf.listed:
                await self._adopt(session, listed)
                await self._shelf.remember(self.spec.name)

    async def _adopt(self, session: Session, listed: Listing) -> None:
        session.learn(listed)
        await self._derive(listed)

    async def _derive(self, listed: Listing | None = None) -> None:
        part = await self._shelf.fill(lambda: self.spec, listed)
        self._show(self.state, self.error, part)

    async def _load_known(self) -> None:
        known = await self._shelf.remembered(self.spec.name)
        if known:
            await self._derive(known)
        elif self._shelf.has_memory:
            self._wake.set()  # never listed: a lazy server starts this once, or nobody could ever find its tools

    def _show(self, state: ServerState, error: str | None = None, part: Segment | None = None) -> None:
        """The one place that changes the state, and tells everybody."""
        if state != self.state:
            self.since = self._clock()
        self.state, self.error = state, error
        if state in ("connecting", "sleeping"):
            self._settled.clear()
        else:
            self._settled.set()
        if not self._stopped:
            self._board.show(self._server(), part)

    def _server(self) -> Server:
        spec, session = self.spec, self.session
        return Server(
            name=spec.name,
            state=self.state,
            tools=self._shelf.tools,
            error=self.error,
            allow_tools=spec.allow_tools,
            deny_tools=spec.deny_tools,
            confirm=spec.confirm,
            transport=spec.transport,
            protocol_version=session.handshake.protocol_version if session else None,
        )


def _innermost(error: BaseException) -> BaseException:
    """Task groups wrap what went wrong; a failure of ours says most, so it is preferred."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = [_innermost(each) for each in error.exceptions]
    return next((each for each in found if isinstance(each, UpstreamFailure)), found[0])
