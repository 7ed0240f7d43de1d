"""The handshake era over HTTP: `initialize` opens a session, whose id is good on this path only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core import revisions
from mcpproxy_py.core.revisions import HTTP_STATUS, INVALID_REQUEST
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.head import Head
from mcpproxy_py.serve.mcp import messages, streams
from mcpproxy_py.serve.mcp.answer import Answer, hung_up
from mcpproxy_py.serve.mcp.door import Door
from mcpproxy_py.serve.mcp.exchange import Exchange, peer_by_handshake
from mcpproxy_py.serve.mcp.posted import (
    LAST_EVENT_ID,
    SESSION_ID,
    Refused,
    accepts,
    check_kind,
    kind_of,
    message_in,
    params_of,
    routed_twice_in_session,
    seen_of,
)
from mcpproxy_py.serve.mcp.respond import initialized, negotiated, respond
from mcpproxy_py.serve.mcp.sessions import Session
from mcpproxy_py.serve.visit import Visit

CANCELLED: Final = RpcError(-32800, "Request cancelled")
"""The handshake era ends the stream of a request with an answer only, so a cancelled one gets this."""


class Handshake:
    def __init__(self, door: Door) -> None:
        self._door = door

    async def serve(self, visit: Visit) -> None:
        _check_once(visit.head)
        if visit.method == "POST":
            await self._post(visit)
        elif visit.method == "GET":
            await self._get(visit)
        elif visit.method == "DELETE":
            self._door.sessions.end(self._session(visit))
            await visit.answer(200, b"")
        else:
            raise Refused(405, None, allow="GET, POST, DELETE")

    async def _post(self, visit: Visit) -> None:
        check_kind(visit.head.once(seen_of))
        message = await message_in(visit)
        kind = kind_of(message)
        if kind == "request" and message["method"] == "initialize":
            await self._initialize(visit, message)
            return
        session = self._session(visit)
        if kind == "request":
            await self._request(visit, session, message)
            return
        if kind == "response":
            session.resolve(message)
        else:
            self._notice(session, message)
        await visit.answer(202, b"")

    def _notice(self, session: Session, message: Mapping[str, Any]) -> None:
        try:
            self._door.notice(session, message)
        except RpcError as error:
            raise Refused(400, error) from None

    async def _initialize(self, visit: Visit, message: Mapping[str, Any]) -> None:
        try:
            params = messages.params_of(message)
            version = negotiated(params)
            result = await initialized(self._door.surface, version)
        except RpcError as error:
            raise Refused(200 if error.code not in HTTP_STATUS else 400, error, message["id"]) from None
        session_id = self._door.sessions.new_id()
        peer = peer_by_handshake(params, visit.principal, version, session_id)
        session = Session(self._door.surface.topic, peer, self._door.kept)
        if not self._door.sessions.add(session):
            raise Refused(503, RpcError(revisions.INTERNAL_ERROR, "Too many sessions are in use"), message["id"])
        self._door.attend(session)
        body = messages.answer(message["id"], {"result": result})
        await visit.answer(200, body, [_mark(session)])

    async def _request(self, visit: Visit, session: Session, message: Mapping[str, Any]) -> None:
        request_id = message["id"]
        if request_id in session.in_flight:
            raise Refused(400, RpcError(INVALID_REQUEST, "A request with this id is under way"), request_id)
        params = params_of(message)
        task = asyncio.current_task()
        assert task is not None
        answer = Answer(
            visit, self._door.slow, on_left=_stays, stream=session.new_stream, headers=[_mark(session)],
            resumable=session.resumable,
        )  # fmt: skip
        exchange = Exchange(request_id, message["method"], params, session.peer, answer.put, _never, session)
        exchange.send_away = answer.pause
        session.in_flight[request_id] = task.cancel
        session.busy += 1
        try:
            outcome = await respond(self._door.surface, exchange)
        except asyncio.CancelledError:
            if request_id in session.in_flight:
                raise  # not the client's doing: the gateway stops
            task.uncancel()
            outcome = {"error": CANCELLED.as_json()}
        finally:
            session.in_flight.pop(request_id, None)
            session.busy -= 1
            session.touch()
        await answer.finish(messages.answer(request_id, outcome))

    async def _get(self, visit: Visit) -> None:
        seen = visit.head.once(seen_of)
        if not accepts(seen.get("accept", ""), "text/event-stream"):
            raise Refused(406, RpcError(INVALID_REQUEST, "Not Acceptable: a GET is answered with text/event-stream"))
        session = self._session(visit)
        stream, after = session.aside, 0
        if (last := seen.get(LAST_EVENT_ID)) is not None:
            place = streams.parse_event_id(last)
            found = session.stream(place[0]) if place else None
            if place is None or found is None:
                raise Refused(404, RpcError(INVALID_REQUEST, "There is no stream to resume from this event"))
            stream, after = found, place[1]
        session.busy += 1
        left = asyncio.ensure_future(hung_up(visit.receive))
        try:
            await visit.send(streams.begin([_mark(session)]))
            await stream.pour(visit.send, left, after)
        finally:
            left.cancel()
            session.busy -= 1
            session.touch()

    def _session(self, visit: Visit) -> Session:
        session_id = visit.head.once(seen_of).get(SESSION_ID)
        if session_id is None:
            raise Refused(400, RpcError(INVALID_REQUEST, "Bad Request: Missing session ID; send initialize first"))
        session = self._door.sessions.find(session_id, visit.principal)
        if session is None:
            raise Refused(404, RpcError(INVALID_REQUEST, "Session not found; send initialize again"))
        return session


def _check_once(head: Head) -> None:
    """Whoever reads the other one of two headers takes this for another request, or for one of another session."""
    if twice := head.once(routed_twice_in_session):
        raise Refused(400, RpcError(revisions.HEADER_MISMATCH, f"The {twice} header came twice"))


def _mark(session: Session) -> tuple[bytes, bytes]:
    return SESSION_ID.encode(), (session.peer.session_id or "").encode()


def _never(exchange: Exchange, result: Mapping[str, Any]) -> None:
    raise AssertionError("a client of the handshake era is asked over its session")


def _stays() -> None:
    """Hanging up is no cancellation in the handshake era: the client may come back for the answer."""
