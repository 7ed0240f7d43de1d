"""What a server says, sorted: answers to their requests, questions and notifications to the call they belong to.

A peer may answer twice, late, with an id nobody used or with junk; none of that may cost anything but
the one call it belongs to. Results stay the raw objects the peer sent (UP-6, UP-10).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from mcpproxy_py.core.deadlines import Deadlines
from mcpproxy_py.upstream import messages
from mcpproxy_py.upstream.connection import Connection
from mcpproxy_py.upstream.failure import UpstreamFailure, bad_answer, lost
from mcpproxy_py.upstream.flow import PROGRESS
from mcpproxy_py.upstream.lines import KEPT, id_at_the_edges
from mcpproxy_py.upstream.pending import Pending
from mcpproxy_py.upstream.questions import TOO_LATE, WHOSE, Questions

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


@dataclass(slots=True)
class Counters:
    """What a peer sent that was of no use; shown by `Supervisor.describe`."""

    garbage: int = 0
    unmatched: int = 0
    oversize: int = 0
    unattributed: int = 0


class Inbound(Connection):
    """The receiving half of a real connection. `stream` is the request on whose own stream a message came; None where
    there are no such streams."""

    def __init__(self, max_result_bytes: int) -> None:
        super().__init__()
        self._limit = max_result_bytes
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, Pending] = {}
        self._deadlines = Deadlines(self._loop.time, self._loop.call_at)
        self._questions = Questions(self._say)
        self._counters = Counters()
        self._last_id = 0

    def _transmit(self, payload: bytes, headers: Mapping[str, str], request_id: int | None) -> None:
        """How bytes leave, by the kind of connection."""
        raise NotImplementedError

    def _say(self, payload: bytes) -> None:
        if not self.closed.is_set():
            self._transmit(payload, {}, None)

    def receive_text(self, data: bytes | str, stream: int | None = None) -> None:
        """One message as it came off the wire; what is no JSON costs at most the call it answers."""
        try:
            message = messages.decode(data)
        except ValueError as error:
            raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
            self._unreadable(raw[:KEPT], raw[-KEPT:], messages.complaint(error))
        else:
            self.receive(message, stream)

    def receive(self, message: Any, stream: int | None = None) -> None:
        several = message if isinstance(message, list) else [message]  # revision 2025-03-26 allowed batches
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
            self._receive_request(message["id"], method, _params(message), stream)
        else:
            self._receive_notification(method, _params(message), stream)

    def _settle(self, message: dict[str, Any]) -> None:
        pending = self._pending.get(messages.own_id(message.get("id")))
        if pending is None or pending.over:
            self._counters.unmatched += 1
        elif isinstance(result := message.get("result"), dict):
            pending.succeed(result)
        else:
            pending.fail(messages.failure_of(message.get("error")))

    def _receive_request(self, request_id: Any, method: str, params: dict[str, Any], stream: int | None) -> None:
        if isinstance(request_id, bool) or not isinstance(request_id, str | int):
            self._count_garbage(f"a request with the id {str(request_id)[:40]!r}")
        elif method == "ping":
            self._say(messages.encode(messages.result(request_id, {})))
        elif stream is not None and self._is_settled(stream):
            self._refuse(request_id, method, TOO_LATE)
        elif (pending := self._whose(stream)) is None or pending.talk is None:
            self._refuse(request_id, method, WHOSE)
        else:
            self._questions.put(request_id, method, params, pending, pending.talk)

    def _is_settled(self, request_id: int) -> bool:
        pending = self._pending.get(request_id)
        return pending is None or pending.over

    def _whose(self, stream: int | None) -> Pending | None:
        """The call a question belongs to: the one on whose own stream it came, or else the only one there is (UP-5)."""
        own = self._pending.get(stream) if stream is not None else None
        if own is not None and own.talk is not None:
            return own
        self.on_outside()
        return self._only_call()

    def _only_call(self) -> Pending | None:
        """The latest request of the one client that has any under way."""
        under_way = [each for each in self._pending.values() if each.talk is not None and not each.over]
        alone = self.one_client or len({id(each.talk) for each in under_way}) == 1
        return under_way[-1] if under_way and alone else None

    def _refuse(self, request_id: str | int, method: str, why: str) -> None:
        self._counters.unattributed += 1
        if self._counters.unattributed <= UNATTRIBUTED_TOLD:
            self.on_unattributed(method)
        self._questions.refuse(request_id, why)

    def _receive_notification(self, method: str, params: dict[str, Any], stream: int | None) -> None:
        if method == PROGRESS:
            self._note(messages.own_id(params.get("progressToken")), method, params)
        elif method == "notifications/cancelled":
            self._cancelled(params.get("requestId"))
        elif method == ACKNOWLEDGED:
            self._note(stream or messages.own_id(_meta(params).get(SUBSCRIPTION_ID)), method, params)
        elif method in CHANGES:
            self._changed(method, params)
        else:
            self._tell(method, params, stream)

    def _changed(self, method: str, params: dict[str, Any]) -> None:
        meta = _meta(params)
        if SUBSCRIPTION_ID not in meta:
            self.on_notification(method, params)
        elif not self._is_settled(messages.own_id(meta[SUBSCRIPTION_ID])):  # else it is late
            kept = {key: value for key, value in meta.items() if key != SUBSCRIPTION_ID}
            self.on_notification(method, {**params, "_meta": kept} if kept else _without_meta(params))

    def _note(self, request_id: int, method: str, params: dict[str, Any]) -> None:
        """To the request it belongs to; what comes late for it is dropped."""
        if (pending := self._pending.get(request_id)) is not None:
            pending.note(method, params)

    def _tell(self, method: str, params: dict[str, Any], stream: int | None) -> None:
        """Log messages and all that this room does not know: the call's, where it came on a call's stream or only one
        is under way; everybody's otherwise."""
        owner = self._pending.get(stream) if stream is not None else self._only_call()
        if owner is not None and owner.talk is not None:
            owner.note(method, params)
        elif (stream is None or owner is not None) and not self.one_client:
            self.on_notification(method, params)

    def _cancelled(self, request_id: Any) -> None:
        """A question of the server's that it takes back, or, in the modern era, a subscription that it ends."""
        if not self._questions.withdraw(request_id):
            pending = self._pending.get(messages.own_id(request_id))
            if pending is not None and pending.method == "subscriptions/listen":
                pending.fail(lost("the server ended the subscription", sent=True))

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

    def _fail(self, request_id: int, failure: UpstreamFailure) -> bool:
        pending = self._pending.get(request_id)
        return pending is not None and pending.fail(failure)

    def away(self) -> Iterable[Pending]:
        return [each for each in self._pending.values() if each.questions and not each.over and _leaves(each)]

    def serves(self, key: str) -> bool:
        served = {each.talk.key for each in self._pending.values() if each.talk is not None}
        return served == {key}

    def counts(self) -> dict[str, int]:
        return asdict(self._counters)


def _leaves(pending: Pending) -> bool:
    """Whether it is a call whose client ends its turn to be asked; one of the handshake era is still at the line."""
    return bool(pending.method) and pending.talk is not None and not pending.talk.live


def _params(message: Mapping[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _meta(params: Mapping[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _without_meta(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key != "_meta"}
