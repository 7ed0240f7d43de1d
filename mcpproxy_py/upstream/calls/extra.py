"""One session beside a server's main one: for one call at a time, or for one client."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.session.session import Session

logger = logging.getLogger(__name__)


class Extra:
    """`busy` is how many calls have a seat on it. It ends after `idle` seconds without any, where there is a limit."""

    def __init__(self, key: str, idle: float | None) -> None:
        self.key = key
        self.busy = 0
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self.since = self._loop.time()
        self._over = asyncio.Event()
        self._ready: asyncio.Future[Session] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    async def live(self, opening: AbstractAsyncContextManager[Session]) -> None:
        """From opening it to its end. Whoever waits for it is told what went wrong; nobody else is."""
        try:
            async with opening as session:
                session.connection.on_closed = self.end
                if session.closed.is_set():
                    raise _not_opened(session.connection.why)
                self._ready.set_result(session)
                if not self.busy:  # whoever it was opened for did not wait
                    session.connection.unhost()
                await self._over.wait()
        except Exception as error:
            self._fail(error)
        finally:
            self.end()
            if not self._ready.done():
                self._fail(_not_opened("the server is being stopped"))

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, UpstreamFailure):
            logger.error("a further session failed", exc_info=error)
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
    def now(self) -> Session:
        """Only where it is `open`."""
        return self._ready.result()

    async def session(self, patience: float) -> Session:
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
                self.now.connection.unhost()


def _not_opened(why: str) -> UpstreamFailure:
    prefix = "no further session with it could be opened: "
    return UpstreamFailure(Code.SERVER_UNAVAILABLE, prefix + why.removeprefix(prefix), sent=False)
