"""Handshake sessions with a server that speaks both eras, for the clients it can ask over nothing else (SURF-6).

Such a server is spoken to in the modern era, where it cannot ask in mid-call; one whose tools were written for the
handshake era then says that it has nobody to ask. A client of that era gets what it would have without us: a session of
its own era, opened when the first call of one that can be asked comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpproxy_py.upstream.calls.scheduler import CallSlots


from mcpproxy_py.core.protocol.client_channel import NEEDS, ClientChannel
from mcpproxy_py.core.protocol.tasks import declares
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.calls.session_pool import MAX_EXTRA, Open, SessionPool
from mcpproxy_py.upstream.lists.subscriptions import HandshakeWatch, Subscriptions
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.session.session import UpstreamSession
from mcpproxy_py.upstream.spec import Sessions

logger = logging.getLogger(__name__)

OPEN_PATIENCE: Final = 10.0
RETRY_PAUSE: Final = 30.0
"""A call can go without, so it must not wait for a session that does not open, nor the next call again."""
MAX_WAITING: Final = 64
ASKABLE: Final = frozenset(NEEDS.values())


class LegacySessions:
    """Whoever opens the sessions says when the server `asked_outside`, and when it turned out to have none."""

    def __init__(self, server: str, open_session: Open, numbers: Iterator[int], slots: CallSlots) -> None:
        self.pool = SessionPool(open_session, numbers)
        self.none = False
        """The server speaks the modern era only."""
        self._server = server
        self.subscriptions = Subscriptions()
        self._watch: HandshakeWatch | None = None
        self._slots = slots
        self._slots.resize(MAX_EXTRA, room=MAX_WAITING)
        self._asks_outside = False
        self._not_before = 0.0

    def start_over(self) -> None:
        """What answers next may know more than what was there before. How it asks is not forgotten."""
        self.none = False
        self._not_before = 0.0

    def asked_outside(self) -> None:
        """Sharing would mix up whose questions are whose, as with any other session."""
        self._asks_outside = True

    def wanted_for(self, main: UpstreamSession, channel: ClientChannel | None, kind: Sessions) -> bool:
        """Whether a call had better go this way. `shared` may mean that the server must exist once."""
        if channel is None or not channel.live or self.none or kind == "shared" or not main.modern:
            return False
        if declares(channel.capabilities):  # only the modern era has tasks, and those are followed
            return False
        return not ASKABLE.isdisjoint(channel.capabilities) and asyncio.get_running_loop().time() >= self._not_before

    def alone(self, kind: Sessions) -> bool:
        """Whether each call has a session to itself."""
        return kind == "exclusive" or (kind == "auto" and self._asks_outside)

    async def enter(
        self, stack: AsyncExitStack, permit: Permit, kind: Sessions, patience: float
    ) -> UpstreamSession | None:
        """A session for as long as `stack` lasts; None where there is none to be had, and the modern one has to do.
        Raises `UpstreamFailure` where there are too many already."""
        if alone := self.alone(kind):
            await stack.enter_async_context(self._slots.place(patience, permit.principal))
        try:
            return await stack.enter_async_context(self._seat(permit, kind, alone, min(patience / 2, OPEN_PATIENCE)))
        except UpstreamFailure as failure:
            if failure.code is Code.OVERLOADED:
                raise
            logger.info("%s: clients of the handshake era share its modern session: %s", self._server, failure.message)
            self._not_before = asyncio.get_running_loop().time() + RETRY_PAUSE
            return None

    # Resources, where the server tells of their changes in this era only.

    def watches(self, main: UpstreamSession, channel: ClientChannel | None, kind: Sessions, uri: str) -> bool:
        """Whether this resource is, or had better be, watched over such a session."""
        if uri in self.subscriptions.uris:
            return True
        offered = main.handshake.capabilities.get("resources")
        return not (isinstance(offered, dict) and "subscribe" in offered) and self.wanted_for(main, channel, kind)

    async def watch(self, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        """Raises `UpstreamFailure`."""
        async with self.pool.shared(timeout) as session:
            self._watch = HandshakeWatch(self._server, session)
            return await self.subscriptions.add(self._watch, permit, uri, timeout)

    async def unwatch(self, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        """Raises `UpstreamFailure`; nothing is watched then all the same."""
        if self._watch is None:
            return {}
        return await self.subscriptions.remove(self._watch, permit, uri, timeout)

    async def follow(self) -> None:
        """What was watched is watched again when the server is back."""
        if not self.subscriptions.uris:
            return
        try:
            async with self.pool.shared(OPEN_PATIENCE) as session:
                self._watch = HandshakeWatch(self._server, session)
                await self._watch.run(self.subscriptions.uris)
        except UpstreamFailure as failure:
            logger.warning("%s: it no longer sends change notifications: %s", self._server, failure.message)

    def _seat(
        self, permit: Permit, kind: Sessions, alone: bool, patience: float
    ) -> AbstractAsyncContextManager[UpstreamSession]:
        if kind == "per_client" and permit.channel is not None and permit.channel.key:
            return self.pool.own(permit, permit.channel.key, patience)
        return self.pool.alone(None, permit, patience) if alone else self.pool.shared(patience)
