"""A live conversation with a server, as its holder sees it, whatever kind of connection it goes over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from mcpproxy_py.core.protocol.client_channel import ClientChannel
from mcpproxy_py.core.values import NOTHING
from mcpproxy_py.upstream.permit import Permit, Permitted

if TYPE_CHECKING:
    from mcpproxy_py.upstream.session.rpc import PendingRequest

Hear = Callable[[str, Mapping[str, Any]], None]
Headers = Mapping[str, str]
Stamp = Callable[[Permitted, ClientChannel | None], tuple[Mapping[str, Any], Headers]]
"""The parameters of a message as the server's era wants them, and its HTTP headers."""


def unstamped(message: Permitted, channel: ClientChannel | None) -> tuple[Mapping[str, Any], Headers]:
    """As it is: before a connection knows what era its server is of."""
    return message.params, NOTHING


class RpcConnection:
    """One live conversation with a server, of whatever kind. The `on_...` are for the holder to set. All are called on
    the event loop and must not block."""

    wants_headers = False
    """Whether there is HTTP underneath, so that working them out is not for nothing."""
    traced = False
    """Whether a request's headers repeat the trace context in its `_meta`."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.why = ""
        self.on_closed: Callable[[], None] = lambda: None
        self.on_notification: Hear = lambda method, params: None
        self.on_outside: Callable[[], None] = lambda: None
        """The server asked something outside the stream of any call, while calls were under way."""
        self.on_gap: Callable[[], None] = lambda: None
        """What the server says unasked is heard from now on. What it said before, it said to nobody."""
        self.on_unattributed: Callable[[str], None] = lambda method: None
        """The server asked something of some call, nobody can tell of which, and was refused."""
        self.one_client = False
        """Whether every call here is of one and the same client, so that any of them leads to it."""
        self.unanswered_for = inf
        """Seconds for which a call that was given up, and never answered, may still be at its server."""

    async def request(
        self, permit: Permit, *, timeout: float | None, stamp: Stamp = unstamped, hear: Hear | None = None
    ) -> dict[str, Any]:
        """The peer's raw result. Raises `UpstreamFailure`, and `NotPermitted` where nothing was sent because it may not
        be any more. A cancelled caller cancels the peer too. `hear` gets the notifications that belong to it, where
        that is not its client."""
        raise NotImplementedError

    async def notify(self, permit: Permit, stamp: Stamp = unstamped) -> None:
        raise NotImplementedError

    def bind_client(self, permit: Permit) -> None:
        """Until `unbind_client`, what the server asks is for this client, also while no call of it is under way yet."""

    def unbind_client(self) -> None: ...

    def away(self) -> Iterable[PendingRequest]:
        """The calls whose clients went away with a question, and may or may not come back."""
        return ()

    def serves(self, key: str) -> bool:
        """Whether calls are under way here, and all of them are this client's."""
        return False

    @property
    def calls(self) -> int:
        """Requests of clients under way."""
        return 0

    @property
    def unanswered(self) -> bool:
        """Whether a call was given up here that its server has not answered: what it asks may belong to that."""
        return False

    def counts(self) -> dict[str, int]:
        """What the peer sent that was of no use."""
        return {}
