"""What a server asks of the client behind a call: bounded, withdrawn with the call, answered under the server's id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcpproxy_py.core.talk import Talk
from mcpproxy_py.errors import RpcError
from mcpproxy_py.upstream import messages
from mcpproxy_py.upstream.failure import UpstreamFailure
from mcpproxy_py.upstream.pending import Pending

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
WHOSE: Final = "mcpproxy cannot tell which client this is for, so nobody was asked"
TOO_LATE: Final = "the call that this belongs to has ended"

Id = str | int
Send = Callable[[bytes], None]


class Questions:
    """All that one connection's server has asked and not been told yet."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open: dict[Id, tuple[Pending, asyncio.Task[None]]] = {}

    def put(self, request_id: Id, method: str, params: Mapping[str, Any], pending: Pending, talk: Talk) -> None:
        """Ask the client; the server hears from us when that is done."""
        if request_id in self._open:
            self.refuse(request_id, f"the id {str(request_id)[:40]!r} is in use for a question that is still open")
        elif len(self._open) >= MAX_OPEN or pending.questions >= MAX_OF_A_CALL:
            self.refuse(request_id, f"{pending.questions} questions of this call are open already", INTERNAL_ERROR)
        else:
            pending.hold()
            task = asyncio.get_running_loop().create_task(self._answer(request_id, talk, method, params))
            task.add_done_callback(lambda _: pending.go_on())
            self._open[request_id] = pending, task

    def refuse(self, request_id: Id, why: str, code: int = INVALID_REQUEST) -> None:
        self._send(messages.encode(messages.error(request_id, code, why)))

    def withdraw(self, request_id: Any) -> bool:
        """The server does not want to know any more. Whether there was such a question."""
        if not isinstance(request_id, str | int) or request_id not in self._open:
            return False
        self._open.pop(request_id)[1].cancel()
        return True

    def end(self, pending: Pending) -> None:
        """Its call is over: what is still asked for it is taken back."""
        for request_id in [each for each, (owner, _) in self._open.items() if owner is pending]:
            self.withdraw(request_id)
            self.refuse(request_id, TOO_LATE)

    async def _answer(self, request_id: Id, talk: Talk, method: str, params: Mapping[str, Any]) -> None:
        message = await _outcome(request_id, talk, method, params)
        if self._is_mine(request_id):
            del self._open[request_id]
            self._tell(request_id, message)

    def _is_mine(self, request_id: Id) -> bool:
        """Not so when it was withdrawn meanwhile; the id may even stand for another question by now."""
        return request_id in self._open and self._open[request_id][1] is asyncio.current_task()

    def _tell(self, request_id: Id, message: Mapping[str, Any]) -> None:
        try:
            self._send(messages.encode(message))
        except UpstreamFailure as failure:  # half an emoji, say
            self.refuse(request_id, f"the client's answer is unusable: {failure.message}", INTERNAL_ERROR)


async def _outcome(request_id: Id, talk: Talk, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The message to answer with. Raises nothing but cancellation."""
    try:
        async with asyncio.timeout(INPUT_TIMEOUT):
            return messages.result(request_id, await talk.ask(method, params))
    except RpcError as error:
        return messages.error(request_id, error.code, error.message, error.data)
    except TimeoutError:
        late = no_answer()
        return messages.error(request_id, late.code, late.message)
    except Exception:
        logger.exception("asking a client failed")
        return messages.error(request_id, INTERNAL_ERROR, "asking the client failed inside mcpproxy")


def no_answer() -> RpcError:
    return RpcError(NO_ANSWER, f"the client did not answer within {INPUT_TIMEOUT:g} s")
