"""What every kind of connection has in common: requests matched to answers, whatever the peer does.

A peer may answer twice, late, with an id nobody used or with junk; none of that may cost anything but
the one call it belongs to. Results stay the raw objects the peer sent (UP-6, UP-10).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from mcpproxy_py.errors import Code
from mcpproxy_py.upstream import messages
from mcpproxy_py.upstream.failure import MAY_HAVE_ACTED, UpstreamFailure, bad_answer, lost
from mcpproxy_py.upstream.lines import KEPT, id_at_the_edges

logger = logging.getLogger(__name__)

UNCANCELLABLE: Final = frozenset({"initialize", "server/discover"})
"""The protocol forbids cancelling these."""

OnProgress = Callable[[Mapping[str, Any]], None]
OnNotification = Callable[[str, Mapping[str, Any]], None]


class Connection(Protocol):
    """One live conversation with an upstream."""

    closed: asyncio.Event
    why: str
    on_notification: OnNotification
    on_closed: Callable[[], None]

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None,
        on_progress: OnProgress | None = None, headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]: ...  # fmt: skip

    async def notify(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> None: ...

    def counts(self) -> dict[str, int]: ...


@dataclass(slots=True)
class Counters:
    """What a peer sent that was of no use; shown by `Supervisor.describe`."""

    garbage: int = 0
    unmatched: int = 0
    oversize: int = 0


@dataclass(slots=True)
class Pending:
    future: asyncio.Future[dict[str, Any]]
    on_progress: OnProgress | None
    sent: bool = False


class Wire:
    """Base of the real connections; they say how bytes leave (`_transmit`) and how a request is given up."""

    def __init__(self, max_result_bytes: int) -> None:
        self.closed = asyncio.Event()
        self.why = ""
        self.on_notification: OnNotification = lambda method, params: None
        self.on_closed: Callable[[], None] = lambda: None
        self._limit = max_result_bytes
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, Pending] = {}
        self._counters = Counters()
        self._last_id = 0

    # What a kind of connection adds.

    def _transmit(self, payload: bytes, headers: Mapping[str, str], request_id: int | None) -> None:
        raise NotImplementedError

    def _retract(self, request_id: int, headers: Mapping[str, str], reason: str, cancellable: bool) -> None:
        """Tell the peer that nobody waits any more. Must not wait for anything itself."""
        raise NotImplementedError

    # Outbound.

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None,
        on_progress: OnProgress | None = None, headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The peer's raw result. Raises `UpstreamFailure`; a cancelled caller cancels the peer too."""
        if self.closed.is_set():
            raise lost(self.why, sent=False)
        request_id = self._last_id = self._last_id + 1
        payload = messages.encode(messages.request(request_id, method, params, on_progress is not None))
        pending = self._pending[request_id] = Pending(self._loop.create_future(), on_progress)
        timer = self._loop.call_later(timeout, self._expire, pending, method, timeout) if timeout is not None else None
        try:
            self._transmit(payload, headers or {}, request_id)
            return await pending.future
        except asyncio.CancelledError:
            self._retract(request_id, headers or {}, "the caller cancelled", method not in UNCANCELLABLE)
            raise
        except UpstreamFailure as failure:
            if failure.code is Code.TIMEOUT:
                self._retract(request_id, headers or {}, failure.message, method not in UNCANCELLABLE)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._pending.pop(request_id, None)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        if not self.closed.is_set():
            self._transmit(messages.encode(messages.notification(method, params)), headers or {}, None)

    def _expire(self, pending: Pending, method: str, timeout: float) -> None:
        if not pending.future.done():
            outcome = MAY_HAVE_ACTED if pending.sent else "nothing had been sent"
            message = f"no answer to {method} within {timeout:.3g} s; {outcome}"
            pending.future.set_exception(UpstreamFailure(Code.TIMEOUT, message, sent=pending.sent))

    def _mark_sent(self, request_id: int | None) -> None:
        if request_id is not None and (pending := self._pending.get(request_id)) is not None:
            pending.sent = True

    # Inbound.

    def receive_text(self, data: bytes | str) -> None:
        """One message as it came off the wire; what is no JSON costs at most the call it answers."""
        try:
            message = messages.decode(data)
        except ValueError:
            raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
            self._unreadable(raw[:KEPT], raw[-KEPT:], "it answered with invalid JSON")
        else:
            self.receive(message)

    def receive(self, message: Any) -> None:
        several = message if isinstance(message, list) else [message]  # revision 2025-03-26 allowed batches
        for each in several:
            try:
                self._receive_one(each)
            except Exception:
                logger.exception("a message could not be handled")

    def _receive_one(self, message: Any) -> None:
        if not isinstance(message, dict):
            self._count_garbage(str(type(message)))
        elif isinstance(message.get("method"), str):
            self._receive_call(message)
        else:
            self._settle(message)

    def _receive_call(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._transmit(messages.encode(messages.answer(message)), {}, None)
            return
        params = message.get("params")
        self._receive_notification(message["method"], params if isinstance(params, dict) else {})

    def _receive_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/progress":
            self._progress(params)
        else:
            self.on_notification(method, params)

    def _progress(self, params: dict[str, Any]) -> None:
        pending = self._pending.get(messages.own_id(params.get("progressToken")))
        if pending is not None and pending.on_progress is not None:
            pending.on_progress(params)

    def _settle(self, message: dict[str, Any]) -> None:
        pending = self._pending.get(messages.own_id(message.get("id")))
        if pending is None or pending.future.done():
            self._counters.unmatched += 1
        elif isinstance(result := message.get("result"), dict):
            pending.future.set_result(result)
        else:
            pending.future.set_exception(messages.failure_of(message.get("error")))

    def _unreadable(self, head: bytes, tail: bytes, complaint: str) -> None:
        """Fail the call this was the answer to, where that can be told; count it otherwise."""
        request_id = id_at_the_edges(head, tail)
        if request_id is None or not self._fail(request_id, bad_answer(complaint)):
            self._count_garbage(repr(head[:80]))

    def _oversize(self, head: bytes, tail: bytes) -> None:
        request_id = id_at_the_edges(head, tail)
        if request_id is None and tail and len(self._pending) == 1:
            request_id = next(iter(self._pending))
        if not tail:
            self._counters.oversize += 1
        if request_id is not None:
            self._fail(request_id, bad_answer(f"it answered with more than {self._limit} bytes"))

    def _count_garbage(self, shown: str) -> None:
        self._counters.garbage += 1
        # Powers of two: the first is always told, a flood of them is not.
        if self._counters.garbage & (self._counters.garbage - 1) == 0:
            logger.warning("ignored %d unreadable messages, the last: %s", self._counters.garbage, shown)

    # Endings.

    def _fail(self, request_id: int, failure: UpstreamFailure) -> bool:
        pending = self._pending.get(request_id)
        if pending is None or pending.future.done():
            return False
        pending.future.set_exception(failure)
        return True

    def shut(self, why: str) -> None:
        """The conversation is over: everybody who waits is told so, with whether it had been sent. `on_closed` comes
        first, so that whoever hears of it here finds it published."""
        if self.closed.is_set():
            return
        self.why = why
        self.closed.set()
        self.on_closed()
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(lost(why, pending.sent))

    def counts(self) -> dict[str, int]:
        return asdict(self._counters)
