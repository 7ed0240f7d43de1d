"""Connect, stay while it lasts, and start over, for ever (UP-2).

How long to wait before a lost server is connected again.
"""

from __future__ import annotations

import logging
import random
import time
from typing import Final, Protocol

import anyio

from mcpproxy_py.core.values import ServerState
from mcpproxy_py.errors import FORGOTTEN, UpstreamFailure
from mcpproxy_py.upstream.oauth.auth import NO_AUTH, LoginRequired
from mcpproxy_py.upstream.processes.command import ServerLog
from mcpproxy_py.upstream.session.connection import RpcConnection
from mcpproxy_py.upstream.session.negotiate import SessionOpener, attempt
from mcpproxy_py.upstream.session.session import UpstreamSession
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.dialer import Dialer

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
STEADY: Final = 10.0
"""A connection that lived this long was good: the next attempt comes at once, and the pauses start small again."""


class Backoff:
    def __init__(self) -> None:
        self._failures = 0
        self._excused = -STEADY

    def pause(self, reason: str, lived: float | None) -> float:
        """Seconds, 0 for at once. `lived`: how long it was connected, None if it never was.

        Full jitter: many servers lost at once must not come back at once.
        """
        if lived is not None and (lived > STEADY or self._excuses(reason)):
            self._failures = 0
            return 0.0
        self._failures += 1
        return random.uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._failures - 1, 10)))

    def _excuses(self, reason: str) -> bool:
        """A server that forgot a session is there and only wants a new one; if it does nothing else, it has to wait."""
        now = time.monotonic()
        if reason != FORGOTTEN or now - self._excused < STEADY:
            return False
        self._excused = now
        return True


logger = logging.getLogger(__name__)


class ConnectionOwner(Protocol):
    """Where a life takes place, and who makes something of it."""

    error: str | None
    restarts: int

    def show(self, state: ServerState, error: str | None = None) -> None: ...

    async def prepare(self, session: UpstreamSession) -> None:
        """All that has to be known before the server counts as connected."""
        ...

    def enter(self, session: UpstreamSession) -> None: ...

    async def attend(self, session: UpstreamSession) -> None:
        """What goes on beside the calls. Cancelled when the session ends."""
        ...

    def leave(self) -> None: ...


class ReconnectLoop:
    """The main session of one server, with one configuration."""

    def __init__(
        self, spec: UpstreamSpec, stage: ConnectionOwner, dialer: Dialer, opener: SessionOpener, log: ServerLog
    ) -> None:
        self._spec = spec
        self._stage = stage
        self._dialer = dialer
        self._opener = opener
        self._log = log
        self._told = ""
        self._auth = dialer.auth(spec)
        self._wants_login = False

    async def run(self) -> None:
        backoff = Backoff()
        while True:
            self._stage.show("connecting", self._stage.error)
            probed = self._opener.probes
            reason, lived = await self._connection()
            self._stage.restarts += 1
            if probed and not self._opener.probes and lived is None:
                continue  # it may be the question that it did not survive, so it has not failed before it is not asked
            self._tell(reason)
            if self._wants_login:
                self._stage.show("needs_login", reason)
                await self._auth.given()
                continue
            if pause := backoff.pause(reason, lived):
                self._stage.show("failed", reason)
                await anyio.sleep(pause)

    def _tell(self, reason: str) -> None:
        logger.log(logging.WARNING if reason != self._told else logging.DEBUG, "%s: %s", self._spec.name, reason)
        self._stage.error = self._told = reason

    async def _connection(self) -> tuple[str, float | None]:
        """From connecting to the end: why it ended, and for how long it was a connection."""
        begun, connected, self._wants_login = anyio.current_time(), False, False
        try:
            async with self._dialer.open(self._spec, self._log) as connection:
                session = await self._connect(connection)
                connected = True
                self._stage.enter(session)
                await self._stay(session)
                reason = connection.why
        except Exception as error:
            reason = self._reason(error)
        finally:
            self._stage.leave()
        return reason, anyio.current_time() - begun if connected else None

    async def _connect(self, connection: RpcConnection) -> UpstreamSession:
        with attempt(connection, self._spec, self._log):
            session = await self._opener.greet(connection, self._spec)
            await self._stage.prepare(session)
            return session

    async def _stay(self, session: UpstreamSession) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stage.attend, session)
            if self._auth is not NO_AUTH:
                tasks.start_soon(self._follow_login, session)
            await session.closed.wait()
            tasks.cancel_scope.cancel()

    async def _follow_login(self, session: UpstreamSession) -> None:
        """A session outlives its login: what is under way goes on, and nothing new is sent until there is another."""
        while True:
            reason = await self._auth.needed()
            self._stage.leave()
            self._tell(reason)
            self._stage.show("needs_login", reason)
            await self._auth.given()
            if not session.closed.is_set():
                self._stage.enter(session)

    def _reason(self, error: Exception) -> str:
        inner = _innermost(error)
        if isinstance(inner, UpstreamFailure):
            self._wants_login = isinstance(inner, LoginRequired)
            return inner.message
        logger.error("%s: the connection failed", self._spec.name, exc_info=error)
        return f"the connection failed ({type(inner).__name__})"


def _innermost(error: BaseException) -> BaseException:
    """Task groups wrap what went wrong; a failure of ours says most, so it is preferred."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = [_innermost(each) for each in error.exceptions]
    return next((each for each in found if isinstance(each, UpstreamFailure)), found[0])
