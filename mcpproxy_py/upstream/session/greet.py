"""From a connection to a session: finding the era, with a memory of how this server took the question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.permit import OwnPermit, Permit
from mcpproxy_py.upstream.processes.command import CappedLog
from mcpproxy_py.upstream.session.negotiate import Handshake, ProbeKilled, negotiate
from mcpproxy_py.upstream.session.rpc import Hear, RpcConnection
from mcpproxy_py.upstream.session.session import Mirrored, Session
from mcpproxy_py.upstream.session.stamp import CAPABILITIES
from mcpproxy_py.upstream.spec import UpstreamSpec

LEVEL_TIMEOUT: Final = 5.0


@contextmanager
def attempt(connection: RpcConnection, spec: UpstreamSpec, log: CappedLog) -> Iterator[None]:
    """Bounds what is done in here to get a session, and lets it fail with what says most of why."""
    try:
        with anyio.fail_after(spec.attempt_limit):
            yield
    except UpstreamFailure:
        if connection.closed.is_set():  # why it ended says more than which question went unanswered
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, connection.why, sent=False) from None
        raise
    except TimeoutError:
        said = f"; it last wrote: {log.last_line}" if log.last_line else ""
        why = f"it did not finish connecting within {spec.attempt_limit:g} s{said}"
        raise UpstreamFailure(Code.SERVER_UNAVAILABLE, why, sent=False) from None


class Greeter:
    """One per server. What a connection tells goes to these, whichever of the server's sessions it is."""

    def __init__(
        self, on_notification: Hear, on_outside: Callable[[], None], on_unattributed: Callable[[str], None]
    ) -> None:
        self._on_notification = on_notification
        self._on_outside = on_outside
        self._on_unattributed = on_unattributed
        self._mirrored: Mirrored = {}
        self._probe = True
        self.log_level: Mapping[str, Any] | None = None
        """The params of the last `logging/setLevel`, which every further session has to hear too."""

    async def greet(self, connection: RpcConnection, spec: UpstreamSpec) -> Session:
        """The first session. Raises `UpstreamFailure`."""
        self._attach(connection)
        try:
            handshake = await negotiate(connection, probe=self._probe and spec.transport != "sse")
        except ProbeKilled:
            self._probe = spec.transport != "stdio"  # it may be the question that it did not survive
            raise
        except UpstreamFailure:
            self._probe = True
            raise
        self._probe = not (handshake.probe_unanswered and spec.transport == "stdio")
        return await self._session(connection, spec, handshake)

    async def greet_again(
        self, connection: RpcConnection, spec: UpstreamSpec, modern: bool, capabilities: Mapping[str, Any] | None
    ) -> Session:
        """Another session with the same server. `modern` as known of it, or as wanted. Raises `UpstreamFailure`."""
        self._attach(connection)
        offered = CAPABILITIES if capabilities is None else capabilities
        handshake = await negotiate(connection, probe=modern, capabilities=offered)
        return await self._session(connection, spec, handshake)

    def _attach(self, connection: RpcConnection) -> None:
        connection.on_notification = self._on_notification
        connection.on_outside = self._on_outside
        connection.on_unattributed = self._on_unattributed

    async def _session(self, connection: RpcConnection, spec: UpstreamSpec, handshake: Handshake) -> Session:
        session = Session(spec.name, connection, handshake, self._mirrored)
        if self.log_level is not None:
            await set_level(session, OwnPermit("logging/setLevel", self.log_level))
        return session


async def set_level(session: Session, permit: Permit) -> None:
    """One that does not take it only says more or less than it should; the modern era has no such thing."""
    if session.modern:
        return
    with suppress(UpstreamFailure):
        await session.request(permit, timeout=LEVEL_TIMEOUT)
