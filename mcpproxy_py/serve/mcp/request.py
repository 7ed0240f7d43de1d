"""One request of a client's, and the way back to that client (`core.talk.Talk`) until it is answered.

Over HTTP the answer is plain JSON, unless something has to go out before it; then it is a stream. So it is, too, where
streams can be resumed and the answer is slow: a client that loses its connection can come back. A long silence is
bridged. All that is made when it is needed, which for most requests it never is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from mcpproxy_py import jsonrpc
from mcpproxy_py.core import json_values
from mcpproxy_py.core.json_size import SMALL, seconds
from mcpproxy_py.core.policy.scope import Access, Scope
from mcpproxy_py.core.protocol.client_channel import lacks
from mcpproxy_py.core.protocol.constants import (
    INVALID_REQUEST,
    LOG_LEVEL,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    PROTOCOL_VERSION,
)
from mcpproxy_py.core.protocol.envelope import Envelope
from mcpproxy_py.core.values import NOTHING, Caller, ClientInfo
from mcpproxy_py.errors import RpcError
from mcpproxy_py.jsonrpc import BadMessage, Kind
from mcpproxy_py.serve.http.guard import is_local
from mcpproxy_py.serve.http.request import BodyCutShort, Handler, HttpRequest
from mcpproxy_py.serve.mcp import event_streams
from mcpproxy_py.serve.mcp.event_streams import EventStream
from mcpproxy_py.serve.mcp.head_facts import HeadFacts, HttpRefusal, head_facts
from mcpproxy_py.upstream.session.large_messages import measured
from mcpproxy_py.upstream.turns import TURNS, uncollected

if TYPE_CHECKING:
    from mcpproxy_py.serve.mcp.endpoint import McpEndpoint
    from mcpproxy_py.serve.mcp.sessions import ClientSession
    from mcpproxy_py.serve.mcp.surfaces.surface import Surface

BEGIN_AFTER: Final = 0.02
"""Seconds after which an answer becomes a stream where that can be resumed."""
SECOND_LOOKS: Final = 4
"""How much more work than reading a message is to decide on it, check it, record it and write it."""
CLAIM_LIMIT: Final = 128
"""How much of a client's claimed name we keep."""
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


CACHED: Final = frozenset({
    "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read",
    "skills/list", "skills/get",
})  # fmt: skip
"""Results for which the modern wire wants to know how long, and by whom, they may be kept."""
EraHandler = Callable[[HttpRequest, HeadFacts], Awaitable[None]]


class ClientPeer(NamedTuple):
    """Who asks, as far as the wire tells."""

    client: ClientInfo
    principal: str
    version: str
    modern: bool
    capabilities: Mapping[str, Any] = NOTHING
    session_id: str | None = None
    access: Access | None = None
    """What there is for this principal; `None`: everything."""

    @property
    def key(self) -> str:
        """Without a session, a client is who it says it is, and only within what its principal may do."""
        return self.session_id or f"{self.principal}/{self.client.name}/{self.client.version}"


class WatchedResource(NamedTuple):
    """A resource as its server knows it. Two servers may have the same URI."""

    server: str
    uri: str


