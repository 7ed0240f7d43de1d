"""One live conversation with an upstream, of whatever kind, and what whoever holds it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mcpproxy_py.core.talk import Talk
from mcpproxy_py.upstream.pending import Hear, Pending

OnNotification = Callable[[str, Mapping[str, Any]], None]


class Connection:
    """The `on_...` are for the holder to set. All are called on the event loop and must not block."""

    wants_headers = False
    """Whether there is HTTP underneath, so that working them out is not for nothing."""
    traced = False
    """Whether a request's headers repeat the trace context in its `_meta`."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.why = ""
        self.on_closed: Callable[[], None] = lambda: None
        self.on_notification: OnNotification = lambda method, params: None
        self.on_outside: Callable[[], None] = lambda: None
        """The server asked something outside the stream of any call."""
        self.on_gap: Callable[[], None] = lambda: None
        """What the server says unasked is heard from now on. What it said before, it said to nobody."""
        self.on_unattributed: Callable[[str], None] = lambda method: None
        """The server asked something that belongs to no one call, and was refused."""
        self.one_client = False
        """Whether every call here is of one and the same client, so that any of them leads to it."""

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None, talk: Talk | None = None,
        hear: Hear | None = None, headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The peer's raw result. Raises `UpstreamFailure`; a cancelled caller cancels the peer too.

        `talk` is the client it is for, None for the gateway itself. `hear` gets the notifications that belong to it,
        where that is not `talk.note`.
        """
        raise NotImplementedError

    async def notify(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        raise NotImplementedError

    def host(self, talk: Talk) -> None:
        """Until `unhost`, what the server asks is for this client, also while no call of it is under way yet."""

    def unhost(self) -> None: ...

    def away(self) -> Iterable[Pending]:
        """The calls whose clients went away with a question, and may or may not come back."""
        return ()

    def serves(self, key: str) -> bool:
        """Whether calls are under way here, and all of them are this client's."""
        return False

    @property
    def calls(self) -> int:
        """Requests of clients under way."""
        return 0

    def counts(self) -> dict[str, int]:
        """What the peer sent that was of no use."""
        return {}
