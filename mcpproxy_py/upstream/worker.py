"""One server: its state, its tools, and everything that is asked of it. All of it on the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from mcpproxy_py.core.search import Segment
from mcpproxy_py.core.talk import Talk
from mcpproxy_py.core.values import Server, ServerState
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.board import Board
from mcpproxy_py.upstream.calls import Calls
from mcpproxy_py.upstream.dial import Dialer
from mcpproxy_py.upstream.ears import Ears
from mcpproxy_py.upstream.failure import UpstreamFailure
from mcpproxy_py.upstream.greet import Greeter, attempt
from mcpproxy_py.upstream.life import Life
from mcpproxy_py.upstream.listing import Listed
from mcpproxy_py.upstream.logfile import CappedLog
from mcpproxy_py.upstream.news import News
from mcpproxy_py.upstream.pool import Pool
from mcpproxy_py.upstream.session import Session
from mcpproxy_py.upstream.shelf import KnownListings, Shelf
from mcpproxy_py.upstream.spec import UpstreamSpec

logger = logging.getLogger(__name__)

COALESCE: Final = 0.1
"""Servers tell of ten changed tools with ten notifications."""
LIST_TIMEOUT: Final = 60.0


class Worker:
    """Everything that changes about one server is born and changed in here."""

    def __init__(
        self, spec: UpstreamSpec, *, board: Board, dialer: Dialer, log_path: Path, known: KnownListings | None,
        clock: Callable[[], float], ears: Ears,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.session: Session | None = None
        self.state: ServerState = "connecting"
        self.error: str | None = None
        self.restarts = 0
        self.since = clock()
        self.done = anyio.Event()
        self.pool = Pool(self._open_another)
        self.calls = Calls(spec, self.main_session, self.pool)
        self._news = News(spec.name, ears)
        self._board = board
        self._dialer = dialer
        self._greeter = Greeter(self._news.hear, self.calls.asked_outside, self._news.unattributed)
        self._log = CappedLog(log_path)
        self._clock = clock
        self._shelf = Shelf(known)
        self._listing_extras: Mapping[str, Any] = {}
        self._life = anyio.CancelScope()
        self._stopped = False
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self.show(self._first_state())

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
        self.calls.configure(spec)
        if not spec.lazy:
            self._wake.set()
        await self._derive()
        if keeps:
            self.show(self.state, self.error)
        else:
            if spec.lazy:
                self._wake.clear()
            self._start_over()

    def stop(self) -> None:
        self._stopped = True
        self._life.cancel()

    async def request(
        self, method: str, params: Mapping[str, Any], talk: Talk, meta: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        return await self.calls.request(method, params, talk, meta)

    async def listed(self, method: str) -> list[dict[str, Any]]:
        return await self._news.listed(self.main_session(), method)

    async def subscribe(self, uri: str) -> dict[str, Any]:
        return await self._news.subscribe(self.main_session(), uri, self.spec.timeout)

    async def unsubscribe(self, uri: str) -> dict[str, Any]:
        return await self._news.unsubscribe(self.main_session(), uri, self.spec.timeout)

    def main_session(self) -> Session:
        """The session everybody shares, if they share one. Raises `UpstreamFailure`."""
        session = self.session
        if session is None or session.closed.is_set():
            why = self.error or f"it is {self.state}"
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, f"{self.spec.name} is not connected: {why}", sent=False)
        return session

    @property
    def tool_count(self) -> int:
        return len(self._shelf.tools)

    def counts(self) -> dict[str, int]:
        return self.session.connection.counts() if self.session else {}

    # One life.

    def _first_state(self) -> ServerState:
        if not self.spec.enabled:
            return "disabled"
        return "sleeping" if self.spec.lazy and not self._wake.is_set() else "connecting"

    def _start_over(self) -> None:
        self.session = None
        self.show(self._first_state())
        self._life.cancel()

    async def _live(self, spec: UpstreamSpec) -> None:
        self.show(self._first_state())
        if not spec.enabled:
            await anyio.sleep_forever()
        if spec.lazy:
            await self._wake.wait()
        async with self.pool.living():
            await Life(spec, self, self._dialer, self._greeter, self._log).run()

    async def prepare(self, session: Session) -> None:
        self._news.stale.clear()
        await self._adopt(session, await session.list_tools())

    def enter(self, session: Session) -> None:
        session.connection.on_closed = partial(self._lost, session)
        self.session = session
        self.show("connected")
        if session.closed.is_set():
            self._lost(session)

    def _lost(self, session: Session) -> None:
        """Told at once: what is left of a dead server can take seconds to end, and it is no server meanwhile."""
        if self.session is session:
            self.session = None
            self.show("connecting", session.connection.why)

    def leave(self) -> None:
        self.session = None

    async def attend(self, session: Session) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_changes, session)
            tasks.start_soon(self._news.follow, session)

    @asynccontextmanager
    async def _open_another(self, number: int, talk: Talk, for_it_alone: bool) -> AsyncIterator[Session]:
        """A session beside the main one. Its client can be asked from the first moment on."""
        spec, known = self.spec, self.main_session().handshake
        log = self._log.beside()
        async with self._dialer.open(spec, log, number) as connection:
            connection.one_client = for_it_alone
            connection.host(talk)
            capabilities = talk.capabilities if for_it_alone else None
            with attempt(connection, spec, log):
                session = await self._greeter.greet_again(connection, spec, known, capabilities)
            yield session

    # Its tools.

    async def _follow_changes(self, session: Session) -> None:
        await self._shelf.remember(self.spec.name)
        while True:
            await self._news.stale.wait()
            await anyio.sleep(COALESCE)
            self._news.stale.clear()
            try:
                listed = await session.list_tools(LIST_TIMEOUT)
            except UpstreamFailure as failure:
                logger.warning("%s: its tools could not be listed again: %s", self.spec.name, failure.message)
                continue
            if listed.entries != self._shelf.listed:
                await self._adopt(session, listed)
                await self._shelf.remember(self.spec.name)

    async def _adopt(self, session: Session, listed: Listed) -> None:
        changed = listed.entries != self._shelf.listed
        session.learn(listed.entries)
        self._listing_extras = listed.extras
        await self._derive(listed.entries)
        if changed:
            self._news.tools_changed()

    async def _derive(self, entries: list[dict[str, Any]] | None = None) -> None:
        part = await self._shelf.fill(lambda: self.spec, entries)
        self.show(self.state, self.error, part)

    async def _load_known(self) -> None:
        known = await self._shelf.remembered(self.spec.name)
        if known:
            await self._derive(known)
        elif self._shelf.has_memory:
            self._wake.set()  # never listed: a lazy server starts this once, or nobody could ever find its tools

    def show(self, state: ServerState, error: str | None = None, part: Segment | None = None) -> None:
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
            listing_extras=self._listing_extras,
        )
