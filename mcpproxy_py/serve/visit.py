"""A request that was let in, as those behind the guard have it: who asks, what came, and how to answer.

What comes in is counted and what goes out is named, whichever server is in front. Our own takes and gives bodies whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from starlette.types import Message, Receive, Scope, Send

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.head import Head
from mcpproxy_py.serve.turn import Turn, turn_of

_VISIT: Final = "mcpproxy.visit"
JSON: Final = (b"content-type", b"application/json")


class BodyCutShort(Exception):
    """The client left in the middle of it."""


class Visit:
    """`request_id` names it in logs, and `limit` is how long its body may be."""

    __slots__ = ("_limit", "_over", "_receive", "_send", "_taken", "_turn", "head", "method", "principal", "request_id",
                 "started")  # fmt: skip

    def __init__(self, scope: Scope, head: Head, receive: Receive, send: Send, request_id: str, limit: int) -> None:
        self.head = head
        self.method: str = scope["method"]
        self.principal = ""
        """Who was let in; nobody yet."""
        self.request_id = request_id
        self.started = False
        self._turn: Turn | None = turn_of(scope)
        self._receive, self._send = receive, send
        self._limit = limit
        self._taken = 0
        self._over = False

    def declared(self, length: int) -> None:
        """Turns an announced body away before a byte of it is read."""
        self._over = length > self._limit
        self.check()

    def check(self) -> None:
        if self._over:
            raise GatewayError(Code.TOO_LARGE, f"The body is larger than {self._limit} bytes")

    async def receive(self) -> Message:
        message = await self._receive()
        self._count(len(message.get("body", b"")))
        return message

    def _count(self, size: int) -> None:
        self._taken += size
        self._over = self._taken > self._limit
        self.check()

    async def body(self) -> bytes:
        """All of it. Raises `BodyCutShort`."""
        whole = self._turn.whole() if self._turn is not None else None
        if whole is not None:
            self._count(len(whole))
            return whole
        parts: list[bytes] = []
        while (message := await self.receive())["type"] == "http.request":
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)
        raise BodyCutShort

    async def send(self, message: Message) -> None:
        """An application that swallowed the 413 and answers something else is not heard."""
        if not self.started:
            if self._over:
                return
            message = self._named(message)
        await self._send(message)

    async def answer(self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """All of it at once; what body there is, is JSON."""
        lines = [*headers, (b"content-length", b"%d" % len(body))]
        if body:
            lines.append(JSON)
        if self._turn is None or self.started or self._over:
            await self.send({"type": "http.response.start", "status": status, "headers": lines})
            await self.send({"type": "http.response.body", "body": body})
        else:
            self.started = True
            await self._turn.answer(status, [*lines, self._name], body)

    async def override(self, message: Message) -> None:
        """What the guard itself sends, which is heard in any case."""
        await self._send(message if self.started else self._named(message))

    def _named(self, message: Message) -> Message:
        if message["type"] != "http.response.start":
            return message
        self.started = True
        return {**message, "headers": [*message.get("headers", ()), self._name]}

    @property
    def _name(self) -> tuple[bytes, bytes]:
        return b"x-request-id", self.request_id.encode()


def begin(scope: Scope, visit: Visit) -> None:
    scope[_VISIT] = visit


def visit_of(scope: Scope) -> Visit:
    """Of a request behind the guard."""
    return cast("Any", scope)[_VISIT]
