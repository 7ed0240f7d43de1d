"""One server: its state, its tools, and everything that is asked of it. All of it on the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Final

import anyio

from mcpproxy_py.core.protocol.methods import with_check
from mcpproxy_py.core.protocol.tasks import declares, without_tasks
from mcpproxy_py.core.search.index import IndexSegment
from mcpproxy_py.core.values import Server, ServerState
from mcpproxy_py.errors import Code, UpstreamFailure, bad_answer
from mcpproxy_py.upstream.calls.legacy_sessions import LegacySessions
from mcpproxy_py.upstream.calls.scheduler import CallScheduler, CallSlots, ServerStats
from mcpproxy_py.upstream.calls.session_pool import MAX_EXTRA, SessionPool
from mcpproxy_py.upstream.lists.in_force import ListingJudge, PromptsInForce
from mcpproxy_py.upstream.lists.notifications import ServerNotifications, UpstreamCallbacks
from mcpproxy_py.upstream.lists.tool_list import ListingStore, ToolList
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.processes.command import ServerLog
from mcpproxy_py.upstream.reconnect import ReconnectLoop
from mcpproxy_py.upstream.session.negotiate import SessionOpener, attempt, set_level
from mcpproxy_py.upstream.session.server_requests import UNANSWERED_FOR
from mcpproxy_py.upstream.session.session import UpstreamSession
from mcpproxy_py.upstream.snapshot import SnapshotPublisher
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.dialer import Dialer

logger = logging.getLogger(__name__)

SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
SERVER_WIDE: Final = with_check("passthrough", "shared")
"""Not calls like all others: the server hears of the first that looks at a resource, and of the last that goes; and a
log level is for all its sessions."""


class UpstreamServer:
    """Everything that changes about one server is born and changed in here."""

    def __init__(
        self, spec: UpstreamSpec, *, publisher: SnapshotPublisher, dialer: Dialer, log_path: Path,
        known: ListingStore | None, clock: Callable[[], float], callbacks: UpstreamCallbacks, evict_after: float,
        mask: Callable[[str], str], judge: ListingJudge | None = None,
    ) -> None:  # fmt: skip
        self.spec = spec
        self._living = spec
        """What its connections are opened with: a new configuration counts from its next life on."""
        self._lists = spec
        """Whose lists and `confirm` are in force."""
        self._withdrawn = False
        self.state: ServerState = "connecting"
        self.error: str | None = None
        self.restarts = 0
        self.since = clock()
        self.done = anyio.Event()
        numbers = count(2)
        self.pool = SessionPool(self._open_another, numbers)
        self.legacy_sessions = LegacySessions(spec.name, self._open_legacy, numbers, CallSlots(MAX_EXTRA))
        self.calls = CallScheduler(spec, self.main_session, self.pool, self.legacy_sessions, evict_after)
        self.notifications = ServerNotifications(spec.name, callbacks)
        self._publisher = publisher
        self._dialer = dialer
        self._opener = SessionOpener(
            self.notifications.receive, self.calls.asked_outside, self.notifications.unattributed
        )
        self._legacy_opener = SessionOpener(
            self.notifications.receive, self.legacy_sessions.asked_outside, self.notifications.unattributed
        )
        self._log = ServerLog(log_path, mask=mask)
        self._mask = mask
        self._clock = clock
        self.tool_list = ToolList(
            lambda: self.spec, known, self.notifications, lambda part: self.show(self.state, self.error, part),
            lambda: publisher.snapshot.policy.unannotated, judge,
        )  # fmt: skip
        self._prompts = PromptsInForce(judge)
        self._life = anyio.CancelScope()
        self._stopped = False
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self.show(self._first_state(), spec.missing_secret)

    @property
    def session(self) -> UpstreamSession | None:
        """The live main session. It is kept where each call looks for it."""
        return self.calls.main

    @session.setter
    def session(self, session: UpstreamSession | None) -> None:
        self.calls.main = session

    # What the supervisor asks of it.

    async def run(self) -> None:
        """Until `stop`. Each turn is one life, ended early when the server has to be started anew."""
        try:
            if not await self.tool_list.load_known():
                self._wake.set()  # a lazy server starts this once, or nobody could ever find its tools
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
        self._share()
        if not spec.lazy:
            self._wake.set()
        await self.tool_list.derive()
        self._lists, self._withdrawn = spec, False
        if keeps:
            self.show(self.state, self.error)
        else:
            if spec.lazy:
                self._wake.clear()
            self._start_over()

    def tighten(self, spec: UpstreamSpec | None) -> None:
        """What a configuration to come forbids is in force from now on, until `change` takes it on; `None` where it has
        no such server any more."""
        if spec is None or not spec.enabled:
            self._withdrawn = True
        else:
            self._lists = self._lists.stricter(spec)
        self.show(self.state, self.error)

    @property
    def tightened(self) -> bool:
        """Whether more is forbidden than its configuration says."""
        return self._withdrawn or self._lists != self.spec

    def stop(self) -> None:
        self._stopped = True
        self._life.cancel()

    async def request(self, permit: Permit) -> dict[str, Any]:
        """One of `SERVER_WIDE`. Raises `UpstreamFailure` and `NotPermitted`."""
        if permit.method == "logging/setLevel":
            return await self._set_level(permit)
        uri = str(permit().params.get("uri"))
        main, timeout, begins = self.main_session(), self.spec.timeout, permit.method == SUBSCRIBE
        if self.legacy_sessions.watches(main, permit, self.calls.sessions, uri):
            return await (self.legacy_sessions.watch if begins else self.legacy_sessions.unwatch)(permit, uri, timeout)
        return await (self.notifications.subscribe if begins else self.notifications.unsubscribe)(
            main, permit, uri, timeout
        )

    async def _set_level(self, permit: Permit) -> dict[str, Any]:
        """A client's own session has a level of its own; of all others the last that was said holds, also for those to
        come. Modern sessions hear it with each call."""
        main, kind = self.main_session(), self.calls.sessions
        if kind == "per_client":
            its_own = self.legacy_sessions.is_session_based(main, permit, kind)
            return await self.calls.request(permit) if its_own else {}
        answer = {} if main.modern else await main.request(permit, timeout=self.spec.timeout)
        self._opener.log_level = self._legacy_opener.log_level = permit().params
        for session in (*self.pool.sessions(), *self.legacy_sessions.pool.sessions()):
            await set_level(session, permit)
        return answer

    async def listed(self, method: str) -> list[dict[str, Any]]:
        entries = await self.notifications.listed(self.main_session(), method)
        return await self._prompts.of(self.spec, entries) if method == "prompts/list" else entries

    async def judge_again(self) -> None:
        """What is approved of it is something else now."""
        self._prompts.forget()
        await self.tool_list.derive()
        self.notifications.judged_again()

    def forget(self, key: str) -> None:
        """This client is gone, and with it the sessions that were its own."""
        self.pool.forget(key)
        self.legacy_sessions.pool.forget(key)

    def sessions_of(self, key: str) -> list[UpstreamSession]:
        """Those that are this client's alone, for good or while its call is under way."""
        own = [*self.pool.of(key), *self.legacy_sessions.pool.of(key)]
        alone = [*self.pool.sessions(), *([self.session] if self.session else [])] if self.calls.alone else []
        older = self.legacy_sessions.pool.sessions() if self.legacy_sessions.alone(self.calls.sessions) else []
        return own + [each for each in (*alone, *older) if each not in own and each.connection.serves(key)]

    def main_session(self) -> UpstreamSession:
        """The session everybody shares, if they share one. Raises `UpstreamFailure`."""
        session = self.session
        if session is None or session.closed.is_set():
            why = self.error or f"it is {self.state}"
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, f"{self.spec.name} is not connected: {why}", sent=False)
        return session

    def counts(self) -> dict[str, int]:
        return self.session.connection.counts() if self.session else {}

    def measured(self) -> ServerStats:
        calls, sessions = self.calls, len(self.pool) + len(self.legacy_sessions.pool) + (self.session is not None)
        return ServerStats(
            self.spec.name, self.state, calls.slots.in_flight, calls.slots.waiting, sessions, self.restarts,
            self.counts(), calls.traffic,
        )  # fmt: skip

    # One life.

    def _first_state(self) -> ServerState:
        if not self.spec.enabled:
            return "disabled"
        if self.spec.missing_secret is not None:
            return "failed"
        return "sleeping" if self.spec.lazy and not self._wake.is_set() else "connecting"

    def _start_over(self) -> None:
        self.session = None
        self.show(self._first_state(), self.spec.missing_secret)
        self._life.cancel()

    async def _live(self, spec: UpstreamSpec) -> None:
        before, self._living = self._living, spec
        if before.identity != spec.identity:
            self.notifications.subscriptions.forget()
            self.legacy_sessions.subscriptions.forget()
        self.show(self._first_state(), spec.missing_secret if spec.enabled else None)
        if not spec.enabled:
            await anyio.sleep_forever()
        if spec.missing_secret is not None:
            logger.warning("%s: %s", spec.name, spec.missing_secret)
            self.show("failed", spec.missing_secret)
            await anyio.sleep_forever()  # until it is configured anew, which reading the secret again is
        if spec.lazy:
            await self._wake.wait()
        self.legacy_sessions.start_over()
        async with self.pool.living(), self.legacy_sessions.pool.living():
            await ReconnectLoop(spec, self, self._dialer, self._opener, self._log).run()

    async def prepare(self, session: UpstreamSession) -> None:
        session.connection.on_gap = self.notifications.missed
        await self.tool_list.read(session)

    def enter(self, session: UpstreamSession) -> None:
        session.connection.on_closed = partial(self._lost, session)
        self.session = session
        self._share()
        self.show("connected")
        if session.closed.is_set():
            self._lost(session)

    def _share(self) -> None:
        """No other session takes the place of one that is always shared."""
        if self.session is not None:
            self.session.connection.unanswered_for = UNANSWERED_FOR if self.calls.sessions == "shared" else inf

    def _lost(self, session: UpstreamSession) -> None:
        """Told at once: what is left of a dead server can take seconds to end, and it is no server meanwhile."""
        if self.session is session:
            self.session = None
            self.show("connecting", session.connection.why)

    def leave(self) -> None:
        self.session = None

    async def attend(self, session: UpstreamSession) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.tool_list.follow, session)
            tasks.start_soon(self.notifications.follow, session)
            tasks.start_soon(self.legacy_sessions.follow)

    @asynccontextmanager
    async def _open_another(
        self, number: int, permit: Permit | None, for_it_alone: bool, can_ask: bool
    ) -> AsyncIterator[UpstreamSession]:
        modern = self.main_session().modern
        async with self._beside(self._opener, number, permit, for_it_alone, can_ask, modern) as session:
            yield session

    @asynccontextmanager
    async def _open_legacy(
        self, number: int, permit: Permit | None, for_it_alone: bool, can_ask: bool
    ) -> AsyncIterator[UpstreamSession]:
        try:
            async with self._beside(self._legacy_opener, number, permit, for_it_alone, can_ask, False) as session:
                if session.modern:
                    raise bad_answer("it speaks no revision of the handshake era")
                yield session
        except UpstreamFailure as failure:
            self.legacy_sessions.none = self.legacy_sessions.none or failure.code is Code.UPSTREAM_ERROR
            raise

    @asynccontextmanager
    async def _beside(
        self, opener: SessionOpener, number: int, permit: Permit | None, for_it_alone: bool, can_ask: bool,
        modern: bool,
    ) -> AsyncIterator[UpstreamSession]:  # fmt: skip
        """A session beside the main one. Its client can be asked from the first moment on."""
        spec, log = self._living, self._log.beside()
        async with self._dialer.open(spec, log, number) as connection:
            connection.one_client = for_it_alone
            connection.unanswered_for = UNANSWERED_FOR if for_it_alone else inf
            channel = permit.channel if permit is not None else None
            if permit is not None and channel is not None:
                connection.bind_client(permit)
            capabilities = None if can_ask else {}
            if channel is not None and for_it_alone:
                capabilities = without_tasks(channel.capabilities)
            with attempt(connection, spec, log):
                session = await opener.greet_again(connection, spec, modern, capabilities)
            yield session

    def show(self, state: ServerState, error: str | None = None, part: IndexSegment | None = None) -> None:
        """The one place that changes the state, and tells everybody."""
        if state != self.state:
            self.since = self._clock()
        self.state, self.error = state, error and self._mask(error)
        if state in ("connecting", "sleeping"):
            self._settled.clear()
        else:
            self._settled.set()
        if not self._stopped:
            self._publisher.publish(self._server(), part)

    def _server(self) -> Server:
        spec, session = self.spec, self.session
        return Server(
            name=spec.name,
            state="disabled" if self._withdrawn else self.state,
            tools=self.tool_list.tools,
            error=self.error,
            allow_tools=self._lists.allow_tools,
            deny_tools=self._lists.deny_tools,
            confirm=self._lists.confirm,
            confirm_by=self._lists.confirm_by,
            transport=spec.transport,
            identity=self._living.identity,
            protocol_version=session.handshake.protocol_version if session else None,
            listing_extras=self.tool_list.extras,
            tasks=spec.timeout if session and session.modern and declares(session.handshake.capabilities) else None,
        )
