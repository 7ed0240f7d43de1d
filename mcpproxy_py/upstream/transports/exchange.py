"""One request over HTTP and what comes of it, whichever client carries it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from mcpproxy_py._upstream_failure import UpstreamFailure, lost
from mcpproxy_py.upstream.session.rpc import PendingRequest
from mcpproxy_py.upstream.transports.events import EventParser
from mcpproxy_py.upstream.transports.http_clients import unreachable, unsent
from mcpproxy_py.upstream.transports.http_exchange import Body, EventBody, body_after
from mcpproxy_py.upstream.transports.http_pool import Head

logger = logging.getLogger(__name__)

DRAIN: Final = 1.0
"""How long an answered stream may take to end, so that its connection can be used again."""


class Host(Protocol):
    """Whose exchange it is: the connection, which knows who waits and what belongs to whom."""

    @property
    def limit(self) -> int: ...
    def count(self, what: str) -> None: ...
    def oversize(self, head: bytes, tail: bytes) -> None: ...
    def is_settled(self, request_id: int) -> bool: ...
    def opened(self, exchange: Exchange, head: Head) -> bool: ...
    def message_in(self, exchange: Exchange, message: Any) -> None: ...
    def text_in(self, exchange: Exchange, data: bytes) -> None: ...
    def failed(self, exchange: Exchange, failure: UpstreamFailure) -> None: ...
    def ended(self, exchange: Exchange) -> None: ...
    def shut(self, why: str) -> None: ...


class Exchange:
    """Hears a response (as its `Receiver`) and what its body says (as its `Ear`). Whatever is wrong with it fails this
    request and no other. `hang_up` and `plain` are for who carries it; after `hang_up` nothing more is told."""

    def __init__(self, host: Host, pending: PendingRequest) -> None:
        self.pending, self.request_id = pending, pending.id
        self.hang_up: Callable[[], None] = _nothing
        self.plain = False
        self.limit, self.count, self.oversize = host.limit, host.count, host.oversize
        self._host = host
        self._body: Body | None = None
        self._drain: asyncio.TimerHandle | None = None
        self._over = False

    @property
    def events(self) -> EventParser | None:
        """The stream that answers it, if one does."""
        return self._body.parser if isinstance(self._body, EventBody) else None

    @property
    def headers(self) -> Mapping[str, str]:
        """Those of the message, as it was sent."""
        return self.pending.headers

    # As a receiver.

    def head(self, head: Head) -> None:
        if self._host.opened(self, head):
            self._guarded(self._begin, head)

    def body(self, data: bytes) -> None:
        if self._body is None:
            return
        self._guarded(self._body.feed, data)
        if self._drain is None and self._host.is_settled(self.request_id) and not self._over:
            self._drain = asyncio.get_running_loop().call_later(DRAIN, self.hang_up)

    def end(self) -> None:
        self.hang_up = _nothing  # what it came by may carry another already
        if self._body is not None:
            self._guarded(self._body.end)
        self._finish()

    def broken(self, why: str) -> None:
        if self.events is not None and self.events.last_id is not None:
            self.end()  # the rest can be fetched
        else:
            self.fail(lost(why, sent=self.pending.sent))

    # As an ear.

    def message(self, message: Any) -> None:
        self._host.message_in(self, message)

    def error(self, message: dict[str, Any]) -> None:
        self.message({**message, "id": self.request_id})

    def text(self, data: bytes) -> None:
        self._host.text_in(self, data)

    # Endings.

    def fail(self, failure: UpstreamFailure) -> None:
        self._host.failed(self, failure)
        self.hang_up()
        self._finish()

    def withheld(self) -> None:
        """It was not sent, and whoever waits for it knows why."""
        self.hang_up = _nothing
        self._finish()

    def unreachable(self, error: Exception) -> None:
        """Nothing answers there at all, so this is the end of the conversation too."""
        self.fail(unsent(error))
        self._host.shut(unreachable(error))

    def _begin(self, head: Head) -> None:
        self._body = body_after(head, self)

    def _guarded(self, act: Callable[..., None], *args: Any) -> None:
        try:
            act(*args)
        except UpstreamFailure as failure:
            self.fail(failure)
        except Exception as error:
            logger.exception("an exchange over HTTP failed")
            self.fail(lost(f"the exchange failed ({type(error).__name__})", sent=True))

    def _finish(self) -> None:
        if self._over:
            return
        self._over = True
        if self._drain is not None:
            self._drain.cancel()
        self._host.ended(self)


def _nothing() -> None:
    return
