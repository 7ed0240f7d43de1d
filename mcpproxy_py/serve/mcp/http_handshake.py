"""The handshake era over HTTP: `initialize` opens a session, whose id is good on this path only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.protocol import constants
from mcpproxy_py.core.protocol.constants import HTTP_STATUS, INVALID_REQUEST
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.http.request import HttpRequest
from mcpproxy_py.serve.mcp import event_streams
from mcpproxy_py.serve.mcp.endpoint import McpEndpoint, failed, initialized, negotiated
from mcpproxy_py.serve.mcp.event_streams import PING_AFTER
from mcpproxy_py.serve.mcp.head_facts import LAST_EVENT_ID, HeadFacts, HttpRefusal, accepts
from mcpproxy_py.serve.mcp.request import BEGIN_AFTER, McpRequest, peer_by_handshake, read_message, without_result_type
from mcpproxy_py.serve.mcp.sessions import ClientSession

CANCELLED: Final = RpcError(-32800, "Request cancelled")
"""The handshake era ends the stream of a request with an answer only, so a cancelled one gets this."""


RETRY: Final = {"retry-after": "5"}


class HandshakeHttp:
    def __init__(self, endpoint: McpEndpoint) -> None:
        self._endpoint = endpoint

    async def serve(self, http: HttpRequest, facts: HeadFacts) -> None:
        try:
            if facts.twice is not None:
                # Whoever reads the other one takes this for another request, or for one of another session.
                raise HttpRefusal(400, RpcError(constants.HEADER_MISMATCH, f"The {facts.twice} header came twice"))
            if http.head.method != "POST":
                await self._no_post(http, facts)
                return
            message, kind, plain = await read_message(http, facts)
            if kind == "request" and message["method"] == "initialize":
                await self._initialize(http, message)
                return
            session = self._session(http, facts)
            if kind != "request":
                await self._no_request(http, session, message, kind)
                return
            request = self._request(http, session, message)
        except HttpRefusal as refusal:
            await refusal.answer(http)
            return
        request.plain = plain
        endpoint, method = self._endpoint, request.method
        task = asyncio.current_task()
        assert task is not None
        endpoint.slow.add(request, BEGIN_AFTER if session.resumable else PING_AFTER, request.slow)
        session.in_flight[request.id] = task.cancel
        session.busy += 1
        try:
            result = await endpoint.handshake.get(method, endpoint.surface.answer)(request)
            outcome = {"result": without_result_type(result)}
        except asyncio.CancelledError:
            if request.id in session.in_flight:
                raise  # not the client's doing: the gateway stops
            task.uncancel()
            outcome = {"error": CANCELLED.as_json()}
        except Exception as error:
            outcome = failed(request, error)
        finally:
            session.in_flight.pop(request.id, None)
            session.busy -= 1
            session.last_used = time.monotonic()
        await request.finish(jsonrpc.answer(request.id, outcome))

    async def _no_post(self, http: HttpRequest, facts: HeadFacts) -> None:
        if http.head.method == "GET":
            await self._get(http, facts)
        elif http.head.method == "DELETE":
            self._endpoint.sessions.end(self._session(http, facts))
            await http.respond(200)
        else:
            raise HttpRefusal(405, None, allow="GET, POST, DELETE")

    async def _no_request(
        self, http: HttpRequest, session: ClientSession, message: Mapping[str, Any], kind: jsonrpc.Kind
    ) -> None:
        if kind == "response":
            session.resolve(message)
        else:
            self._notice(session, message)
        await http.respond(202)

    def _notice(self, session: ClientSession, message: Mapping[str, Any]) -> None:
        try:
            self._endpoint.notice(session, message)
        except RpcError as error:
            raise HttpRefusal(400, error) from None

    async def _initialize(self, http: HttpRequest, message: Mapping[str, Any]) -> None:
        endpoint = self._endpoint
        try:
            params = jsonrpc.params_of(message)
            version = negotiated(params)
            result = await initialized(endpoint.surface, version, http.access)
        except RpcError as error:
            raise HttpRefusal(200 if error.code not in HTTP_STATUS else 400, error, message["id"]) from None
        session_id = endpoint.sessions.new_id()
        peer = peer_by_handshake(params, http.access, version, session_id)
        session = ClientSession(endpoint.surface.topic, peer, endpoint.kept)
        try:
            added = endpoint.sessions.add(session)
        except RpcError as used_up:
            raise HttpRefusal(429, used_up, message["id"], **RETRY) from None
        if not added:
            too_many = RpcError(constants.INTERNAL_ERROR, "Too many sessions are in use")
            raise HttpRefusal(503, too_many, message["id"], **RETRY)
        endpoint.attend(session)
        await http.respond(200, jsonrpc.answer(message["id"], {"result": result}), session.mark)

    def _request(self, http: HttpRequest, session: ClientSession, message: Mapping[str, Any]) -> McpRequest:
        """Hanging up does not cancel it: in this era the client may come back for the answer."""
        request_id = message["id"]
        if request_id in session.in_flight:
            raise HttpRefusal(400, RpcError(INVALID_REQUEST, "A request with this id is in flight"), request_id)
        params = message.get("params", {})
        if not isinstance(params, dict):
            raise HttpRefusal(400, RpcError(INVALID_REQUEST, "params must be an object"), request_id)
        return McpRequest(self._endpoint, request_id, message["method"], params, session.peer, session, http)  # pyright: ignore[reportUnknownArgumentType]

    async def _get(self, http: HttpRequest, facts: HeadFacts) -> None:
        if not accepts(facts.seen.get("accept", ""), "text/event-stream"):
            raise HttpRefusal(
                406, RpcError(INVALID_REQUEST, "Not Acceptable: a GET is answered with text/event-stream")
            )
        session = self._session(http, facts)
        stream, after = session.aside, 0
        if (last := facts.seen.get(LAST_EVENT_ID)) is not None:
            place = event_streams.parse_event_id(last)
            found = session.stream(place[0]) if place else None
            if place is None or found is None:
                raise HttpRefusal(404, RpcError(INVALID_REQUEST, "There is no stream to resume from this event"))
            stream, after = found, place[1]
        session.busy += 1
        http.listens = True
        http.on_left = stream.notifications.set
        try:
            with self._endpoint.hub.open_stream(http.access.principal):
                await event_streams.begin(http, session.mark)
                await stream.pour(http, after)
        except RpcError as used_up:
            raise HttpRefusal(429, used_up, **RETRY) from None
        finally:
            session.busy -= 1
            session.touch()

    def _session(self, http: HttpRequest, facts: HeadFacts) -> ClientSession:
        if facts.session_id is None:
            raise HttpRefusal(400, RpcError(INVALID_REQUEST, "Bad Request: Missing session ID; send initialize first"))
        session = self._endpoint.sessions.find(facts.session_id, http.access.principal)
        if session is None:
            raise HttpRefusal(404, RpcError(INVALID_REQUEST, "Session not found; send initialize again"))
        access = None if http.access.everything else http.access
        if session.peer.access is not access:  # who came with another token may do what that one says
            session.peer = session.peer._replace(access=access)
        return session
