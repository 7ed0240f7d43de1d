"""What a server asks of the client behind a call: bounded, withdrawn with the call, answered under the server's id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Any, Final

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.protocol.client_channel import NOBODY, ClientChannel
from mcpproxy_py.core.values import NOTHING, Caller
from mcpproxy_py.errors import RpcError
from mcpproxy_py.upstream.permit import NotPermitted, OwnPermit, PermittedAnswer

if TYPE_CHECKING:
    from mcpproxy_py.upstream.session.rpc import PendingRequest

logger = logging.getLogger(__name__)

INPUT_TIMEOUT: Final = 300.0
"""A person may have to think, or to come back from lunch first; but not for ever."""
MAX_OPEN: Final = 128
"""Per connection."""
MAX_OF_A_CALL: Final = 16
"""No person is asked more at once."""
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603
NO_ANSWER: Final = -32001
WHOSE: Final = "mcpproxy cannot tell which client this is for, so no client was asked"
OUTSIDE: Final = "no call is under way here that this could belong to, so no client was asked"
ABANDONED: Final = (
    "a call was cancelled here and has not been answered yet: mcpproxy cannot tell whether this belongs to that one, "
    "so no client was asked"
)
TOO_LATE: Final = "the call that this belongs to has ended"
NOT_ALLOWED: Final = "the call that this belongs to is not allowed any more"
_OWN: Final = OwnPermit("")
"""For what we answer ourselves: that nobody was asked, or that nobody answered."""

Id = str | int


class ServerRequestAnswer:
    """What we answer to a request of the server's. `on_fail` is told where it may not be sent, or cannot be written."""

    __slots__ = ("_on_fail", "_permit", "_request_id", "sent")

    def __init__(
        self, request_id: int | str, permit: Callable[[], PermittedAnswer],
        on_fail: Callable[[Exception], object] = lambda failure: None,
    ) -> None:  # fmt: skip
        self._request_id = request_id
        self._permit = permit
        self._on_fail = on_fail
        self.sent = False

    def compose(self) -> tuple[bytes, Mapping[str, str]]:
        return jsonrpc.encode(jsonrpc.answer_object(self._request_id, self._permit().body)), NOTHING

    def fail(self, failure: Exception) -> None:
        self._on_fail(failure)


MOST_UNANSWERED: Final = 1000
"""Ids kept of one connection. Beyond them it is only known that there were more."""
UNANSWERED_FOR: Final = 600.0
"""Seconds, where no other session can take the place of one. A server that follows the protocol never answers a call
that was cancelled, so for ever would be too long."""


class UnansweredCalls:
    """Calls that nobody waits for any more and that their server has not answered: it may still be at them (UP-11)."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[int, tuple[float, Caller]] = {}
        self._unlisted = -inf

    def add(self, request_id: int, caller: Caller) -> None:
        if len(self._since) < MOST_UNANSWERED:
            self._since[request_id] = self._now(), caller
        else:
            self._unlisted = self._now()

    def discard(self, request_id: int) -> None:
        self._since.pop(request_id, None)

    def any(self, within: float) -> bool:
        """Whether there are any that were given up within so many seconds."""
        latest = max(self._unlisted, next(reversed(self._since.values()), (-inf,))[0])
        if latest == -inf or latest + within > self._now():
            return latest > -inf
        self._since.clear()
        self._unlisted = -inf
        return False

    def callers(self, within: float) -> list[Caller]:
        """Of those that were given up within so many seconds; those beyond the limit are of an unknown caller, which
        is no principal's."""
        begin = self._now() - within
        recent = takewhile(lambda given_up: given_up[0] > begin, reversed(self._since.values()))
        return [*(caller for _, caller in recent), *([NOBODY.caller] if self._unlisted > begin else [])]


Send = Callable[[ServerRequestAnswer], None]


class ServerRequests:
    """All that one connection's server has asked and not been told yet."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open: dict[Id, tuple[PendingRequest, asyncio.Task[None]]] = {}

    def put(
        self, request_id: Id, method: str, params: Mapping[str, Any], pending: PendingRequest, channel: ClientChannel
    ) -> None:
        """Ask the client; the server hears from us when that is done."""
        if request_id in self._open:
            self.refuse(request_id, f"the id {str(request_id)[:40]!r} is in use for a request that is still open")
        elif len(self._open) >= MAX_OPEN or pending.questions >= MAX_OF_A_CALL:
            self.refuse(request_id, f"{pending.questions} requests of this call are open already", INTERNAL_ERROR)
        else:
            pending.hold()
            task = asyncio.get_running_loop().create_task(self._answer(request_id, channel, method, params, pending))
            task.add_done_callback(lambda _: pending.go_on())
            self._open[request_id] = pending, task

    def refuse(self, request_id: Id, why: str, code: int = INVALID_REQUEST) -> None:
        said = _OWN.answer(jsonrpc.error(code, why))
        self._send(ServerRequestAnswer(request_id, lambda: said))

    def withdraw(self, request_id: Any) -> bool:
        """The server does not want to know any more. Whether there was such a question."""
        if not isinstance(request_id, str | int) or request_id not in self._open:
            return False
        self._open.pop(request_id)[1].cancel()
        return True

    def end(self, pending: PendingRequest) -> None:
        """Its call is over: what is still asked for it is taken back."""
        for request_id in [each for each, (owner, _) in self._open.items() if owner is pending]:
            self.withdraw(request_id)
            self.refuse(request_id, TOO_LATE)

    async def _answer(
        self, request_id: Id, channel: ClientChannel, method: str, params: Mapping[str, Any], pending: PendingRequest
    ) -> None:
        """What the client says goes on record and is permitted like the call that it belongs to; where it is not, that
        call has ended."""
        permit = pending.permit
        try:
            body, its_own = await _outcome(channel, method, params)
            if its_own:
                await permit.record_answer(method, body)
        except NotPermitted as no:
            if self._is_mine(request_id):
                self._not_sent(request_id, pending, no)
            return
        if self._is_mine(request_id):
            del self._open[request_id]
            answering = permit.answer if its_own else _OWN.answer
            self._send(
                ServerRequestAnswer(request_id, partial(answering, body), partial(self._not_sent, request_id, pending))
            )

    def _is_mine(self, request_id: Id) -> bool:
        """Not so when it was withdrawn meanwhile; the id may even stand for another question by now."""
        return request_id in self._open and self._open[request_id][1] is asyncio.current_task()

    def _not_sent(self, request_id: Id, pending: PendingRequest, why: Exception) -> None:
        self._open.pop(request_id, None)
        if isinstance(why, NotPermitted):
            self.refuse(request_id, NOT_ALLOWED)
            pending.fail(why)
        else:  # half an emoji, say
            self.refuse(request_id, f"the client's answer is unusable: {why}", INTERNAL_ERROR)


async def _outcome(channel: ClientChannel, method: str, params: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The result or error to answer with, and whether it is the client's. Raises nothing but cancellation."""
    try:
        async with asyncio.timeout(INPUT_TIMEOUT):
            return {"result": await channel.request(method, params)}, True
    except RpcError as error:
        return jsonrpc.error(error.code, error.message, error.data), True
    except TimeoutError:
        late = no_answer()
        return jsonrpc.error(late.code, late.message), False
    except Exception:
        logger.exception("asking a client failed")
        return jsonrpc.error(INTERNAL_ERROR, "asking the client failed inside mcpproxy"), False


def no_answer() -> RpcError:
    return RpcError(NO_ANSWER, f"the client did not answer within {INPUT_TIMEOUT:g} s")