class HeldByClient(Protocol):
    """The ask that a request became, where its client is asked back. It is handed the request, and keeps none: two
    that hold each other are no longer freed with the last of their users, but by the garbage collector."""

    def note(self, kind: str, method: str) -> None:
        """A question went out, or was answered: on record."""
        ...

    def question(self, principal: str) -> AbstractContextManager[None]:
        """For as long as one is open. Raises `RpcError` where this principal has too many."""
        ...

    @property
    def is_away(self) -> bool:
        """Whether a modern client was sent away, and is not back."""
        ...

    def come_back(self, exchange: McpRequest) -> None:
        """Send it away, with nothing to answer."""
        ...

    async def later(self, exchange: McpRequest, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a modern client, by ending its turn."""
        ...


class McpRequest:
    """`back` is the session of the handshake era; a modern client has none, and is asked by ending its turn: `asks`."""

    asks: HeldByClient | None = None
    plain = False
    """Whether its parameters can be sent on without another look (`messages.decode_request`)."""
    early = False
    """Whether the answer went out while the request goes on."""
    finished = False
    _stream: EventStream | None = None
    _pouring: asyncio.Task[None] | None = None
    _leaving: asyncio.Task[None] | None = None

    def __init__(
        self, endpoint: McpEndpoint, request_id: int | str, method: str, params: dict[str, Any], peer: ClientPeer,
        back: ClientSession | None = None, http: HttpRequest | None = None,
    ) -> None:  # fmt: skip
        """`http` is what it came with; whoever reads lines has another way back."""
        self.id = request_id
        self.method = method
        self.params = params
        self.peer = peer
        self.capabilities = peer.capabilities
        self.back = back
        self.live = back is not None
        self._endpoint = endpoint
        self._http = http
        meta: Any = params.get("_meta")
        if not isinstance(meta, dict):
            meta = None
        self.progress_token: Any = None if meta is None else meta.get("progressToken")  # pyright: ignore[reportUnknownMemberType]
        self.wants_progress = type(self.progress_token) is str or type(self.progress_token) is int
        self.meta: Mapping[str, Any] | None = meta  # pyright: ignore[reportUnknownMemberType]
        """What the client said beside its request; the log level of its session is part of that in the modern era."""
        if back is not None and back.log_level is not None:
            self.meta = {LOG_LEVEL: back.log_level, **(self.meta or {})}

    @property
    def caller(self) -> Caller:
        peer = self.peer
        return Caller(peer.principal, "mcp", peer.client, str(self.id)[:CLAIM_LIMIT], peer.access)

    @property
    def key(self) -> str:
        return self.peer.key

    @property
    def local(self) -> bool:
        """Lines come over a socket of this machine."""
        return self._http is None or is_local(self._http.peer, self._http.head)

    # Beside the answer.

    def put(self, message: bytes) -> None:
        """A message that goes out before the answer. What comes after it is dropped: nobody would look there."""
        if not self.finished:
            self._begin().put(message)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/progress":
            if not self.wants_progress:
                return
            params = {**params, "progressToken": self.progress_token}
        elif method == "notifications/message" and not self._wants_log(params.get("level")):
            return
        self.put(jsonrpc.notification(method, params))

    def _wants_log(self, level: object) -> bool:
        least = self.back.log_level if self.back is not None else (self.meta or {}).get(LOG_LEVEL)
        if least is None:
            return self.back is not None  # the modern era sends nothing that was not asked for
        return loud_enough(level, least)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if (missing := lacks(self.capabilities, method)) is not None:
            raise RpcError(METHOD_NOT_FOUND, f"This client cannot be asked: it does not declare {missing}")
        if self.asks is None:
            raise RpcError(METHOD_NOT_FOUND, "This client cannot be asked anything here")
        with self.asks.question(self.peer.principal):
            self.asks.note("input_required", method)
            if self.back is not None:
                said = await self.back.ask(method, params, self.put)
            else:
                said = await self.asks.later(self, method, params)
        self.asks.note("answered", method)
        return said

    def pause(self, seconds: float) -> Awaitable[object] | None:
        """Let the client go, to come back for the rest, where it can: over when it is back."""
        return self._begin().pause(seconds) if self._resumable and not self.finished else None

    @property
    def is_there(self) -> bool:
        if self.back is None:
            return self.asks is None or not self.asks.is_away
        return not self.client_left or (self._stream is not None and self._stream.is_read)

    def come_back(self) -> None:
        if self.back is None and self.asks is not None:
            self.asks.come_back(self)

    # The answer, over HTTP.

    @property
    def client_left(self) -> bool:
        return self._http is not None and self._http.gone

    @property
    def _resumable(self) -> bool:
        return self.back is not None and self.back.resumable

    async def finish(self, body: bytes, status: int = 200) -> None:
        """The answer; of two, only the first counts."""
        if self.finished:
            return
        self.finished = True
        http = cast(HttpRequest, self._http)
        http.on_left = None
        if self._stream is None or self._pouring is None:
            self._endpoint.slow.discard(self)
            return await http.respond(status, body, () if self.back is None else self.back.mark)
        http.on_left = self._stream.notifications.set
        self._stream.put(body, last=True)
        await self._pouring
        self._rest()

    def answer_early(self, result: Mapping[str, Any]) -> None:
        """Answer now, from within the request, which goes on without its client."""
        if self.back is not None:
            raise AssertionError("a client of the handshake era is asked over its session")
        self.early = True
        body = jsonrpc.answer(
            self.id, {"result": completed(self._endpoint.surface, self.method, result, self.peer.access)}
        )
        self._leaving = asyncio.get_running_loop().create_task(self.finish(body))

    def abandon(self) -> None:
        """There will be no answer."""
        self.finished = True
        self._rest()
        if self._stream is not None:
            self._stream.end()

    async def end(self) -> None:
        """The same, where its stream may end in good order."""
        self.abandon()
        if self._pouring is not None:
            await self._pouring

    def listens(self) -> None:
        """The answer has no end of its own."""
        cast(HttpRequest, self._http).listens = True

    @property
    def is_streaming(self) -> bool:
        return self._stream is not None

    def at_once(self) -> None:
        """The answer comes now, and with a status of HTTP: it must not become a stream."""
        self._endpoint.slow.discard(self)

    def slow(self) -> None:
        """It takes long: time that its client hears something."""
        if not self.finished:
            self._begin()

    def _rest(self) -> None:
        self._endpoint.slow.discard(self)
        if self._stream is not None and not self._resumable:
            self._stream.release()

    def _begin(self) -> EventStream:
        if self._stream is None:
            self._endpoint.slow.discard(self)
            self._stream = EventStream(scale=self._endpoint.kept) if self.back is None else self.back.new_stream()
            self._stream.prime()
            self._pouring = asyncio.get_running_loop().create_task(self._pour(self._stream))
        return self._stream

    async def _pour(self, stream: EventStream) -> None:
        http = cast(HttpRequest, self._http)
        if self.back is not None:
            http.on_left = stream.notifications.set
        with contextlib.suppress(OSError):
            await event_streams.begin(http, () if self.back is None else self.back.mark)
            await stream.pour(http)


async def read_message(http: HttpRequest, facts: HeadFacts) -> tuple[dict[str, Any], Kind, bool]:
    """What a POST brings, as `messages.decode_request` gives it. Raises `HttpRefusal`."""
    if facts.unfit is not None:
        raise HttpRefusal(facts.unfit[0], RpcError(INVALID_REQUEST, facts.unfit[1]))
    body = http.body
    try:
        if body is None or http.gone:
            body = await http.read()
        return jsonrpc.decode_request(body) if len(body) <= SMALL else await read_large(body, http.max_values)
    except BodyCutShort:
        raise HttpRefusal(400, RpcError(PARSE_ERROR, "Parse error: the body ended early")) from None
    except BadMessage as error:
        raise HttpRefusal(400, error, error.id) from None


async def read_large(text: bytes, max_values: int) -> tuple[dict[str, Any], Kind, bool]:
    """`jsonrpc.decode_request` in its turn; over when it is the turn of whoever acts on the message. Raises
    `BadMessage` also where it holds too much."""
    values = await measured(text, max_values)
    if values > max_values:
        raise BadMessage(INVALID_REQUEST, f"The message holds more than {max_values} keys and values")
    await TURNS.turn(seconds(len(text), values))
    message = uncollected(partial(jsonrpc.decode_request, text))
    await TURNS.turn(seconds(len(text), SECOND_LOOKS * values))
    return message


def loud_enough(level: object, least: object) -> bool:
    """A level nobody knows is passed on rather than lost."""
    if level not in LEVELS or least not in LEVELS:
        return True
    return LEVELS.index(level) >= LEVELS.index(least)


def claimed_client(info: object) -> ClientInfo:
    """A client's own words about itself, cut to what fits a record."""
    said: dict[str, Any] = info if isinstance(info, dict) else {}
    name, version = said.get("name") or "", said.get("version") or ""
    short = isinstance(name, str) and isinstance(version, str) and max(len(name), len(version)) <= CLAIM_LIMIT
    return (_known if short else _client)(name, version)


def _client(name: object, version: object) -> ClientInfo:
    return ClientInfo(json_values.quoted(name, CLAIM_LIMIT), json_values.quoted(version, CLAIM_LIMIT))


_known: Final = lru_cache(256)(_client)
"""A modern client says who it is with each request."""


def peer_by_handshake(params: Mapping[str, Any], access: Access, version: str, session_id: str) -> ClientPeer:
    """By the parameters of `initialize`."""
    capabilities = json_values.as_object(params.get("capabilities")) or {}
    client, scoped = claimed_client(params.get("clientInfo")), None if access.everything else access
    return ClientPeer(client, access.principal, version, False, capabilities, session_id, scoped)


def peer_by_envelope(said: Envelope, access: Access, session_id: str | None = None) -> ClientPeer:
    """By what a modern request says of its sender."""
    capabilities: Any = said.client_capabilities if isinstance(said.client_capabilities, dict) else {}
    client, scoped = claimed_client(said.client_info), None if access.everything else access
    return ClientPeer(client, access.principal, said.version, True, capabilities, session_id, scoped)


def is_modern(params: Mapping[str, Any]) -> bool:
    """Whether a request without headers speaks for itself."""
    meta = json_values.as_object(params.get("_meta"))
    return meta is not None and PROTOCOL_VERSION in meta


def completed(surface: Surface, method: str, result: Mapping[str, Any], access: Access | None) -> dict[str, Any]:
    """The result as the modern wire wants it: what is missing is added, and what a modern server said itself stays."""
    meta, own = result.get("_meta"), surface.own_meta
    whole: dict[str, Any] = {
        "resultType": "complete",
        **result,
        "_meta": {**own, **meta} if isinstance(meta, dict) else own,
    }
    if method in CACHED and whole["resultType"] == "complete":
        cache = surface.cache(method)
        whole.setdefault("ttlMs", cache.ttl_ms)
        whole.setdefault("cacheScope", cache.scope if access is None else "private")
    return whole


def without_result_type(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The handshake era knows only one kind of result, and has no word for it."""
    if result.get("resultType") != "complete":
        return result
    return {key: value for key, value in result.items() if key != "resultType"}


def by_era(
    modern: EraHandler, handshake: EraHandler, there: Callable[[Scope], bool] | None = None,
    elsewhere: Handler | None = None,
) -> Handler:  # fmt: skip
    """Streamable HTTP at one path for both eras: the modern one is told by its header. `there` says whether there is
    anything at this path in a scope; where not, it is `elsewhere` that answers, and nothing is looked at here."""

    def serve(http: HttpRequest) -> Awaitable[None]:
        access = http.access
        if not access.everything and there is not None and elsewhere is not None:
            scope = access.scope
            if scope is not None and not there(scope):
                return elsewhere(http)
        facts: HeadFacts = http.head.mcp or head_facts(http.head)
        return modern(http, facts) if facts.modern else handshake(http, facts)

    return serve
