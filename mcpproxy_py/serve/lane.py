"""The short lane: `tools/list` and `tools/call` of modern clients, answered without the SDK.

Two requests make up nearly all traffic, and the SDK spends five times on each what the gateway itself does:
task groups, streams and models that a single answer has no use for. The lane takes a request only when it
is valid in every respect, by the SDK's own classifier; anything else, also anything wrong, goes to the SDK
untouched, so that there is one place that says no and it is not here.

What must not be lost on a short cut: a client that hangs up cancels its call, progress goes out while the
call runs, and a long silence is bridged so that proxies keep the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import from_json, to_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpproxy_py.core import jsonvalue
from mcpproxy_py.serve.gate import Gate, Peer, claimed_client, enveloped

HOT: Final = ("tools/call", "tools/list")
PING_AFTER: Final = 15.0
PING: Final = b": ping\r\n\r\n"
BACKLOG: Final = 256
JSON_HEAD: Final = [(b"content-type", b"application/json")]
STREAM_HEAD: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Lane:
    """ASGI middleware in front of the SDK's app for one surface."""

    def __init__(self, gate: Gate, sdk: ASGIApp) -> None:
        self._gate = gate
        self._sdk = sdk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _plain_headers(scope)
        if headers is None:
            return await self._sdk(scope, receive, send)
        body = await _body(receive)
        request = _hot_request(body, headers, scope) if body is not None else None
        if request is None or body is None:
            return await self._sdk(scope, _replayed(body, receive), send)
        await self._answer(request, scope, receive, _Out(request["id"], send))

    async def _answer(self, request: Mapping[str, Any], scope: Scope, receive: Receive, out: _Out) -> None:
        params = request["params"]
        if request["method"] == "tools/list":
            return await out.outcome(lambda: {**self._gate.list_tools(params), **self._gate.list_hints()})
        steps = _Steps(params["_meta"].get("progressToken"))
        peer = _peer(request, scope)
        call = asyncio.ensure_future(self._gate.call(params, peer, steps.note if steps.wanted else None))
        gone = asyncio.ensure_future(_hung_up(receive))
        try:
            await _until_done(call, gone, steps, out)
            if call.done() and not call.cancelled():
                await out.outcome(call.result)
        finally:
            gone.cancel()
            if not call.done():  # nobody waits for it any more; it ends, recorded as cancelled, before we do
                call.cancel()
                await asyncio.wait({call})


async def _until_done(call: asyncio.Future[Any], gone: asyncio.Future[Any], steps: _Steps, out: _Out) -> None:
    """Until the call is over or the client is; meanwhile its progress goes out, or a sign of life."""
    for watched in (call, gone):
        watched.add_done_callback(steps.wake)
    while not (call.done() or gone.done()):
        silence = asyncio.get_running_loop().call_later(PING_AFTER, steps.tick)
        await steps.news()
        silence.cancel()
        for chunk in steps.taken():
            await out.stream(chunk)


class _Steps:
    """What wakes the waiting request: progress, silence, or the end."""

    def __init__(self, token: object) -> None:
        self._token = token
        self.wanted = isinstance(token, str | int) and not isinstance(token, bool)
        self._waiting: deque[bytes] = deque(maxlen=BACKLOG)
        self._news = asyncio.Event()

    def note(self, step: Mapping[str, Any]) -> None:
        self._waiting.append(_event(_message("notifications/progress", {**step, "progressToken": self._token})))
        self._news.set()

    def tick(self) -> None:
        self._waiting.append(PING)
        self._news.set()

    def wake(self, _: object) -> None:
        self._news.set()

    async def news(self) -> None:
        await self._news.wait()
        self._news.clear()

    def taken(self) -> list[bytes]:
        chunks = list(self._waiting)
        self._waiting.clear()
        return chunks


class _Out:
    """One answer: plain JSON, unless something had to go out before it; then a stream that ends with it."""

    def __init__(self, request_id: str | int, send: Send) -> None:
        self._id = request_id
        self._send = send
        self._streaming = False

    async def stream(self, chunk: bytes) -> None:
        if not self._streaming:
            self._streaming = True
            await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEAD})
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def outcome(self, result: Any) -> None:
        """`result` is called here, so that what it raises becomes the answer."""
        try:
            message, status = {"result": enveloped(result())}, 200
        except MCPError as error:
            message = {"error": error.error.model_dump(exclude_none=True)}
            status = ERROR_CODE_HTTP_STATUS.get(error.error.code, 200)
        body = to_json({"jsonrpc": "2.0", "id": self._id, **message}, inf_nan_mode="null")
        if self._streaming:
            await self._send({"type": "http.response.body", "body": _event(body)})
        else:
            length = (b"content-length", str(len(body)).encode())
            await self._send({"type": "http.response.start", "status": status, "headers": [*JSON_HEAD, length]})
            await self._send({"type": "http.response.body", "body": body})


def _message(method: str, params: Mapping[str, Any]) -> bytes:
    return to_json({"jsonrpc": "2.0", "method": method, "params": params})


def _event(body: bytes) -> bytes:
    return b"event: message\r\ndata: " + body + b"\r\n\r\n"


def _plain_headers(scope: Scope) -> dict[str, str] | None:
    """The headers of a POST that could be hot; None for anything out of the ordinary."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    accept = headers.get("accept", "")
    hot = (
        headers.get("mcp-protocol-version") in MODERN_PROTOCOL_VERSIONS
        and headers.get("mcp-method") in HOT
        and headers.get("content-type", "").startswith("application/json")
        and "application/json" in accept
        and "text/event-stream" in accept
    )
    return headers if hot else None


def _hot_request(body: bytes, headers: dict[str, str], scope: Scope) -> dict[str, Any] | None:
    """The request, if it passes every rung; which one it fails is for the SDK to say."""
    try:
        request = jsonvalue.as_object(from_json(body))
    except ValueError:
        return None
    if request is None or request.get("jsonrpc") != "2.0" or request.get("method") not in HOT:
        return None
    if not isinstance(request.get("id"), str | int) or isinstance(request["id"], bool):
        return None
    if find_duplicated_routing_header((name.decode("latin-1"), "") for name, _ in scope["headers"]) is not None:
        return None
    verdict = classify_inbound_request(request, headers=headers)
    is_plain = not any(name.startswith("mcp-param-") for name in headers)
    return request if isinstance(verdict, InboundModernRoute) and is_plain else None


def _peer(request: Mapping[str, Any], scope: Scope) -> Peer:
    client = claimed_client(request["params"]["_meta"].get("io.modelcontextprotocol/clientInfo"))
    return Peer(client, scope["state"]["principal"], None, str(request["id"]))


async def _body(receive: Receive) -> bytes | None:
    """The whole body, whose size the guard bounds; None when the client left in the middle of it."""
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _replayed(body: bytes | None, receive: Receive) -> Receive:
    """What was read is read again by the next in line."""
    first: list[Message] = [
        {"type": "http.disconnect"} if body is None else {"type": "http.request", "body": body, "more_body": False}
    ]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


async def _hung_up(receive: Receive) -> None:
    with contextlib.suppress(Exception):
        while (await receive())["type"] != "http.disconnect":
            pass
