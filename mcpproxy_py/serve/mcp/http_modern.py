"""The modern era over HTTP: one POST, one answer, no session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.protocol import constants, envelope, headers
from mcpproxy_py.core.protocol.constants import HTTP_STATUS, INVALID_REQUEST, EnvelopeRejection
from mcpproxy_py.core.protocol.headers import disagreement
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.http.request import HttpRequest
from mcpproxy_py.serve.mcp.endpoint import LISTEN, McpEndpoint, failed
from mcpproxy_py.serve.mcp.event_streams import PING_AFTER
from mcpproxy_py.serve.mcp.head_facts import HeadFacts, HttpRefusal
from mcpproxy_py.serve.mcp.request import McpRequest, completed, peer_by_envelope, read_message
from mcpproxy_py.serve.mcp.subscriptions import listen


class ModernHttp:
    def __init__(self, endpoint: McpEndpoint) -> None:
        self._endpoint = endpoint

    async def serve(self, http: HttpRequest, facts: HeadFacts) -> None:
        try:
            if http.head.method != "POST":
                raise HttpRefusal(405, None, allow="POST")
            message, kind, plain = await read_message(http, facts)
            if kind != "request":
                await self._no_request(http, facts, kind)
                return
            request = self._request(http, facts, message)
        except HttpRefusal as refusal:
            await refusal.answer(http)
            return
        request.plain = plain
        endpoint, method = self._endpoint, request.method
        task = asyncio.current_task()
        assert task is not None
        http.on_left = task.cancel
        endpoint.slow.add(request, PING_AFTER, request.slow)
        if method == LISTEN:
            await listen(endpoint, request)
            return
        status, surface = 200, endpoint.surface
        try:
            result = await endpoint.modern.get(method, surface.answer)(request)
            outcome = {"result": completed(surface, method, result, request.peer.access)}
        except asyncio.CancelledError:
            request.abandon()
            if not (http.gone or request.early):
                raise
            task.uncancel()  # the client left, or its answer to a question was too long in coming: it ends here
            return
        except Exception as error:
            outcome = failed(request, error)
            status = HTTP_STATUS.get(outcome["error"]["code"], 200)
        await request.finish(jsonrpc.answer(request.id, outcome), status)

    async def _no_request(self, http: HttpRequest, facts: HeadFacts, kind: jsonrpc.Kind) -> None:
        """Notifications are taken and dropped: the modern era has none that a server acts on; a client cancels by
        hanging up."""
        if kind == "response":
            raise HttpRefusal(400, RpcError(INVALID_REQUEST, "Answers are not posted in this revision"))
        if (rejected := envelope.unsupported(facts.seen.get(headers.PROTOCOL_VERSION, ""))) is not None:
            raise _rejected(rejected, None)
        await http.respond(202)

    def _request(self, http: HttpRequest, facts: HeadFacts, message: Mapping[str, Any]) -> McpRequest:
        request_id, method = message["id"], message["method"]
        if facts.twice is not None:
            raise _rejected(
                EnvelopeRejection(constants.HEADER_MISMATCH, f"The {facts.twice} header came twice"), request_id
            )
        said = envelope.classify(message, facts.seen)
        if isinstance(said, EnvelopeRejection):
            raise _rejected(said, request_id)
        params: dict[str, Any] = message["params"]
        name = params.get("name")
        surface = self._endpoint.surface
        if (
            surface.has_param_headers
            and method == "tools/call"
            and type(name) is str
            and (mirrored := surface.mirrors(name, None if http.access.everything else http.access))
        ):
            arguments = params.get("arguments", {})
            wrong = disagreement(mirrored, arguments, facts.lines()) if isinstance(arguments, dict) else None  # pyright: ignore[reportUnknownArgumentType]
            if wrong is not None:
                raise _rejected(wrong, request_id)
        return McpRequest(self._endpoint, request_id, method, params, peer_by_envelope(said, http.access), http=http)


def _rejected(rejected: EnvelopeRejection, request_id: Any) -> HttpRefusal:
    error = RpcError(rejected.code, rejected.message, rejected.data)
    return HttpRefusal(HTTP_STATUS.get(rejected.code, 200), error, request_id)
