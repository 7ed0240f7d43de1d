"""Sessions of the handshake era: what a client said of itself once, and the ways back to it."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mcpproxy_py import jsonrpc
from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.protocol.constants import INTERNAL_ERROR
from mcpproxy_py.errors import RpcError
from mcpproxy_py.gateway.shares import Share
from mcpproxy_py.serve.mcp.event_streams import EventStream, ReplayBudget
from mcpproxy_py.serve.mcp.head_facts import SESSION_ID
from mcpproxy_py.serve.mcp.request import ClientPeer, WatchedResource, loud_enough
from mcpproxy_py.serve.mcp.subscriptions import LIST_CHANGED, UPDATED, shown_uri

MAX_STREAMS: Final = 64
MAX_KEPT_BYTES: Final = 4 << 20
"""Answers kept for a client that lost its connection; the oldest go first."""
ASIDE_EVENTS: Final = 64
ASIDE_BYTES: Final = 65_536
"""Of what nobody asked for, kept for a client that does not listen: little, because sessions are many."""
MAX_OPEN_ASKS: Final = 64
PRIMES_FROM: Final = "2025-11-25"
"""Older clients cannot read an event without content."""
IDLE: Final = 3600.0


class ClientSession:
    """Listens to the hub, answers questions, remembers the streams it may be resumed on."""

    def __init__(self, topic: str, peer: ClientPeer, kept: ReplayBudget) -> None:
        self.topic = topic
        self.peer = peer
        self.mark = ((SESSION_ID.encode(), (peer.session_id or "").encode()),)
        """The header that names it."""
        self.resumable = peer.version >= PRIMES_FROM
        self.log_level: str | None = None
        self.subscribed: dict[WatchedResource, str] = {}
        """With the URI that this client knows it by."""
        self.in_flight: dict[int | str, Callable[[], object]] = {}
        """How to cancel each request under way."""
        self.busy = 0
        self.last_used = time.monotonic()
        self._kept = kept
        self.aside = EventStream("s", events=ASIDE_EVENTS, size=ASIDE_BYTES, scale=kept)
        self.tell: Callable[[bytes], None] = self.aside.put
        """How what nobody asked for reaches the client."""
        self.streams: OrderedDict[str, EventStream] = OrderedDict()
        self.on_close: list[Callable[[], None]] = []
        self.leaving: asyncio.Future[None] | None = None
        self._names = itertools.count(1)
        self._ask_ids = (f"mcpproxy-{secrets.token_hex(4)}-{number}" for number in itertools.count(1))
        """Never those of another session: an answer that comes late must not be one to another question."""
        self._asked: dict[int | str, asyncio.Future[dict[str, Any]]] = {}

    def touch(self) -> None:
        self.last_used = time.monotonic()

    def new_stream(self) -> EventStream:
        """For one request's answer. Only where the client can resume it, its events are kept."""
        if not self.resumable:
            return EventStream(scale=self._kept)
        name = f"r{next(self._names)}"
        stream = self.streams[name] = EventStream(name, scale=self._kept)
        stream.on_done = lambda: self._kept.answered(stream, lambda: self._let_go(name))
        while len(self.streams) > MAX_STREAMS or (len(self.streams) > 1 and self._own_share() > MAX_KEPT_BYTES):
            self._let_go(next(iter(self.streams)))
        return stream

    def _let_go(self, name: str) -> None:
        if (stream := self.streams.pop(name, None)) is not None:
            self._kept.forget(stream)
            stream.release()

    def _own_share(self) -> int:
        return sum(stream.size for stream in self.streams.values())

    def stream(self, name: str) -> EventStream | None:
        return self.aside if name == self.aside.name else self.streams.get(name)

    # What the client is asked.

    async def ask(self, method: str, params: Mapping[str, Any], put: Callable[[bytes], None]) -> dict[str, Any]:
        if len(self._asked) >= MAX_OPEN_ASKS:
            raise RpcError(INTERNAL_ERROR, f"This client has {MAX_OPEN_ASKS} open requests to answer already")
        ask_id = next(self._ask_ids)
        answer = self._asked[ask_id] = asyncio.get_running_loop().create_future()
        try:
            put(jsonrpc.request(ask_id, method, params))
            return await answer
        except asyncio.CancelledError:
            put(jsonrpc.notification("notifications/cancelled", {"requestId": ask_id, "reason": "no longer needed"}))
            raise
        finally:
            self._asked.pop(ask_id, None)

    def resolve(self, message: Mapping[str, Any]) -> None:
        """An answer of the client's. One that nobody waits for is late, and dropped."""
        answer = self._asked.get(message["id"])
        if answer is None or answer.done():
            return
        if (result := json_values.as_object(message.get("result"))) is not None:
            answer.set_result(result)
        else:
            answer.set_exception(_error_of(message.get("error")))

    # What the client is told.

    @property
    def access(self) -> Access | None:
        return self.peer.access

    def hear(self, method: str, params: Mapping[str, Any], server: str = "") -> None:
        if method == UPDATED:
            shown = shown_uri(self.subscribed, server, params)
            if shown is not None:
                self.tell(jsonrpc.notification(method, {**params, "uri": shown}))
        elif self._wants(method, params):
            self.tell(jsonrpc.notification(method, params))

    def _wants(self, method: str, params: Mapping[str, Any]) -> bool:
        if method == "notifications/message":
            if self.access is not None and self.access.scope is not None:
                return False  # it came with no call, so nobody can say whose it is
            return self.log_level is None or loud_enough(params.get("level"), self.log_level)
        return method in LIST_CHANGED

    def cancel(self, request_id: object) -> None:
        """Of the client's own requests only: ids of other sessions are not even in sight."""
        if isinstance(request_id, int | str) and (cancel := self.in_flight.pop(request_id, None)) is not None:
            cancel()

    def close(self) -> None:
        for request_id in list(self.in_flight):
            self.cancel(request_id)
        for stream in (self.aside, *self.streams.values()):
            stream.end()
        for name in list(self.streams):
            self._let_go(name)
        self.aside.release()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(RpcError(INTERNAL_ERROR, "The client ended its session"))
        for leave in self.on_close:
            leave()


