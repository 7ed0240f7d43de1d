"""MCP as lines of JSON in both directions, as `mcpproxy stdio` passes them on; each request says which era it is of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mcpproxy_py.core import envelope
from mcpproxy_py.core.envelope import Rejected
from mcpproxy_py.core.revisions import INVALID_REQUEST
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp import messages
from mcpproxy_py.serve.mcp.door import Door
from mcpproxy_py.serve.mcp.exchange import Exchange, Peer, is_modern, peer_by_envelope, peer_by_handshake
from mcpproxy_py.serve.mcp.listening import heard
from mcpproxy_py.serve.mcp.respond import Outcome, initialized, negotiated, respond
from mcpproxy_py.serve.mcp.sessions import Session

MAX_REQUESTS: Final = 1000
"""Under way at once from one client."""
MAX_UNREAD: Final = 4 << 20
"""Bytes that wait for a client that does not read, beyond which what is no answer is dropped."""
PRINCIPAL: Final = "local"
"""Whoever may open the socket is the user whose gateway it is."""


class Writer:
    """What goes to the client, in order. Never blocks who writes: a client that does not read loses its progress
    bar, not its answers."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()

    def note(self, message: bytes) -> None:
        if self._size < MAX_UNREAD:
            self.put(message)

    def put(self, message: bytes) -> None:
        self._waiting.append(message)
        self._size += len(message)
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            await self.flush()

    async def flush(self) -> None:
        self._news.clear()
        batch, self._waiting, self._size = self._waiting, [], 0
        if batch:
            await self._send(b"\n".join([*batch, b""]))


class Attached:
    """One client on one surface. `take` each line; `end` when it has gone."""

    def __init__(self, door: Door, writer: Writer, session_id: str) -> None:
        self._door = door
        self._surface = door.surface
        self._writer = writer
        self._session_id = session_id
        self._session: Session | None = None
        self._tasks: dict[int | str, asyncio.Task[None]] = {}
        self._held: set[asyncio.Task[None]] = set()
        """Calls that go on while their client answers a question."""

    def take(self, line: bytes) -> None:
        try:
            message = messages.read(line)
            kind = messages.kind_of(message)
            if kind == "request":
                self._request(message)
            elif kind == "notification":
                self._notification(message)
            elif self._session is not None:
                self._session.resolve(message)
        except RpcError as error:
            self._writer.put(messages.refusal(error))

    async def end(self) -> None:
        if self._session is not None:
            self._session.close()
        left = [*self._tasks.values(), *self._held]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _request(self, message: Mapping[str, Any]) -> None:
        request_id = message["id"]
        if request_id in self._tasks or len(self._tasks) >= MAX_REQUESTS:
            why = "A request with this id is under way" if request_id in self._tasks else "Too many requests at once"
            self._writer.put(messages.refusal(RpcError(INVALID_REQUEST, why), request_id))
            return
        task = self._tasks[request_id] = asyncio.get_running_loop().create_task(self._serve(message))
        task.add_done_callback(lambda done: self._forget(request_id, done))

    def _forget(self, request_id: int | str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(request_id) is task:
            del self._tasks[request_id]

    def _notification(self, message: Mapping[str, Any]) -> None:
        """Cancelling works the same way in both eras here: there is no connection to hang up."""
        if message["method"] == "notifications/cancelled":
            found = messages.params_of(message).get("requestId")
            if isinstance(found, int | str) and (task := self._tasks.get(found)) is not None:
                task.cancel()
        elif self._session is not None:
            self._door.notice(self._session, message)

    async def _serve(self, message: Mapping[str, Any]) -> None:
        """A cancelled request gets no answer: its client does not wait for one."""
        early: list[bytes] = []
        with contextlib.suppress(asyncio.CancelledError):
            outcome = await self._outcome(message, early)
            if not early:
                self._writer.put(messages.answer(message["id"], outcome))

    async def _outcome(self, message: Mapping[str, Any], early: list[bytes]) -> Outcome:
        try:
            params = messages.params_of(message)
            if message["method"] == "initialize":
                return {"result": await self._initialize(params)}
            exchange = self._exchange(message, params, early)
            if exchange.method == "subscriptions/listen" and exchange.peer.modern:
                await heard(self._door, exchange)
                return {"result": {}}
            return await respond(self._surface, exchange)
        except RpcError as error:
            return {"error": error.as_json()}

    async def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        version = negotiated(params)
        result = await initialized(self._surface, version)
        if self._session is not None:
            self._session.close()
        session = self._session = Session(
            self._surface.topic, peer_by_handshake(params, PRINCIPAL, version, self._session_id), self._door.kept
        )
        session.tell = self._writer.note
        self._door.attend(session)
        return result

    def _exchange(self, message: Mapping[str, Any], params: dict[str, Any], early: list[bytes]) -> Exchange:
        request_id = message["id"]
        if not is_modern(params):
            if self._session is None:
                raise RpcError(INVALID_REQUEST, "Send initialize first, or speak a modern revision")
            peer: Peer = self._session.peer
        else:
            said = envelope.classify(message)
            if isinstance(said, Rejected):
                raise RpcError(said.code, said.message, said.data)
            peer = peer_by_envelope(said, PRINCIPAL, self._session_id)
        return Exchange(
            request_id, message["method"], params, peer, self._writer.note,
            lambda exchange, result: self._leave(exchange, result, early), None if peer.modern else self._session,
        )  # fmt: skip

    def _leave(self, exchange: Exchange, result: Mapping[str, Any], early: list[bytes]) -> None:
        """Answer with the questions; the call goes on, and its id is free for the next round."""
        if (task := self._tasks.pop(exchange.id, None)) is not None:
            self._held.add(task)
            task.add_done_callback(self._held.discard)
        early.append(messages.answer(exchange.id, {"result": self._surface.dressed(exchange.method, result)}))
        self._writer.put(early[-1])
