"""The gateway's own unix socket, where `mcpproxy stdio` attaches (SURF-5), and MCP by lines on it.

The far end says in one line what it wants, gets one line back, and from then on the socket carries plain
newline-delimited MCP in either era; each request says which. Whoever may open the socket (mode 0600) is the user it
belongs to.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Set
from itertools import count
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic_core import from_json, to_json

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.json_size import MAX_BODY_VALUES, SMALL
from mcpproxy_py.core.policy.scope import Access, Scope
from mcpproxy_py.core.protocol import envelope
from mcpproxy_py.core.protocol.constants import INVALID_REQUEST, PARSE_ERROR, EnvelopeRejection
from mcpproxy_py.errors import RpcError
from mcpproxy_py.gateway.access.profiles import ProfileTable
from mcpproxy_py.serve.http.connections import PRIVATE, ConnectionLimits, ConnectionTable
from mcpproxy_py.serve.mcp.attached_scope import LOCAL, AttachedScope, Wish, access_of, within
from mcpproxy_py.serve.mcp.endpoint import LISTEN, McpEndpoint, Outcome, failed, initialized, negotiated
from mcpproxy_py.serve.mcp.lines import LineReader, LineWriter, watch
from mcpproxy_py.serve.mcp.request import (
    ClientPeer,
    McpRequest,
    completed,
    is_modern,
    peer_by_envelope,
    peer_by_handshake,
    read_large,
    without_result_type,
)
from mcpproxy_py.serve.mcp.sessions import ClientSession
from mcpproxy_py.serve.mcp.subscriptions import GATE_TOPIC, LIST_CHANGED, TOOLS_CHANGED, heard

log = logging.getLogger(__name__)

HELLO_LIMIT: Final = 4096
HELLO_TIMEOUT: Final = 10.0
LINES_A_TURN: Final = 100
"""Lines that are read without a look at anybody else."""
MAX_REQUESTS: Final = 1000
"""Under way at once from one client."""


class AttachedClient:
    """One client on one surface. `take` each line; `end` when it has gone."""

    def __init__(
        self, endpoint: McpEndpoint, writer: LineWriter, session_id: str, access: Access = LOCAL,
        scope: AttachedScope | None = None,
    ) -> None:  # fmt: skip
        """`scope` may be that of no profile yet: then the client has all that its access gives, and nothing is asked
        for it."""
        self._own = access
        self._access = within(access, scope) if scope is not None and scope.may_be_any else access
        self._endpoint = endpoint
        self._writer = writer
        self._session_id = session_id
        self._session: ClientSession | None = None
        self._tasks: dict[int | str, asyncio.Task[None]] = {}
        self._held: set[asyncio.Task[None]] = set()
        """Calls that go on while their client answers a question."""

    async def take(self, line: bytes, max_values: int = MAX_BODY_VALUES) -> None:
        try:
            small = len(line) <= SMALL
            message, kind, plain = jsonrpc.decode_request(line) if small else await read_large(line, max_values)
            if kind == "request":
                self._request(message, plain)
            elif kind == "notification":
                self._notification(message)
            elif self._session is not None:
                self._session.resolve(message)
        except RpcError as error:
            self._writer.put(jsonrpc.refusal(error))

    async def end(self) -> None:
        if self._session is not None:
            self._session.close()
        left = [*self._tasks.values(), *self._held]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _request(self, message: Mapping[str, Any], plain: bool) -> None:
        request_id = message["id"]
        if request_id in self._tasks or len(self._tasks) >= MAX_REQUESTS:
            why = "A request with this id is in flight" if request_id in self._tasks else "Too many requests at once"
            self._writer.put(jsonrpc.refusal(RpcError(INVALID_REQUEST, why), request_id))
            return
        task = self._tasks[request_id] = asyncio.get_running_loop().create_task(self._serve(message, plain))
        task.add_done_callback(lambda done: self._forget(request_id, done))

    def _forget(self, request_id: int | str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(request_id) is task:
            del self._tasks[request_id]

    def _notification(self, message: Mapping[str, Any]) -> None:
        """Cancelling works the same way in both eras here: there is no connection to hang up."""
        if message["method"] == "notifications/cancelled":
            found = jsonrpc.params_of(message).get("requestId")
            if isinstance(found, int | str) and (task := self._tasks.get(found)) is not None:
                task.cancel()
        elif self._session is not None:
            self._endpoint.notice(self._session, message)

    async def _serve(self, message: Mapping[str, Any], plain: bool) -> None:
        """A cancelled request gets no answer: its client does not wait for one."""
        with contextlib.suppress(asyncio.CancelledError):
            try:
                params = jsonrpc.params_of(message)
                if message["method"] == "initialize":
                    outcome: Outcome = {"result": await self._initialize(params)}
                else:
                    request = self._made(message, params, plain)
                    outcome = await self._outcome(request)
                    if request.early:
                        return
            except RpcError as error:
                outcome = {"error": error.as_json()}
            self._writer.put(jsonrpc.answer(message["id"], outcome))

    async def _outcome(self, request: McpRequest) -> Outcome:
        endpoint, method = self._endpoint, request.method
        surface = endpoint.surface
        try:
            if not request.peer.modern:
                return {"result": without_result_type(await endpoint.handshake.get(method, surface.answer)(request))}
            if method == LISTEN:
                await heard(endpoint, request)
                return {"result": {}}
            return {
                "result": completed(
                    surface, method, await endpoint.modern.get(method, surface.answer)(request), request.peer.access
                )
            }
        except Exception as error:
            return failed(request, error)

    async def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        version = negotiated(params)
        result = await initialized(self._endpoint.surface, version, self._access)
        if self._session is not None:
            self._session.close()
        session = self._session = ClientSession(
            self._endpoint.surface.topic,
            peer_by_handshake(params, self._access, version, self._session_id),
            self._endpoint.kept,
        )
        session.tell = self._writer.note
        self._endpoint.attend(session)
        return result

    def _made(self, message: Mapping[str, Any], params: dict[str, Any], plain: bool) -> McpRequest:
        if not is_modern(params):
            if self._session is None:
                raise RpcError(INVALID_REQUEST, "Send initialize first, or speak a modern revision")
            peer: ClientPeer = self._session.peer
        else:
            said = envelope.classify(message)
            if isinstance(said, EnvelopeRejection):
                raise RpcError(said.code, said.message, said.data)
            peer = peer_by_envelope(said, self._access, self._session_id)
        back = None if peer.modern else self._session
        request = LineRequest(self._endpoint, message["id"], message["method"], params, peer, back)
        request.plain = plain
        request.client = self
        return request

    def narrow(self, scope: AttachedScope) -> None:
        """From now on this is in scope, also for what waits to be sent; what it listed before has changed."""
        if self._access is self._own:
            self._access = within(self._own, scope)
        if self._session is not None:
            self._session.peer = self._session.peer._replace(access=self._access)
            for method in LIST_CHANGED if self._endpoint.surface.topic != GATE_TOPIC else (TOOLS_CHANGED,):
                self._session.hear(method, {})

    def note(self, message: bytes) -> None:
        self._writer.note(message)

    def leave(self, request_id: int | str, body: bytes) -> None:
        """Answer with the questions; the call goes on, and its id is free for the next round."""
        if (task := self._tasks.pop(request_id, None)) is not None:
            self._held.add(task)
            task.add_done_callback(self._held.discard)
        self._writer.put(body)


class LineRequest(McpRequest):
    """What is said beside its answer goes into the same lines; so does an early answer."""

    client: AttachedClient

    def put(self, message: bytes) -> None:
        self.client.note(message)

    def pause(self, seconds: float) -> None:
        return None

    def answer_early(self, result: Mapping[str, Any]) -> None:
        self.early = True
        whole = completed(self._endpoint.surface, self.method, result, self.peer.access)
        self.client.leave(self.id, jsonrpc.answer(self.id, {"result": whole}))


class AttachedConnection:
    """A place in the table of connections. Only who has not said yet what is wanted may lose it to another one."""

    address = PRIVATE
    unread = 0
    unread_since = 0.0

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self.silent_since: float | None = time.monotonic()

    def end(self) -> None:
        self._scope.cancel()

    abort = end


class AttachServer:
    """Serves streams on the socket. `find` finds what one wish is for, or raises `ValueError`."""

    def __init__(
        self, path: Path, find: Callable[[Wish, Scope | None], McpEndpoint], line_limit: int,
        max_values: int = MAX_BODY_VALUES,
        table: ConnectionTable | None = None, profiles: ProfileTable | None = None, *, detached: bool = False,
        credential: Callable[[str], Access | None] = lambda given: None,
    ) -> None:  # fmt: skip
        """`credential` finds who comes with a token in the first line."""
        self._credential = credential
        self._of: dict[str, set[AttachedConnection]] = {}
        """Clients that came with a token, by principal."""
        self._detached = detached
        self._profiles = ProfileTable() if profiles is None else profiles
        self._profiles.on_gone = self._gone
        self._scoped: dict[AttachedScope, Callable[[], None]] = {}
        """Who came through profiles, and how to end it."""
        self._run = secrets.token_hex(8)
        """Tells a gateway that was started again from one that hung up on somebody."""
        self._to_tell: dict[LineWriter, bytes] = {}
        """Who wants to hear that the gateway ends, and in which words."""
        self._path = path
        self._find = find
        self._line_limit, self._max_values = line_limit, max_values
        self._table = ConnectionTable(ConnectionLimits()) if table is None else table
        self.attached = 0

    def end(self, principal: str) -> None:
        """Its access has ended: so do its clients."""
        for place in tuple(self._of.get(principal, ())):
            place.end()

    def ending(self) -> None:
        """No new calls are taken any more: who can wait with them for the next gateway is told so (USE-7)."""
        for writer, line in self._to_tell.items():
            writer.put(line)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled. Nobody gets in between bind and chmod: it listens only after both. A umask for that
        would be the whole process's, and so that of servers that are started meanwhile."""
        self._path.unlink(missing_ok=True)
        listener = await anyio.create_unix_listener(self._path, mode=0o600)
        try:
            async with listener:
                task_status.started()
                await listener.serve(self._serve)
        finally:
            self._path.unlink(missing_ok=True)

    async def _serve(self, stream: SocketStream) -> None:
        self.attached += 1
        with anyio.CancelScope() as scope:
            place = AttachedConnection(scope)
            try:
                async with stream:
                    if self._table.add(place):
                        await self._greet(stream, place)
                    else:
                        await _answer(stream, {"error": "too many clients are attached: end some, then try again"})
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                pass  # the client left
            except Exception:
                log.exception("an attached client's stream failed")
            finally:
                self._table.discard(place)
                self.attached -= 1

    async def _greet(self, stream: SocketStream, place: AttachedConnection) -> None:
        lines = BufferedByteReceiveStream(stream)
        try:
            with anyio.fail_after(HELLO_TIMEOUT):
                wish = from_json(await lines.receive_until(b"\n", HELLO_LIMIT))
            if not isinstance(wish, dict):
                raise ValueError('the first line must be an object, such as {"surface": "gate"}')
            access = access_of(wish, self._credential)
            scope = AttachedScope.wished(wish, self._profiles)
            endpoint = self._find(wish, (access if scope is None else within(access, scope)).scope)
        except (ValueError, TimeoutError, anyio.DelimiterNotFound, anyio.IncompleteRead) as error:
            await _answer(stream, {"error": str(error) or type(error).__name__})
        else:
            place.silent_since, ending = None, wish.get("ending")
            run = {"run": self._run} if ending is not None else {}
            profiles = {} if scope is None else {"profiles": scope.names}
            detached = {"detached": True} if self._detached else {}
            await _answer(stream, {"ok": True, **run, **profiles, **detached})
            mine = self._of.setdefault(access.principal, set())
            mine.add(place)
            try:
                await self._converse(lines, stream, endpoint, ending, access, scope)
            finally:
                mine.discard(place)
                if not mine and self._of.get(access.principal) is mine:
                    del self._of[access.principal]

    async def _converse(
        self, lines: BufferedByteReceiveStream, stream: SocketStream, endpoint: McpEndpoint, ending: object,
        access: Access, scope: AttachedScope | None,
    ) -> None:  # fmt: skip
        limits = self._table.limits
        reader = LineReader(lines, self._line_limit)
        async with anyio.create_task_group() as tasks:
            end = tasks.cancel_scope.cancel
            writer = LineWriter(stream.send, end)
            client = AttachedClient(endpoint, writer, secrets.token_hex(16), access, scope)
            tasks.start_soon(writer.run)
            tasks.start_soon(_cancel_when, endpoint.closed, tasks.cancel_scope)
            tasks.start_soon(watch, limits.body, lambda: reader.stuck_at, end, "does not end its line")
            tasks.start_soon(watch, limits.read, lambda: writer.stuck_at, end, "does not read its answers")
            if isinstance(ending, str):
                self._to_tell[writer] = to_json({"ending": ending})
            if scope is not None:
                self._scoped[scope] = end
            try:
                await self._read(reader, client, writer, scope)
            finally:
                self._to_tell.pop(writer, None)
                if scope is not None:
                    del self._scoped[scope]
                with anyio.CancelScope(shield=True):
                    await client.end()
            tasks.cancel_scope.cancel()

    def _gone(self, names: Set[str]) -> None:
        """Through these profiles nobody is attached any more."""
        for scope, end in list(self._scoped.items()):
            if not names.isdisjoint(scope.names):
                end()

    async def _read(
        self, reader: LineReader, client: AttachedClient, writer: LineWriter, scope: AttachedScope | None
    ) -> None:
        for number in count(1):
            if not number % LINES_A_TURN:
                await asyncio.sleep(0)
            try:
                line = await reader.next()
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
                return
            except anyio.DelimiterNotFound:
                too_long = RpcError(PARSE_ERROR, f"A message is longer than {self._line_limit} bytes")
                writer.put(jsonrpc.refusal(too_long))
                await writer.flush()
                return
            if scope is not None and line.startswith(scope.mark):
                writer.put(scope.narrow(line))
                client.narrow(scope)
            elif not line.isspace() and line:
                await client.take(line, self._max_values)
            await writer.room()


async def _answer(stream: SocketStream, said: Mapping[str, Any]) -> None:
    """To who has just come; one that does not even read that is not waited for."""
    with anyio.fail_after(HELLO_TIMEOUT):
        await stream.send(to_json(said) + b"\n")


async def _cancel_when(closed: asyncio.Event, scope: anyio.CancelScope) -> None:
    """A surface that goes takes the streams on it with it, as it takes the sessions."""
    await closed.wait()
    scope.cancel()
