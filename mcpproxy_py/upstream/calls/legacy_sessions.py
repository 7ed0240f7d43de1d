"""Session-based sessions with a server that speaks both protocol revisions, for session-based clients (SURF-6).

The gateway's main session with such a server is stateless. On it the server cannot send a request during a call, sends
log lines only on demand, and tells of changed lists only if it implements `subscriptions/listen`. A session-based
client gets what it would get without the gateway: its calls go over a session-based session, opened with the first one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcpproxy_py.upstream.calls.scheduler import CallSlots


from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol.client_channel import NEEDS
from mcpproxy_py.core.protocol.constants import MISSING_REQUIRED_CLIENT_CAPABILITY
from mcpproxy_py.core.protocol.methods import with_check
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
TASK_REQUESTS: Final = with_check("passthrough", "task")
TASK_SUPPORT: Final = ("optional", "required")
ASKABLE: Final = frozenset(NEEDS.values())
"""A client that declares one of these can be sent requests. The others share sessions that declare none."""


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

    def is_session_based(self, main: UpstreamSession, permit: Permit, kind: Sessions) -> bool:
        """The protocol revision of a call, session-based or stateless: its client's, if its server speaks it.

        Only the stateless revision has tasks (MCP 2026-07-28, tasks extension), so requests about tasks go over it, and
        tools that can run as a task if the client or the gateway follows it. `shared` can mean that the server must
        exist once; a second session can be a process."""
        if not main.modern:
            return True
        channel = permit.channel
        if channel is None or not channel.live or self.none or kind == "shared":
            return False
        if permit.method in TASK_REQUESTS or (
            permit.tool in (main.task_tools or ()) and declares(channel.capabilities)
        ):
            return False
        return asyncio.get_running_loop().time() >= self._not_before

    def needs_task(self, main: UpstreamSession, permit: Permit, failure: UpstreamFailure) -> bool:
        """Whether the server refused a session-based call of this tool because it runs as a task only.

        A server that needs a capability refuses the call before it runs (MCP 2026-07-28, error -32021), so the call can
        be sent again."""
        missing = json_values.as_object(failure.data.get("data")) or {}
        required = json_values.as_object(missing.get("requiredCapabilities")) or {}
        if (
            permit.tool is None
            or failure.data.get("code") != MISSING_REQUIRED_CLIENT_CAPABILITY
            or not declares(required)
        ):
            return False
        if permit.channel is None or not declares(permit.channel.capabilities):
            return False
        main.task_tools = {*(main.task_tools or ()), permit.tool}
        return True

    def alone(self, kind: Sessions) -> bool:
        """Whether each call has a session to itself."""
        return kind == "exclusive" or (kind == "auto" and self._asks_outside)

    async def enter(
        self, stack: AsyncExitStack, main: UpstreamSession, permit: Permit, kind: Sessions, patience: float
    ) -> UpstreamSession | None:
        """A session for as long as `stack` lasts; None if there is none, or the call has to be stateless all the same.
        Raises `UpstreamFailure` where there are too many already."""
        channel = permit.channel
        can_ask = channel is not None and not ASKABLE.isdisjoint(channel.capabilities)
        alone = self.alone(kind) and (can_ask or kind == "exclusive")
        if alone:
            await stack.enter_async_context(self._slots.place(patience, permit.principal))
        patience = min(patience / 2, OPEN_PATIENCE)
        try:
            seat = self.pool.shared(patience, can_ask)
            if kind == "per_client" and channel is not None and channel.key:
                seat = self.pool.own(permit, channel.key, patience)
            elif alone:
                seat = self.pool.alone(None, permit, patience, can_ask)
            session = await stack.enter_async_context(seat)
            if main.task_tools is None and declares(main.handshake.capabilities):
                await self._look_up_tasks(main, session, patience)
            return session if self.is_session_based(main, permit, kind) else None
        except UpstreamFailure as failure:
            if failure.code is Code.OVERLOADED:
                raise
            logger.info("%s: session-based clients share its stateless session: %s", self._server, failure.message)
            self._not_before = asyncio.get_running_loop().time() + RETRY_PAUSE
            return None

    async def _look_up_tasks(self, main: UpstreamSession, session: UpstreamSession, patience: float) -> None:
        """Which tools can run as a task is in the session-based listing only (MCP 2025-11-25, `execution`)."""
        main.task_tools = set()
        try:
            listed = (await session.list_tools(patience)).entries
        except UpstreamFailure as failure:
            logger.info("%s: which tools can run as a task is not known: %s", self._server, failure.message)
            return
        for tool in listed:
            execution = json_values.as_object(tool.get("execution")) or {}
            if execution.get("taskSupport") in TASK_SUPPORT:
                main.task_tools.add(str(tool.get("name")))

    # Resources, where the server tells of their changes in this era only.

    def watches(self, main: UpstreamSession, permit: Permit, kind: Sessions, uri: str) -> bool:
        """Whether this resource is, or had better be, watched over such a session."""
        if uri in self.subscriptions.uris:
            return True
        offered = json_values.as_object(main.handshake.capabilities.get("resources")) or {}
        return main.modern and not offered.get("subscribe") and self.is_session_based(main, permit, kind)

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
