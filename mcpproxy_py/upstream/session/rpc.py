"""One JSON-RPC connection with a server: requests sent, waited for and given up, and what comes in, sorted.

Nothing is written here but what a permit gave (`send_now`). Coming in, a peer may answer twice, late, with an id nobody
used or with junk; none of that may cost anything but the one call it belongs to. Results stay raw (UP-6, UP-10).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final, Protocol

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.deadlines import Deadlines
from mcpproxy_py.core.json_size import MAX_VALUES, SMALL
from mcpproxy_py.core.values import NOTHING
from mcpproxy_py.errors import MAY_HAVE_ACTED, Code, UpstreamFailure, bad_answer, lost
from mcpproxy_py.jsonrpc import KEPT, id_at_the_edges, object_in, without
from mcpproxy_py.upstream.permit import NotPermitted, OwnPermit, Permit
from mcpproxy_py.upstream.session import attribution
from mcpproxy_py.upstream.session.attribution import (
    CANCELLED_FOR,
    ROOTS,
    IgnoredMessages,
    latest_of_one_client,
    leaves,
    only_one,
)
from mcpproxy_py.upstream.session.connection import Headers, Hear, RpcConnection, Stamp, unstamped
from mcpproxy_py.upstream.session.large_messages import LargeMessages, LargeResult
from mcpproxy_py.upstream.session.server_requests import (
    ABANDONED,
    OUTSIDE,
    TOO_LATE,
    WHOSE,
    ServerRequestAnswer,
    ServerRequests,
    UnansweredCalls,
)
from mcpproxy_py.upstream.session.throttle import PROGRESS, NotificationThrottle

logger = logging.getLogger(__name__)

CHANGES: Final = frozenset({
    "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
    "notifications/resources/updated",
})  # fmt: skip
"""They concern everybody, on whatever stream they come."""
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
UNATTRIBUTED_TOLD: Final = 100
"""Per connection; a server that goes on like that is counted, but must not fill the record."""
LONGEST_BATCH: Final = 1_000
UNCANCELLABLE: Final = frozenset({"initialize", "server/discover"})
"""The protocol forbids cancelling these."""

Write = Callable[[bytes, Headers], None]
"""How a connection of some kind writes one message, at once. Raises `UpstreamFailure` where it cannot, and then nothing
was written."""


# What is sent.


class Outgoing(Protocol):
    """A message on its way out, which may still wait for room. `compose` makes it at the moment of sending."""

    sent: bool

    def compose(self) -> tuple[bytes, Headers]:
        """Raises `NotPermitted`, and `UpstreamFailure` for what cannot be written."""
        ...

    def fail(self, failure: Exception) -> object: ...


class PendingRequest:
    """One request of ours that has no answer yet. `hear` gets the notifications that belong to it. Its time stands
    still while its client is being asked something, since a person may take minutes."""

    __slots__ = (
        "_deadlines",
        "_flow",
        "_hear",
        "_loop",
        "_stamp",
        "_timeout",
        "answered",
        "asked_at",
        "channel",
        "future",
        "headers",
        "id",
        "method",
        "permit",
        "questions",
        "sent",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deadlines: Deadlines, request_id: int, permit: Permit, stamp: Stamp,
        timeout: float | None, hear: Hear | None,
    ) -> None:  # fmt: skip
        self.id = request_id
        self.permit = permit
        self.method = permit.method
        self.channel = permit.channel
        self.future: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.sent = False
        self.answered = False
        """Whether the server has said its last word on it."""
        self.headers: Headers = NOTHING
        self.questions = 0
        self.asked_at = 0.0
        self._loop = loop
        self._deadlines = deadlines
        self._stamp = stamp
        self._timeout = timeout
        self._hear = hear
        self._flow: NotificationThrottle | None = None
        if timeout is not None:
            deadlines.add(self, timeout, self._expire)

    def compose(self) -> tuple[bytes, Headers]:
        if self.future.done():
            raise lost("nobody waits for it any more", sent=False)
        message = self.permit()
        params, self.headers = self._stamp(message, self.channel)
        wants_progress = self.channel is not None and self.channel.wants_progress
        return jsonrpc.encode(jsonrpc.request_object(self.id, message.method, params, wants_progress)), self.headers

    @property
    def over(self) -> bool:
        return self.future.done()

    def hold(self) -> None:
        """A question is out."""
        self.asked_at = self.asked_at if self.questions else self._loop.time()
        self.questions += 1
        self._deadlines.discard(self)

    def go_on(self) -> None:
        """It has its answer, and the time starts anew."""
        self.questions -= 1
        if not self.questions and not self.future.done() and self._timeout is not None:
            self._deadlines.add(self, self._timeout, self._expire)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        hear = self._hear or (self.channel.notify if self.channel is not None else None)
        if hear is None or self.future.done():
            return
        if self._flow is None:
            self._flow = NotificationThrottle(self._loop, hear)
        self._flow.put(method, params)

    def succeed(self, result: dict[str, Any]) -> None:
        self.answered = True
        if self._flow is not None:
            self._flow.flush()
        self.future.set_result(result)

    def fail(self, failure: Exception) -> bool:
        if self.future.done():
            return False
        if self._flow is not None:
            self._flow.flush()
        self.future.set_exception(failure)
        return True

    def end(self) -> None:
        """Nobody waits for it any more."""
        self._deadlines.discard(self)
        if self._flow is not None:
            self._flow.close()

    def discard(self) -> None:
        """Nobody will ask how it ended."""
        if not self.future.cancel() and not self.future.cancelled():
            self.future.exception()

    def _expire(self) -> None:
        outcome = MAY_HAVE_ACTED if self.sent else "nothing had been sent"
        message = f"no answer to {self.method} within {self._timeout:.3g} s; {outcome}"
        self.fail(UpstreamFailure(Code.TIMEOUT, message, sent=self.sent))


class Notice:
    """A notification, which nobody answers."""

    __slots__ = ("_permit", "_stamp", "headers", "sent")

    def __init__(self, permit: Permit, stamp: Stamp) -> None:
        self._permit = permit
        self._stamp = stamp
        self.headers: Headers = NOTHING
        self.sent = False

    def compose(self) -> tuple[bytes, Headers]:
        message = self._permit()
        params, self.headers = self._stamp(message, self._permit.channel)
        return jsonrpc.encode(jsonrpc.notification_object(message.method, params or None)), self.headers

    def fail(self, failure: Exception) -> None:
        logger.debug("a notification was not sent: %s", failure)


def send_now(outgoing: Outgoing, write: Write) -> bool:
    """The one place where anything leaves for a server: permitted, stamped, encoded and written in one turn of the
    event loop, without an `await` in between. What may not leave fails where it was waited for. Whether it left. A
    message that was sent once stays sent, also where it may not be sent again."""
    before = outgoing.sent
    try:
        payload, headers = outgoing.compose()
        outgoing.sent = True
        write(payload, headers)
    except (NotPermitted, UpstreamFailure) as why:
        outgoing.sent = before
        outgoing.fail(why)
        return False
    return True


# The connection.


class RpcPeer(RpcConnection):
    """A connection over a real wire; its kinds say how bytes leave (`_send`) and how a request is given up. `stream` is
    the request on whose own stream a message came; None where there are no such streams."""

    def __init__(self, max_result_bytes: int, max_values: int = MAX_VALUES) -> None:
        super().__init__()
        self._limit = max_result_bytes
        self.large = LargeMessages(max_values, self._hold)
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, PendingRequest] = {}
        self._deadlines = Deadlines(self._loop.time, self._loop.call_at)
        self._questions = ServerRequests(self._say)
        self._counters = IgnoredMessages()
        self._given_up = UnansweredCalls(self._loop.time)
        self._told = 0
        self._last_id = 0
        self._guest = 0

    def _hold(self, stream: int | None, hold: bool) -> None: ...

    # Requests of ours.

    def _send(self, outgoing: Outgoing) -> None:
        """Have `send_now` write this as soon as there is room, by the kind of connection."""
        raise NotImplementedError

    def _retract(self, pending: PendingRequest, reason: str, cancellable: bool) -> None:
        """Tell the peer that nobody waits any more. Must not wait for anything itself."""
        raise NotImplementedError

    async def request(
        self, permit: Permit, *, timeout: float | None, stamp: Stamp = unstamped, hear: Hear | None = None
    ) -> dict[str, Any]:
        if self.closed.is_set():
            raise lost(self.why, sent=False)
        request_id = self._last_id = self._last_id + 1
        pending = PendingRequest(self._loop, self._deadlines, request_id, permit, stamp, timeout, hear)
        self._pending[request_id] = pending
        try:
            self._send(pending)
            result = await pending.future
        except asyncio.CancelledError:
            self._leave(pending, pending.sent)
            self._retract(pending, "the caller cancelled", pending.method not in UNCANCELLABLE)
            raise
        except NotPermitted as no:
            no.sent = pending.sent
            self._leave(pending, pending.sent)
            self._retract(pending, "the call is not allowed any more", pending.sent)
            raise no from None
        except UpstreamFailure as failure:
            failure.sent = failure.sent or pending.sent
            self._leave(pending, failure.sent and "status" not in failure.data)  # a status is an answer too
            if failure.code is Code.TIMEOUT:
                self._retract(pending, failure.message, pending.method not in UNCANCELLABLE)
            raise
        finally:
            self._pending.pop(request_id, None)
            pending.end()
            if pending.questions:
                self._questions.end(pending)
        if type(result) is LargeResult:
            await result.turn()  # for its record
        return result

    def _leave(self, pending: PendingRequest, sent: bool) -> None:
        """It has ended here. Where the server was sent it and has not answered, it has not ended there."""
        if sent and not pending.answered and pending.channel is not None and self._goes_on(pending):
            self._given_up.add(pending.id, pending.channel.caller)

    def _goes_on(self, pending: PendingRequest) -> bool:
        """Whether the server can still say something of a request that was given up."""
        return True

    @property
    def unanswered(self) -> bool:
        return self._given_up.any(self.unanswered_for)

    def bind_client(self, permit: Permit) -> None:
        guest = self._guest = self._last_id = self._last_id + 1
        pending = PendingRequest(self._loop, self._deadlines, guest, permit, unstamped, None, None)
        pending.method = ""
        self._pending[guest] = pending

    def unbind_client(self) -> None:
        pending = self._pending.pop(self._guest, None)
        if pending is not None:
            pending.end()
            if pending.questions:
                self._questions.end(pending)
            pending.discard()

    async def notify(self, permit: Permit, stamp: Stamp = unstamped) -> None:
        if not self.closed.is_set():
            self._send(Notice(permit, stamp))

    def _say(self, answer: ServerRequestAnswer) -> None:
        if not self.closed.is_set():
            self._send(answer)

    def shut(self, why: str) -> None:
        """The conversation is over: everybody who waits is told so, with whether it had been sent. `on_closed` comes
        first, so that whoever hears of it here finds it published."""
        if self.closed.is_set():
            return
        self.why = why
        self.closed.set()
        self.on_closed()
        for pending in self._pending.values():
            pending.fail(lost(why, pending.sent))

    # What comes in. Nearly all of it is the answer to a request, which takes the short way.

    def receive_text(self, data: bytes, stream: int | None = None) -> None:
        """One message off the wire; what is no JSON costs at most the call it answers. A large one waits its turn."""
        if len(data) > SMALL:
            read = partial(self._receive_large, len(data), stream)
            self.large.put(data, stream, read, partial(self._unreadable, data))
            return
        if self.large.waiting and self.large.after(stream, partial(self.receive_text, data, stream)):
            return
        try:
            message = jsonrpc.decode(data)
        except ValueError as error:
            self._unreadable(data, jsonrpc.complaint(error))
            return
        if type(message) is dict and "method" not in message:
            pending = self._pending.get(request_id) if type(request_id := message.get("id")) is int else None
            if pending is not None and type(result := message.get("result")) is dict and not pending.future.done():
                pending.succeed(result)
                return
        self.receive(message, stream)

    def _receive_large(self, size: int, stream: int | None, message: Any) -> None:
        if type(message) is dict and type(result := message.get("result")) is dict:
            message["result"] = LargeResult(result, size)
        self.receive(message, stream)

    def receive(self, message: Any, stream: int | None = None) -> None:
        several = message if isinstance(message, list) else [message]  # revision 2025-03-26 allowed batches
        if len(several) > LONGEST_BATCH:
            several = [None]  # counted as garbage
        for each in several:
            try:
                self._receive_one(each, stream)
            except Exception:
                logger.exception("a message could not be handled")

    def _receive_one(self, message: Any, stream: int | None) -> None:
        if not isinstance(message, dict):
            self._count_garbage(str(type(message)))
        elif not isinstance(method := message.get("method"), str):
            self._settle(message)
        elif "id" in message:
            self._receive_request(message["id"], method, object_in(message, "params"), stream)
        else:
            self._receive_notification(method, object_in(message, "params"), stream)

    def _settle(self, message: dict[str, Any]) -> None:
        request_id = jsonrpc.own_id(message.get("id"))
        pending = self._pending.get(request_id)
        if pending is not None and not pending.over and isinstance(result := message.get("result"), dict):
            pending.succeed(result)
            return
        self._answered(request_id)
        if pending is None or pending.over:
            self._counters.unmatched += 1
        else:
            pending.fail(jsonrpc.failure_of(message.get("error")))

    def _answered(self, request_id: int) -> None:
        """The server is done with this request of ours, however late and whatever it said."""
        self._given_up.discard(request_id)
        if (pending := self._pending.get(request_id)) is not None:
            pending.answered = True

    def _spoiled(self, request_id: int, complaint: str) -> bool:
        """It is done with it, and nobody can read what it said. Whether somebody waited for that."""
        self._answered(request_id)
        return self._fail(request_id, bad_answer(complaint))

    def _receive_request(self, request_id: Any, method: str, params: dict[str, Any], stream: int | None) -> None:
        if isinstance(request_id, bool) or not isinstance(request_id, str | int):
            self._count_garbage(f"a request with the id {str(request_id)[:40]!r}")
        elif method == "ping":
            self._say(ServerRequestAnswer(request_id, lambda: _PONG))
        elif stream is not None and self._is_settled(stream):
            self._refuse(request_id, method, TOO_LATE)
        elif isinstance(whose := self._whose(stream, method), str):
            if method == ROOTS:
                self._counters.unattributed += 1
                self._say(ServerRequestAnswer(request_id, lambda: _NO_ROOTS))
            else:
                self._refuse(request_id, method, whose)
        elif whose.channel is not None:
            self._questions.put(request_id, method, params, whose, whose.channel)

    def _is_settled(self, request_id: int) -> bool:
        pending = self._pending.get(request_id)
        return pending is None or pending.over

    def _whose(self, stream: int | None, method: str) -> PendingRequest | str:
        """The call a question belongs to: the one on whose own stream it came, or else the only one there is; or why it
        belongs to nobody. Calls that were given up may still be under way there, so with one of those nobody can tell.
        What is asked outside any call says nothing of how calls ask (UP-5, UP-11); nor does a question for the roots,
        which are a client's and not a call's: servers put it when they start, or with their first call."""
        own = self._pending.get(stream) if stream is not None else None
        if own is not None:  # on a stream of the gateway's own, it is for whom this session is being opened, if anybody
            return own if own.channel is not None else self._pending.get(self._guest, OUTSIDE)
        under_way = self._under_way()
        if method == ROOTS:
            return self._roots_owner(under_way) or OUTSIDE
        if any(each.method for each in under_way):
            self.on_outside()
        if self.unanswered:
            return ABANDONED
        return only_one(under_way, self.one_client) or (WHOSE if under_way else OUTSIDE)

    def _under_way(self) -> list[PendingRequest]:
        return [each for each in self._pending.values() if each.channel is not None and not each.over]

    def _roots_owner(self, under_way: list[PendingRequest]) -> PendingRequest | None:
        if self.unanswered and not self.one_client:
            return None  # the call that was given up may be somebody else's
        return only_one(under_way, self.one_client) or latest_of_one_client(under_way)

    def _refuse(self, request_id: str | int, method: str, why: str) -> None:
        self._counters.unattributed += 1
        if why is not OUTSIDE and self._told < UNATTRIBUTED_TOLD:
            self._told += 1
            self.on_unattributed(method)
        self._questions.refuse(request_id, why)

    def _receive_notification(self, method: str, params: dict[str, Any], stream: int | None) -> None:
        if method == PROGRESS:
            self._note(jsonrpc.own_id(params.get("progressToken")), method, params)
        elif method == "notifications/cancelled":
            self._cancelled(params.get("requestId"))
        elif method == ACKNOWLEDGED:
            self._note(stream or jsonrpc.own_id(object_in(params, "_meta").get(SUBSCRIPTION_ID)), method, params)
        elif method in CHANGES:
            self._changed(method, params)
        else:
            self._tell(method, params, stream)

    def _changed(self, method: str, params: dict[str, Any]) -> None:
        meta = object_in(params, "_meta")
        if SUBSCRIPTION_ID not in meta:
            self.on_notification(method, params)
        elif not self._is_settled(jsonrpc.own_id(meta[SUBSCRIPTION_ID])):  # else it is late
            kept = without(meta, SUBSCRIPTION_ID)
            self.on_notification(method, {**params, "_meta": kept} if kept else without(params, "_meta"))

    def _note(self, request_id: int, method: str, params: dict[str, Any]) -> None:
        """To the request it belongs to; what comes late for it is dropped."""
        if (pending := self._pending.get(request_id)) is not None:
            pending.notify(method, params)

    def _tell(self, method: str, params: dict[str, Any], stream: int | None) -> None:
        """Log messages and all that this room does not know: the call's, where it came on a call's stream or only one
        is under way; everybody's otherwise. A line that only a cancelled call can have caused is dropped."""
        owner, nobodys = self._pending.get(stream) if stream is not None else None, self.one_client
        if stream is None:
            cancelled = self._given_up.callers(min(self.unanswered_for, CANCELLED_FOR))
            owner, nobodys = attribution.of_log_line(self._under_way(), self.one_client, cancelled)
        if owner is not None and owner.channel is not None:
            owner.notify(method, params)
        elif (stream is None or owner is not None) and not nobodys:
            self.on_notification(method, params)

    def _cancelled(self, request_id: Any) -> None:
        """A question of the server's that it takes back, or, in the modern era, a subscription that it ends."""
        if not self._questions.withdraw(request_id):
            pending = self._pending.get(jsonrpc.own_id(request_id))
            if pending is not None and pending.method == "subscriptions/listen":
                pending.fail(lost("the server ended the subscription", sent=True))

    def _unreadable(self, data: bytes, complaint: str) -> None:
        """Fail the call this was the answer to, where that can be told; count it otherwise."""
        request_id = id_at_the_edges(data[:KEPT], data[-KEPT:])
        if request_id is None or not self._spoiled(request_id, complaint):
            self._count_garbage(repr(data[:80]))

    def _oversize(self, head: bytes, tail: bytes) -> None:
        request_id = id_at_the_edges(head, tail)
        if request_id is None and tail and len(self._pending) == 1:
            request_id = next(iter(self._pending))
        if not tail:
            self._counters.oversize += 1
        if request_id is not None:
            self._spoiled(request_id, f"it answered with more than {self._limit} bytes")

    def _count_garbage(self, shown: str) -> None:
        self._counters.garbage += 1
        # Powers of two: the first is always told, a flood of them is not.
        if self._counters.garbage & (self._counters.garbage - 1) == 0:
            logger.warning("ignored %d unreadable messages, the last: %s", self._counters.garbage, shown)

    def _fail(self, request_id: int, failure: UpstreamFailure) -> bool:
        pending = self._pending.get(request_id)
        return pending is not None and pending.fail(failure)

    def away(self) -> Iterable[PendingRequest]:
        return [each for each in self._pending.values() if each.questions and not each.over and leaves(each)]

    @property
    def calls(self) -> int:
        return sum(pending.channel is not None for pending in self._pending.values())

    def serves(self, key: str) -> bool:
        served = {each.channel.key for each in self._pending.values() if each.channel is not None}
        return served == {key}

    def counts(self) -> dict[str, int]:
        return asdict(self._counters)


_PONG: Final = OwnPermit("ping").answer({"result": {}})
_NO_ROOTS: Final = OwnPermit(ROOTS).answer({"result": {"roots": []}})


def cancellation(request_id: int, reason: str, stamp: Stamp = unstamped) -> Notice:
    """That nobody waits for this request any more: our own id, and our own words."""
    return Notice(OwnPermit("notifications/cancelled", {"requestId": request_id, "reason": reason}), stamp)
