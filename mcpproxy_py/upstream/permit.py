"""What may leave for a server: only what a permit gave, at the moment in which it is sent (GATE-14).

Whoever asks hands down a permit with the request. It is called when everything else is there (a place, a session, a
connection with room in it), in the same turn of the event loop in which the message is written, and gives the message
or raises; `inbound.send_now` is where. The gateway makes the permits of its callers (`gateway.CallPermit`); what it
says itself has a permit of its own kind, which is made here and holds nothing of a client's.
`tests/house/test_choke_point.py` holds who may make what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, final

from mcpproxy_py.core.protocol.client_channel import NOBODY, ClientChannel, NarrowedChannel
from mcpproxy_py.core.protocol.tasks import CANCEL, DECLARED
from mcpproxy_py.core.values import NOTHING, Refusal


class Permitted(NamedTuple):
    """A request or a notification that may be sent now. `meta` is what goes into its `_meta` beside our own keys."""

    method: str
    params: Mapping[str, Any]
    meta: Mapping[str, Any] | None = None


class PermittedAnswer(NamedTuple):
    """An answer to a server's own request that may be sent now: `{"result": ...}` or `{"error": ...}`."""

    body: Mapping[str, Any]


class NotPermitted(Exception):
    """What was allowed when it was asked for is not allowed, or not on record, any more. `sent` is whether the server
    had the request already: it was to be sent again, or its client answered a question."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.sent = False


class Permit(Protocol):
    """Leave to send one request, and the answers to what its server asks meanwhile."""

    @property
    def method(self) -> str:
        """What will be asked, for whoever finds the way; what is sent is only what the call gives."""
        ...

    @property
    def channel(self) -> ClientChannel | None:
        """The client it is for; `None` for the gateway itself."""
        ...

    @property
    def principal(self) -> str:
        """Whose quota it counts against; empty for the gateway itself."""
        ...

    def __call__(self) -> Permitted:
        """The message, to be written before anything else can happen. Raises `NotPermitted`. May be called again, where
        a message is sent anew."""
        ...

    @property
    def tool(self) -> str | None:
        """The name of the tool that is called, for whoever makes spans."""
        ...

    def within(self, trace: Mapping[str, str | None]) -> None:
        """The message says that it belongs to this trace; a key that is `None` is taken off."""
        ...

    def note_resend(self) -> None:
        """The server turned the message away, and it is sent once more: on record."""
        ...

    async def record_answer(self, method: str, body: Mapping[str, Any]) -> None:
        """The client answered a server's request: on record, and on disk where the call is above read. Raises
        `NotPermitted`."""
        ...

    def answer(self, body: Mapping[str, Any]) -> PermittedAnswer:
        """As the call, for that answer."""
        ...


class OwnPermit:
    """For the gateway's own traffic: negotiation, lists, cancellation, answers to pings. Nothing of a client's is in
    it, so there is nothing to decide or to record."""

    __slots__ = ("_message",)

    channel: ClientChannel | None = None
    principal = ""
    tool: str | None = None

    def __init__(self, method: str, params: Mapping[str, Any] = NOTHING) -> None:
        self._message = Permitted(method, params)

    @property
    def method(self) -> str:
        return self._message.method

    def within(self, trace: Mapping[str, str | None]) -> None:
        """It belongs to nobody's trace."""

    def __call__(self) -> Permitted:
        return self._message

    def note_resend(self) -> None:
        """It belongs to no record."""

    async def record_answer(self, method: str, body: Mapping[str, Any]) -> None:
        return

    def answer(self, body: Mapping[str, Any]) -> PermittedAnswer:
        return PermittedAnswer(body)


@final
class CancelPermit(OwnPermit):
    """For a task that nobody may wait for any more: it is told to end, as a call in flight would be. Beside the id that
    its server gave, there is nothing in it."""

    channel: ClientChannel | None = NarrowedChannel(NOBODY, DECLARED)

    def __init__(self, task_id: str) -> None:
        super().__init__(CANCEL, {"taskId": task_id})


@final
class WatchPermit:
    """For a modern server, which is told of all watched resources in one request: `inner` is the permit of the client
    that wants one more, and what is sent instead names those that were permitted before as well."""

    __slots__ = ("_inner", "_message")

    channel: ClientChannel | None = None
    principal = ""
    tool: str | None = None

    def __init__(self, inner: Permit, method: str, params: Mapping[str, Any]) -> None:
        self._inner = inner
        self._message = Permitted(method, params)

    @property
    def method(self) -> str:
        return self._message.method

    def within(self, trace: Mapping[str, str | None]) -> None:
        """It belongs to nobody's trace."""

    def __call__(self) -> Permitted:
        self._inner()
        return self._message

    def note_resend(self) -> None:
        self._inner.note_resend()

    async def record_answer(self, method: str, body: Mapping[str, Any]) -> None:
        await self._inner.record_answer(method, body)

    def answer(self, body: Mapping[str, Any]) -> PermittedAnswer:
        return self._inner.answer(body)
