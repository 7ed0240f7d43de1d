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
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundModernRoute,
    classify_inbound_request,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import from_json, to_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpproxy_py.core import jsonvalue
from mcpproxy_py.serve.gate import Gate, Peer, claimed_client, enveloped

HOT: Final = ("tools/call", "tools/list")
BEGIN_AFTER: Final = 0.02
"""Seconds after which a call counts as slow, and somebody listens for its client hanging up."""
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
        aside = _Aside(params["_meta"].get("progressToken"), receive, out)
        call = self._gate.call(params, _peer(request, scope), aside.note if aside.wanted else None)
        try:
            result = await call
        except asyncio.CancelledError:
            if not aside.client_left():
                raise
            return None
        except MCPError as error:
            return await out.refused(error)
        finally:
            await aside.end()
        await out.result(result)


class _Aside:
    """What goes on beside a call that takes longer: its progress goes out, silence is bridged, and a client
    that hangs up cancels it. Most calls are over before it begins, and cost one timer."""

    def __init__(self, token: object, receive: Receive, out: _Out) -> None:
        self.wanted = isinstance(token, str | int) and not isinstance(token, bool)
        self._token = token
        self._receive = receive
        self._out = out
        self._caller = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._begin = self._loop.call_later(BEGIN_AFTER, self._start)
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[bytes] = deque(maxlen=BACKLOG)
        self._over = False
        self._left = False

    def note(self, step: Mapping[str, Any]) -> None:
        """A step of progress. A client that does not read loses some of its bar, never its result."""
        self._waiting.append(_event(_message("notifications/progress", {**step, "progressToken": self._token})))
        self._start()
        self._news.set()

    def client_left(self) -> bool:
        """Whether it was us who cancelled the call; then the cancellation ends here."""
        if self._left and self._caller is not None:
            self._caller.uncancel()
        return self._left

    async def end(self) -> None:
        """Returns when all progress has gone out and nobody else writes to this answer any more."""
        self._begin.cancel()
        self._over = True
        if self._task is not None:
            self._news.set()
            await self._task

    def _start(self) -> None:
        if self._task is None and not self._over:
            self._begin.cancel()
            self._news = asyncio.Event()
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        gone = self._loop.create_task(_hung_up(self._receive))
        gone.add_done_callback(lambda _: self._news.set())
        try:
            while not self._over and not gone.done():
                await self._next(gone)
        finally:
            gone.cancel()

    async def _next(self, gone: asyncio.Task[None]) -> None:
        silence = self._loop.call_later(PING_AFTER, self._break_silence)
        await self._news.wait()
        silence.cancel()
        self._news.clear()
        while self._waiting:
            await self._out.stream(self._waiting.popleft())
        if gone.done() and not self._over and self._caller is not None:
            self._left = True
            self._caller.cancel()

    def _break_silence(self) -> None:
        self._waiting.append(PING)
        self._news.set()


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

    async def outcome(self, answer: Callable[[], Mapping[str, Any]]) -> None:
        """`answer` is called here, so that what it raises becomes the answer."""
        try:
            result = answer()
        except MCPError as error:
            return await self.refused(error)
        await self.result(result)

    async def result(self, result: Mapping[str, Any]) -> None:
        await self._last({"result": enveloped(result)}, 200)

    async def refused(self, error: MCPError) -> None:
        message = {"error": error.error.model_dump(exclude_none=True)}
        await self._last(message, ERROR_CODE_HTTP_STATUS.get(error.error.code, 200))

    async def _last(self, message: Mapping[str, Any], status: int) -> None:
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
    if len(headers) != len(scope["headers"]):
        return None  # a header came twice, and somebody has to look which
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
