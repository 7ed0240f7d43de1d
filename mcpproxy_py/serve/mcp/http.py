"""Streamable HTTP for one surface, both eras at one path.

The modern era is told by its header: one POST, one answer, no session. Everything else is the handshake era:
`initialize` opens a session, whose id is good on this path only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol

from starlette.types import Receive, Scope, Send

from mcpproxy_py.core import envelope, headers, jsonvalue, revisions
from mcpproxy_py.core.envelope import Rejected
from mcpproxy_py.core.mirrors import disagreement
from mcpproxy_py.core.revisions import HANDSHAKE, HTTP_STATUS, INVALID_REQUEST, PARSE_ERROR
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp import messages, streams
from mcpproxy_py.serve.mcp.answer import Answer, hung_up, plain
from mcpproxy_py.serve.mcp.exchange import Exchange, peer_by_envelope, peer_by_handshake
from mcpproxy_py.serve.mcp.hub import Hub
from mcpproxy_py.serve.mcp.kept import Kept
from mcpproxy_py.serve.mcp.listening import listen
from mcpproxy_py.serve.mcp.respond import initialized, negotiated, respond
from mcpproxy_py.serve.mcp.sessions import Session, Sessions
from mcpproxy_py.serve.mcp.streams import Stream
from mcpproxy_py.serve.surfaces.surface import Surface

SESSION_ID: Final = "mcp-session-id"
LAST_EVENT_ID: Final = "last-event-id"
CANCELLED: Final = RpcError(-32800, "Request cancelled")
"""The handshake era ends the stream of a request with an answer only, so a cancelled one gets this."""


class Refused(Exception):
    """A request that is turned away before any surface hears of it."""

    def __init__(self, status: int, error: RpcError | None, request_id: Any = None, **extra: str) -> None:
        super().__init__(status)
        self.status = status
        self.body = messages.refusal(error, request_id if messages.is_id(request_id) else None) if error else b""
        self.headers = [(name.encode(), value.encode()) for name, value in extra.items()]


class ClientsOf(Protocol):
    """What the upstreams need to know of clients beside their requests, by the key of a `Talk`."""

    def forget(self, key: str) -> None: ...
    def roots_changed(self, key: str) -> None: ...


class Endpoint:
    def __init__(self, surface: Surface, hub: Hub, kept: Kept, max_sessions: int, upstreams: ClientsOf) -> None:
        self.surface = surface
        self.kept = kept
        self.upstreams = upstreams
        self.sessions = Sessions(max_sessions)
        self.closed = asyncio.Event()
        """For whoever holds a stream open here: set when the surface is gone."""
        self._hub = hub

    def close(self) -> None:
        """The surface is gone: its sessions end, and their ids with them."""
        self.sessions.close()
        self.closed.set()

    def attend(self, session: Session) -> None:
        """From now on it hears of changes; when it ends, it lets go of all that was there for it."""
        session.on_close.append(self._hub.add(session))
        session.on_close.append(lambda: _unwatch_all(self.surface, session))
        session.on_close.append(lambda: self.upstreams.forget(session.peer.key))

    def notice(self, session: Session, message: Mapping[str, Any]) -> None:
        """What a client of the handshake era says unasked."""
        if message["method"] == "notifications/cancelled":
            session.cancel(_params(message).get("requestId"))
        elif message["method"] == "notifications/roots/list_changed":
            self.upstreams.roots_changed(session.peer.key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lines = [(name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in scope["headers"]]
        seen = dict(lines)
        try:
            version = seen.get(headers.PROTOCOL_VERSION)
            if version is None or version in HANDSHAKE:
                _check_once(lines, seen)
                await self._handshake(scope, seen, receive, send)
            else:
                await self._modern(scope, lines, seen, receive, send)
        except Refused as refused:
            await plain(send, refused.status, refused.body, refused.headers)

    # The modern era.

    async def _modern(
        self, scope: Scope, lines: list[tuple[str, str]], seen: dict[str, str], receive: Receive, send: Send
    ) -> None:
        if scope["method"] != "POST":
            raise Refused(405, None, allow="POST")
        _check_kind(seen)
        message = await _message(receive)
        if "id" not in message:
            await self._modern_notification(message, seen, send)
            return
        if _kind(message) != "request":
            raise Refused(400, RpcError(INVALID_REQUEST, "Answers are not posted in this era"))
        exchange, answer = self._modern_exchange(scope, lines, seen, message, receive, send)
        if exchange.method == "subscriptions/listen":
            await listen(self.surface, self._hub, exchange, answer, self.closed)
            return
        await self._answer(exchange, answer)

    async def _modern_notification(self, message: Mapping[str, Any], seen: Mapping[str, str], send: Send) -> None:
        """Taken and dropped: the modern era has none that a server acts on; a client cancels by hanging up."""
        _kind(message)
        if (rejected := envelope.unsupported(seen.get(headers.PROTOCOL_VERSION, ""))) is not None:
            raise _rejected(rejected, None)
        await plain(send, 202, b"")

    def _modern_exchange(
        self, scope: Scope, lines: list[tuple[str, str]], seen: dict[str, str], message: Mapping[str, Any],
        receive: Receive, send: Send,
    ) -> tuple[Exchange, Answer]:  # fmt: skip
        request_id = message["id"]
        if len(seen) != len(lines) and (twice := headers.duplicated_routing_header(lines)) is not None:
            raise _rejected(Rejected(revisions.HEADER_MISMATCH, f"The {twice} header came twice"), request_id)
        said = envelope.classify(message, seen)
        if isinstance(said, Rejected):
            raise _rejected(said, request_id)
        params: dict[str, Any] = message["params"]
        self._check_mirrors(message["method"], params, lines, request_id)
        task = asyncio.current_task()
        assert task is not None
        answer = Answer(receive, send, on_left=task.cancel, stream=lambda: Stream(scale=self.kept))
        exchange = Exchange(
            request_id, message["method"], params, peer_by_envelope(said, scope["state"]["principal"]), answer.put,
            lambda result: answer.leave(messages.answer(request_id, {"result": self._dressed(exchange, result)})),
        )  # fmt: skip
        return exchange, answer

    def _dressed(self, exchange: Exchange, result: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.surface.dressed(exchange.method, result)

    def _check_mirrors(
        self, method: str, params: Mapping[str, Any], lines: list[tuple[str, str]], request_id: Any
    ) -> None:
        name, arguments = params.get("name"), params.get("arguments", {})
        if method != "tools/call" or not isinstance(name, str) or not isinstance(arguments, dict):
            return
        if mirrored := self.surface.mirrors(name):
            wrong = disagreement(mirrored, jsonvalue.as_object(arguments) or {}, lines)
            if wrong is not None:
                raise _rejected(wrong, request_id)

    async def _answer(self, exchange: Exchange, answer: Answer) -> None:
        try:
            outcome = await respond(self.surface, exchange)
        except asyncio.CancelledError:
            answer.abandon()
            if not _ours(answer):
                raise
            return
        await answer.finish(messages.answer(exchange.id, outcome), _status(outcome))

    # The handshake era.

    async def _handshake(self, scope: Scope, seen: dict[str, str], receive: Receive, send: Send) -> None:
        method = scope["method"]
        if method == "POST":
            await self._post(scope, seen, receive, send)
        elif method == "GET":
            await self._get(scope, seen, receive, send)
        elif method == "DELETE":
            self.sessions.end(self._session(scope, seen))
            await plain(send, 200, b"")
        else:
            raise Refused(405, None, allow="GET, POST, DELETE")

    async def _post(self, scope: Scope, seen: dict[str, str], receive: Receive, send: Send) -> None:
        _check_kind(seen)
        message = await _message(receive)
        kind = _kind(message)
        if kind == "request" and message["method"] == "initialize":
            await self._initialize(scope, message, send)
            return
        session = self._session(scope, seen)
        if kind == "request":
            await self._request(session, message, receive, send)
            return
        if kind == "response":
            session.resolve(message)
        else:
            self.notice(session, message)
        await plain(send, 202, b"")

    async def _initialize(self, scope: Scope, message: Mapping[str, Any], send: Send) -> None:
        try:
            params = messages.params_of(message)
            version = negotiated(params)
            result = await initialized(self.surface, version)
        except RpcError as error:
            raise Refused(200 if error.code not in HTTP_STATUS else 400, error, message["id"]) from None
        session_id = self.sessions.new_id()
        session = Session(
            self.surface.topic, peer_by_handshake(params, scope["state"]["principal"], version, session_id), self.kept
        )
        if not self.sessions.add(session):
            raise Refused(503, RpcError(revisions.INTERNAL_ERROR, "Too many sessions are in use"), message["id"])
        self.attend(session)
        body = messages.answer(message["id"], {"result": result})
        await plain(send, 200, body, [(SESSION_ID.encode(), session_id.encode())])

    async def _request(self, session: Session, message: Mapping[str, Any], receive: Receive, send: Send) -> None:
        request_id = message["id"]
        if request_id in session.in_flight:
            raise Refused(400, RpcError(INVALID_REQUEST, "A request with this id is under way"), request_id)
        params = _params(message)
        task = asyncio.current_task()
        assert task is not None
        mark = (SESSION_ID.encode(), (session.peer.session_id or "").encode())
        answer = Answer(
            receive, send, on_left=_stays, stream=session.new_stream, headers=[mark], resumable=session.resumable
        )
        exchange = Exchange(request_id, message["method"], params, session.peer, answer.put, _never, session)
        exchange.send_away = answer.pause
        session.in_flight[request_id] = task.cancel
        session.busy += 1
        try:
            outcome = await respond(self.surface, exchange)
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

    async def _get(self, scope: Scope, seen: dict[str, str], receive: Receive, send: Send) -> None:
        if not _accepts(seen, "text/event-stream"):
            raise Refused(406, RpcError(INVALID_REQUEST, "Not Acceptable: a GET is answered with text/event-stream"))
        session = self._session(scope, seen)
        stream, after = session.aside, 0
        if (last := seen.get(LAST_EVENT_ID)) is not None:
            place = streams.parse_event_id(last)
            found = session.stream(place[0]) if place else None
            if place is None or found is None:
                raise Refused(404, RpcError(INVALID_REQUEST, "There is no stream to resume from this event"))
            stream, after = found, place[1]
        session.busy += 1
        left = asyncio.ensure_future(hung_up(receive))
        try:
            await send(streams.begin([(SESSION_ID.encode(), (session.peer.session_id or "").encode())]))
            await stream.pour(send, left, after)
        finally:
            left.cancel()
            session.busy -= 1
            session.touch()

    def _session(self, scope: Scope, seen: Mapping[str, str]) -> Session:
        session_id = seen.get(SESSION_ID)
        if session_id is None:
            raise Refused(400, RpcError(INVALID_REQUEST, "Bad Request: Missing session ID; send initialize first"))
        session = self.sessions.find(session_id, scope["state"]["principal"])
        if session is None:
            raise Refused(404, RpcError(INVALID_REQUEST, "Session not found; send initialize again"))
        return session


def _check_once(lines: list[tuple[str, str]], seen: Mapping[str, str]) -> None:
    """Whoever reads the other one of two headers takes this for another request, or for one of another session."""
    if len(seen) == len(lines):
        return
    counted = Counter(name for name, _ in lines)
    twice = [name for name in (*headers.ROUTING, SESSION_ID) if counted[name] > 1]
    if twice:
        raise Refused(400, RpcError(revisions.HEADER_MISMATCH, f"The {twice[0]} header came twice"))


def _never(result: Mapping[str, Any]) -> None:
    raise AssertionError("a client of the handshake era is asked over its session")


def _stays() -> None:
    """Hanging up is no cancellation in the handshake era: the client may come back for the answer."""


def _ours(answer: Answer) -> bool:
    """Whether a cancellation came from the client's leaving or from a question's expiry: then it ends here."""
    task = asyncio.current_task()
    if task is None or not (answer.client_left or answer.early):
        return False
    task.uncancel()
    return True


def _unwatch_all(surface: Surface, session: Session) -> None:
    async def unwatch() -> None:
        for uri in list(session.subscribed):
            try:
                await surface.unwatch(session.peer, uri)
            except RpcError:
                continue

    if session.subscribed:
        session.leaving = asyncio.ensure_future(unwatch())


def _rejected(rejected: Rejected, request_id: Any) -> Refused:
    error = RpcError(rejected.code, rejected.message, rejected.data)
    return Refused(HTTP_STATUS.get(rejected.code, 200), error, request_id)


def _status(outcome: Mapping[str, Any]) -> int:
    error = outcome.get("error")
    return 200 if error is None else HTTP_STATUS.get(error["code"], 200)


def _check_kind(seen: Mapping[str, str]) -> None:
    if not (_accepts(seen, "application/json") and _accepts(seen, "text/event-stream")):
        message = "Not Acceptable: Client must accept both application/json and text/event-stream"
        raise Refused(406, RpcError(INVALID_REQUEST, message))
    if seen.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, RpcError(INVALID_REQUEST, "Unsupported Media Type: Content-Type must be application/json"))


def _accepts(seen: Mapping[str, str], kind: str) -> bool:
    accepted = seen.get("accept", "").lower()
    return kind in accepted or "*/*" in accepted or f"{kind.partition('/')[0]}/*" in accepted


def _kind(message: Mapping[str, Any]) -> messages.Kind:
    try:
        return messages.kind_of(message)
    except RpcError as error:
        raise Refused(400, error, message.get("id")) from None


def _params(message: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return messages.params_of(message)
    except RpcError as error:
        raise Refused(400, error, message.get("id")) from None


async def _message(receive: Receive) -> dict[str, Any]:
    try:
        return messages.read(await _body(receive))
    except RpcError as error:
        raise Refused(400, error) from None


async def _body(receive: Receive) -> bytes:
    """The whole body, whose size the guard bounds."""
    first = await receive()
    if first["type"] == "http.request" and not first.get("more_body", False):
        return first.get("body", b"")
    chunks = [first]
    while chunks[-1]["type"] == "http.request" and chunks[-1].get("more_body", False):
        chunks.append(await receive())
    if chunks[-1]["type"] != "http.request":
        raise Refused(400, RpcError(PARSE_ERROR, "Parse error: the body ended early"))
    return b"".join(chunk.get("body", b"") for chunk in chunks)
