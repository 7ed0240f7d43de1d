"""One request of a client's while it is under way, and the way back to that client (`core.talk.Talk`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

from mcpproxy_py.core import jsonvalue
from mcpproxy_py.core.envelope import Modern
from mcpproxy_py.core.revisions import LOG_LEVEL, METHOD_NOT_FOUND, PROTOCOL_VERSION
from mcpproxy_py.core.talk import lacks
from mcpproxy_py.core.values import NOTHING, Caller, Client
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp import messages

CLAIM_LIMIT: Final = 128
"""How much of a client's claimed name we keep."""
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Peer(NamedTuple):
    """Who asks, as far as the wire tells."""

    client: Client
    principal: str
    version: str
    modern: bool
    capabilities: Mapping[str, Any] = NOTHING
    session_id: str | None = None

    @property
    def key(self) -> str:
        """Without a session, a client is who it says it is, and only within what its principal may do."""
        return self.session_id or f"{self.principal}/{self.client.name}/{self.client.version}"


class Back(Protocol):
    """What can still be said to a client of the handshake era, or asked of it, beside answers."""

    log_level: str | None
    subscribed: set[str]

    async def ask(self, method: str, params: Mapping[str, Any], put: Callable[[bytes], None]) -> dict[str, Any]: ...


class Asks(Protocol):
    """The ask that a request became, where its client is asked back. It is handed the request, and keeps none: two
    that hold each other are no longer freed with the last of their users, but by the garbage collector."""

    def note(self, kind: str, method: str) -> None:
        """A question went out, or was answered: on record."""
        ...

    async def later(self, exchange: Exchange, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a modern client, by ending its turn."""
        ...


class Exchange:
    """`put` sends a message ahead of the answer, `answer_early` a result while the request goes on. `back` is the
    session of the handshake era; a modern client has none, and is asked by ending its turn: `asks`."""

    __slots__ = (
        "_answer_early", "_progress_token", "asks", "back", "id", "method", "params", "peer", "put", "send_away",
    )  # fmt: skip

    def __init__(
        self, request_id: int | str, method: str, params: dict[str, Any], peer: Peer, put: Callable[[bytes], None],
        answer_early: Callable[[Exchange, Mapping[str, Any]], None], back: Back | None = None,
    ) -> None:  # fmt: skip
        self.id = request_id
        self.method = method
        self.params = params
        self.peer = peer
        self.put = put
        self._answer_early = answer_early
        self.back = back
        self.asks: Asks | None = None
        self.send_away: Callable[[float], Awaitable[object] | None] | None = None
        self._progress_token = _token(params)

    @property
    def meta(self) -> Mapping[str, Any] | None:
        """What the client said beside its request; the log level of its session is part of that in the modern era."""
        said = jsonvalue.as_object(self.params.get("_meta"))
        if self.back is None or self.back.log_level is None:
            return said
        return {LOG_LEVEL: self.back.log_level, **(said or {})}

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self.peer.capabilities

    @property
    def caller(self) -> Caller:
        return Caller(self.peer.principal, "mcp", self.peer.client, str(self.id)[:CLAIM_LIMIT])

    @property
    def wants_progress(self) -> bool:
        return self._progress_token is not None

    @property
    def live(self) -> bool:
        return self.back is not None

    @property
    def key(self) -> str:
        return self.peer.key

    def note(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/progress":
            if self._progress_token is None:
                return
            params = {**params, "progressToken": self._progress_token}
        elif method == "notifications/message" and not self._wants_log(params.get("level")):
            return
        self.put(messages.notification(method, params))

    def _wants_log(self, level: object) -> bool:
        least = self.back.log_level if self.back is not None else (self.meta or {}).get(LOG_LEVEL)
        if least is None:
            return self.back is not None  # the modern era sends nothing that was not asked for
        return loud_enough(level, least)

    def answer_early(self, result: Mapping[str, Any]) -> None:
        self._answer_early(self, result)

    def pause(self, seconds: float) -> Awaitable[object] | None:
        return None if self.send_away is None else self.send_away(seconds)

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if (missing := lacks(self.capabilities, method)) is not None:
            raise RpcError(METHOD_NOT_FOUND, f"This client cannot be asked: it does not declare {missing}")
        if self.asks is None:
            raise RpcError(METHOD_NOT_FOUND, "This client cannot be asked anything here")
        self.asks.note("input_required", method)
        if self.back is not None:
            said = await self.back.ask(method, params, self.put)
        else:
            said = await self.asks.later(self, method, params)
        self.asks.note("answered", method)
        return said


def loud_enough(level: object, least: object) -> bool:
    """A level nobody knows is passed on rather than lost."""
    if level not in LEVELS or least not in LEVELS:
        return True
    return LEVELS.index(level) >= LEVELS.index(least)


def claimed_client(info: object) -> Client:
    """A client's own words about itself, cut to what fits a record."""
    said = jsonvalue.as_object(info) or {}
    name, version = said.get("name") or "", said.get("version") or ""
    short = isinstance(name, str) and isinstance(version, str) and max(len(name), len(version)) <= CLAIM_LIMIT
    return (_known if short else _client)(name, version)


def _client(name: object, version: object) -> Client:
    return Client(jsonvalue.quoted(name, CLAIM_LIMIT), jsonvalue.quoted(version, CLAIM_LIMIT))


_known: Final = lru_cache(256)(_client)
"""A modern client says who it is with each request."""


def peer_by_handshake(params: Mapping[str, Any], principal: str, version: str, session_id: str) -> Peer:
    """By the parameters of `initialize`."""
    capabilities = jsonvalue.as_object(params.get("capabilities")) or {}
    return Peer(claimed_client(params.get("clientInfo")), principal, version, False, capabilities, session_id)


def peer_by_envelope(said: Modern, principal: str, session_id: str | None = None) -> Peer:
    """By what a modern request says of its sender."""
    capabilities = jsonvalue.as_object(said.client_capabilities) or {}
    return Peer(claimed_client(said.client_info), principal, said.version, True, capabilities, session_id)


def is_modern(params: Mapping[str, Any]) -> bool:
    """Whether a request without headers speaks for itself."""
    meta = jsonvalue.as_object(params.get("_meta"))
    return meta is not None and PROTOCOL_VERSION in meta


def _token(params: Mapping[str, Any]) -> str | int | None:
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None
