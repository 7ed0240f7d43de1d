"""ASGI, both ways round: an application of ASGI behind the guard, and a scope of ASGI as a request in front of it.

And JSON on the wire, with the one shape of every error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, cast

from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcpproxy_py.errors import FACTS, Code, GatewayError
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.serve.http.request import Handler, Headers, HttpRequest, RequestHead

NO_STORE: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def json_bytes(value: Any) -> bytes:
    """UTF-8 JSON. What UTF-8 cannot hold (half of a surrogate pair from an old record) goes out escaped."""
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        return json.dumps(value, default=str).encode("ascii")


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_bytes(value), status, {**NO_STORE, **(headers or {})}, "application/json")


def error_answer(error: GatewayError, headers: Mapping[str, str] | None = None) -> Response:
    return answer(error_json(error), FACTS[error.code].http, headers)


def error_json(error: GatewayError) -> Any:
    """What it says of names and values is our own text, and leaves masked."""
    return MASKER.mask(error.as_json())


def bad_request(message: str, **details: Any) -> GatewayError:
    return GatewayError(Code.BAD_REQUEST, message, details=details)


class CurrentApp(Protocol):
    @property
    def app(self) -> ASGIApp: ...


class OnlyApp:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app


def answered_by(app: ASGIApp) -> Handler:
    return answered_by_current(OnlyApp(app))


def answered_by_current(apps: CurrentApp) -> Handler:
    """By whichever application `app` is with each request. `scope["state"]` tells it who was let in (`principal`,
    `access`), and the `request_id`."""

    async def handle(request: HttpRequest) -> None:
        async def receive() -> Message:
            if request.all_read:
                await request.left()
            elif (part := await request.next_part()) is not None:
                return {"type": "http.request", "body": part, "more_body": not request.all_read}
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                await request.begin(message["status"], message.get("headers", ()))
            else:
                await request.send(message.get("body", b""), more=message.get("more_body", False))

        await apps.app(_scope(request), receive, send)

    return handle


def _scope(request: HttpRequest) -> Scope:
    head = request.head
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": head.http_version,
        "method": head.method,
        "scheme": "http",
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        "root_path": "",
        "headers": head.headers,
        "server": request.server,
        "client": request.peer,
        "state": {"principal": request.access.principal, "access": request.access, "request_id": request.id},
    }


def as_asgi(handle: Handler, other: ASGIApp | None = None) -> ASGIApp:
    """For a server of ASGI in front, which tests are. `other` hears of what is no request, and no websocket."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await handle(_AsgiRequest(scope, receive, send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "not served here"})
        elif other is not None:
            await other(scope, receive, send)

    return app


class _AsgiRequest(HttpRequest):
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = RequestHead(
            scope["method"], scope["path"], list(scope["headers"]), raw_path=scope.get("raw_path") or b"",
            query=scope["query_string"], http_version=scope["http_version"],
        )  # fmt: skip
        super().__init__(head, cast(Any, None))
        self._scope, self._receive, self._pass_on = scope, receive, send

    @property
    def peer(self) -> tuple[str, int] | None:
        return self._scope.get("client")

    @property
    def server(self) -> tuple[str, int] | None:
        return self._scope.get("server")

    async def next_part(self) -> bytes | None:
        message = await self._receive()
        self.gone = message["type"] == "http.disconnect"
        if self.gone:
            return None
        part = message.get("body", b"")
        self.all_read = not message.get("more_body", False)
        self._count(len(part))
        return part

    async def left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True

    async def respond(self, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        kind = [(b"content-type", b"application/json")] if body else []
        await self.begin(status, [*headers, (b"content-length", b"%d" % len(body)), *kind])
        await self.send(body, more=False)

    async def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        if not self.over:
            self.started = True
            lines: Headers = [*headers, *self._own_lines()]
            await self._pass_on({"type": "http.response.start", "status": status, "headers": lines})

    async def send(self, part: bytes, *, more: bool = True) -> None:
        if self.started:
            self.answered = not more
            await self._pass_on({"type": "http.response.body", "body": part, "more_body": more})
