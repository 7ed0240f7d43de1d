"""The modern era over HTTP: one POST, one answer, no session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcpproxy_py.core import envelope, headers, jsonvalue, revisions
from mcpproxy_py.core.envelope import Rejected
from mcpproxy_py.core.mirrors import disagreement
from mcpproxy_py.core.revisions import HTTP_STATUS, INVALID_REQUEST
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.head import Head
from mcpproxy_py.serve.mcp import messages
from mcpproxy_py.serve.mcp.answer import Answer
from mcpproxy_py.serve.mcp.door import Door
from mcpproxy_py.serve.mcp.exchange import Exchange, peer_by_envelope
from mcpproxy_py.serve.mcp.listening import listen
from mcpproxy_py.serve.mcp.posted import Refused, check_kind, kind_of, lines_of, message_in, routed_twice, seen_of
from mcpproxy_py.serve.mcp.respond import respond
from mcpproxy_py.serve.mcp.streams import Stream
from mcpproxy_py.serve.visit import Visit


class Modern:
    def __init__(self, door: Door) -> None:
        self._door = door

    async def serve(self, visit: Visit) -> None:
        if visit.method != "POST":
            raise Refused(405, None, allow="POST")
        seen = visit.head.once(seen_of)
        check_kind(seen)
        message = await message_in(visit)
        if "id" not in message:
            await self._notification(message, seen, visit)
            return
        if kind_of(message) != "request":
            raise Refused(400, RpcError(INVALID_REQUEST, "Answers are not posted in this era"))
        exchange, answer = self._exchange(visit, seen, message)
        if exchange.method == "subscriptions/listen":
            await listen(self._door, exchange, answer)
            return
        await self._answer(exchange, answer)

    async def _notification(self, message: Mapping[str, Any], seen: Mapping[str, str], visit: Visit) -> None:
        """Taken and dropped: the modern era has none that a server acts on; a client cancels by hanging up."""
        kind_of(message)
        if (rejected := envelope.unsupported(seen.get(headers.PROTOCOL_VERSION, ""))) is not None:
            raise _rejected(rejected, None)
        await visit.answer(202, b"")

    def _exchange(self, visit: Visit, seen: Mapping[str, str], message: Mapping[str, Any]) -> tuple[Exchange, Answer]:
        request_id = message["id"]
        if twice := visit.head.once(routed_twice):
            raise _rejected(Rejected(revisions.HEADER_MISMATCH, f"The {twice} header came twice"), request_id)
        said = envelope.classify(message, seen)
        if isinstance(said, Rejected):
            raise _rejected(said, request_id)
        params: dict[str, Any] = message["params"]
        self._check_mirrors(message["method"], params, visit.head, request_id)
        task = asyncio.current_task()
        assert task is not None
        door, dressed = self._door, self._door.surface.dressed
        answer = Answer(visit, door.slow, on_left=task.cancel, stream=lambda: Stream(scale=door.kept))

        def answer_early(exchange: Exchange, result: Mapping[str, Any]) -> None:
            answer.leave(messages.answer(exchange.id, {"result": dressed(exchange.method, result)}))

        peer = peer_by_envelope(said, visit.principal)
        return Exchange(request_id, message["method"], params, peer, answer.put, answer_early), answer

    def _check_mirrors(self, method: str, params: Mapping[str, Any], head: Head, request_id: Any) -> None:
        name, arguments = params.get("name"), params.get("arguments", {})
        if method != "tools/call" or not isinstance(name, str) or not isinstance(arguments, dict):
            return
        if mirrored := self._door.surface.mirrors(name):
            wrong = disagreement(mirrored, jsonvalue.as_object(arguments) or {}, head.once(lines_of))
            if wrong is not None:
                raise _rejected(wrong, request_id)

    async def _answer(self, exchange: Exchange, answer: Answer) -> None:
        try:
            outcome = await respond(self._door.surface, exchange)
        except asyncio.CancelledError:
            answer.abandon()
            if not _ours(answer):
                raise
            return
        await answer.finish(messages.answer(exchange.id, outcome), _status(outcome))


def _ours(answer: Answer) -> bool:
    """Whether a cancellation came from the client's leaving or from a question's expiry: then it ends here."""
    task = asyncio.current_task()
    if task is None or not (answer.client_left or answer.early):
        return False
    task.uncancel()
    return True


def _rejected(rejected: Rejected, request_id: Any) -> Refused:
    error = RpcError(rejected.code, rejected.message, rejected.data)
    return Refused(HTTP_STATUS.get(rejected.code, 200), error, request_id)


def _status(outcome: Mapping[str, Any]) -> int:
    error = outcome.get("error")
    return 200 if error is None else HTTP_STATUS.get(error["code"], 200)