class ClientSessions:
    """Those of one surface: an id made here is good nowhere else. Bounded, all together and for each principal; the
    longest idle make room for new ones, a principal's own first."""

    def __init__(self, limit: int, share: Share | None = None) -> None:
        self._limit = limit
        self._share = share
        self._all: OrderedDict[str, ClientSession] = OrderedDict()
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def new_id(self) -> str:
        return secrets.token_hex(16)

    def add(self, session: ClientSession) -> bool:
        """False when there is no room: every session is in use. Raises `ShareUsedUp` where they are all its
        principal's."""
        self._drop(old for old in list(self._all.values()) if self._idle(old) > IDLE)
        principal = session.peer.principal
        if self._share is not None and self._of[principal] >= self._share.most and not self._make_room(principal):
            raise self._share.refused(principal)
        if len(self._all) >= self._limit and not self._make_room(principal) and not self._make_room(None):
            return False
        self._all[session.peer.session_id or ""] = session
        self._of[principal] += 1
        return True

    def find(self, session_id: str, principal: str) -> ClientSession | None:
        """Somebody else's session does not exist."""
        session = self._all.get(session_id)
        if session is None or session.peer.principal != principal:
            return None
        self._all.move_to_end(session_id)
        session.touch()
        return session

    def end(self, session: ClientSession) -> None:
        self._drop([session])

    def end_of(self, principal: str) -> None:
        """All of one whose access has ended."""
        self._drop([session for session in self._all.values() if session.peer.principal == principal])

    def close(self) -> None:
        self._drop(list(self._all.values()))

    def _make_room(self, principal: str | None) -> bool:
        """Without one, whoever's."""
        unused = (session for session in self._all.values() if not session.busy)
        longest_idle = next((one for one in unused if principal in (None, one.peer.principal)), None)
        if longest_idle is not None:
            self._drop([longest_idle])
        return longest_idle is not None

    def _idle(self, session: ClientSession) -> float:
        return 0.0 if session.busy else time.monotonic() - session.last_used

    def _drop(self, sessions: Iterable[ClientSession]) -> None:
        for session in sessions:
            if self._all.pop(session.peer.session_id or "", None) is not None:
                self._of[session.peer.principal] -= 1
                session.close()


def _error_of(error: object) -> RpcError:
    said = json_values.as_object(error) or {}
    code, message = said.get("code"), said.get("message")
    return RpcError(
        code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR,
        message if isinstance(message, str) else "the client answered with an error",
        said.get("data"),
    )
