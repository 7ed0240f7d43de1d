"""What `mcpproxy stdio` has to know of a client's conversation to go on with it at another gateway (USE-7).

No input or output here: lines in, lines out. Requests that were under way when a gateway ended are answered with an
error and never sent again, since their server may have acted; only the handshake and what the client listens to are
replayed. An answer to a question of a gateway that has ended is dropped: it must not answer one of the next gateway's.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, field
from typing import Any, Final

Id = int | str
Message = dict[str, Any]

ANSWER: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?[0-9]+|"(?:[^"\\]|\\.)*"),"(result|error)"')
"""How a gateway begins each answer. What looks otherwise is read whole."""
CONNECTION_CLOSED: Final = -32000
LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
UPDATED: Final = "notifications/resources/updated"
LISTS: Final = ("tools", "prompts", "resources")
REPLAYED: Final = frozenset({"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
ONLY_READ: Final = frozenset({
    "ping", "server/discover", "tools/list", "prompts/list", "prompts/get", "resources/list", "resources/read",
    "resources/templates/list", "completion/complete", *REPLAYED,
})  # fmt: skip
READ_TOOLS: Final = frozenset({"call_tool_read", "retrieve_tools", "read_result"})


class OtherGateway(Exception):
    """The gateway that runs now does not continue what the one before had agreed on."""


@dataclass(slots=True)
class ClientLine:
    """One line of the client's. `message` is None for what is no JSON object, which a gateway complains about."""

    line: bytes
    message: Message | None
    since: float = 0.0

    @property
    def method(self) -> str | None:
        found = (self.message or {}).get("method")
        return found if isinstance(found, str) else None

    @property
    def id(self) -> Id | None:
        found = (self.message or {}).get("id")
        return found if isinstance(found, int | str) and not isinstance(found, bool) else None

    @property
    def params(self) -> Message:
        return _object((self.message or {}).get("params"))

    @property
    def is_request(self) -> bool:
        return self.method is not None and self.id is not None

    @property
    def is_answer(self) -> bool:
        said = self.message if self.method is None else None
        return said is not None and "id" in said and ("result" in said or "error" in said)

    @property
    def cancels(self) -> Id | None:
        found = self.params.get("requestId") if self.method == "notifications/cancelled" else None
        return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def read_line(line: bytes, now: float = 0.0) -> ClientLine:
    return ClientLine(line, _decoded(line), now)


@dataclass(slots=True)
class Conversation:
    """From the first line to the last, over any number of gateways. Not safe for threads by itself."""

    _open: dict[Id, ClientLine] = field(default_factory=dict[Id, ClientLine])
    """Requests of the client's that the gateway of now has and has not answered."""
    _asked: set[Id] = field(default_factory=set[Id])
    """Questions of the gateway of now that the client has not answered."""
    _initialize: ClientLine | None = None
    _version: object = None
    _initialized: bytes | None = None
    _level: ClientLine | None = None
    _subscribed: dict[str, ClientLine] = field(default_factory=dict[str, ClientLine])
    _listening: dict[Id, ClientLine] = field(default_factory=dict[Id, ClientLine])
    """To be opened again at the next gateway."""
    _acknowledged: set[Id] = field(default_factory=set[Id])
    _resumed: set[Id] = field(default_factory=set[Id])
    _own: str = field(default_factory=lambda: f"mcpproxy-stdio-{secrets.token_hex(8)}-")
    """How ids of requests begin that are ours and not the client's."""
    _own_count: int = 0

    # Towards the gateway.

    def may_send(self, line: ClientLine) -> bool:
        """False for an answer that nobody waits for: the gateway that asked has ended."""
        return not line.is_answer or line.id in self._asked

    def sending(self, line: ClientLine) -> None:
        """It leaves for the gateway now."""
        if line.is_request and (request_id := line.id) is not None:
            self._open[request_id] = line
        elif line.is_answer and line.id is not None:
            self._asked.discard(line.id)
        elif line.method == "notifications/initialized":
            self._initialized = line.line
        elif (cancelled := line.cancels) is not None:
            self._open.pop(cancelled, None)  # which gets no answer then

    def not_sent(self, line: ClientLine) -> bool:
        """Nothing of it has left. Whether it still may: not where the client was told meanwhile that it failed."""
        if not line.is_request or (request_id := line.id) is None:
            return not line.is_answer
        return self._open.get(request_id) is line and self._open.pop(request_id) is line

    # Towards the client.

    def heard(self, line: bytes) -> list[bytes]:
        """What the client is told where the gateway said this."""
        found = ANSWER.match(line)
        if found is not None:
            request_id = json.loads(found[1])
            return self._answered(request_id, found[2] == b"result", line)
        message = _decoded(line) or {}
        method, request_id = message.get("method"), message.get("id")
        if not isinstance(request_id, int | str):
            return self._notified(message, line)
        if not isinstance(method, str):
            return self._answered(request_id, "result" in message, line)
        self._asked.add(request_id)
        return [line]

    def _answered(self, request_id: Id, well: bool, line: bytes) -> list[bytes]:
        request = self._open.pop(request_id, None)
        if request is not None and well and request.method in REPLAYED:
            self._agreed(request, line)
        if request is not None and request.method == LISTEN:
            self._acknowledged.discard(request_id)
            self._resumed.discard(request_id)
        return [] if self._is_own(request_id) else [line]

    def _agreed(self, request: ClientLine, answer: bytes) -> None:
        """What the next gateway has to be told as well."""
        uri = request.params.get("uri")
        if request.method == "initialize":
            self._initialize, self._initialized, self._level = request, None, None
            self._version = _object((_decoded(answer) or {}).get("result")).get("protocolVersion")
            self._subscribed.clear()
        elif request.method == "logging/setLevel":
            self._level = request
        elif request.method == "resources/subscribe" and isinstance(uri, str):
            self._subscribed[uri] = request
        elif isinstance(uri, str):
            self._subscribed.pop(uri, None)

    def _notified(self, message: Message, line: bytes) -> list[bytes]:
        method, params = message.get("method"), _object(message.get("params"))
        if method == "notifications/cancelled" and isinstance(asked := params.get("requestId"), int | str):
            self._asked.discard(asked)
        if method != ACKNOWLEDGED:
            return [line]
        subscription = _object(params.get("_meta")).get(SUBSCRIPTION_ID)
        if not isinstance(subscription, int | str):
            return [line]
        if subscription not in self._resumed:
            self._acknowledged.add(subscription)
            return [line]
        # The client was told so before; what it does not know is whether anything changed meanwhile.
        self._resumed.discard(subscription)
        told = _object(params.get("notifications"))
        uris = told.get("resourceSubscriptions")
        kinds = [kind for kind in LISTS if told.get(f"{kind}ListChanged") is True]
        return _changes(kinds, uris if isinstance(uris, list) else [], {"_meta": {SUBSCRIPTION_ID: subscription}})

    # From one gateway to the next.

    def cut(self) -> tuple[list[bytes], list[ClientLine]]:
        """The gateway has ended: what the client is told now, and what goes to the next gateway before all else."""
        told = [
            _encoded({
                "jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": asked, "reason": "the gateway that asked this has ended"},
            })
            for asked in self._asked
        ]  # fmt: skip
        again: list[ClientLine] = []
        for request_id, request in self._open.items():
            if self._is_own(request_id):
                continue
            if request.method == "initialize":
                again.append(request)
            elif request.method == LISTEN:
                self._listening[request_id] = request
            else:
                told.append(interrupted(request))
        self._open.clear()
        self._asked.clear()
        self._resumed.clear()
        return told, again

    def greeting(self) -> tuple[bytes, Id] | None:
        """The handshake once more, where there was one, under an id of our own."""
        if self._initialize is None:
            return None
        line = self._as_ours(self._initialize)
        assert line.id is not None
        return line.line, line.id

    def welcomed(self, answer: Message) -> list[bytes]:
        """The answer to `greeting`; what the client is told then. Raises `OtherGateway`, and `ConnectionError` where
        it may be tried again: a server that is passed through to may not be connected yet."""
        if "result" not in answer:
            raise ConnectionError(_object(answer.get("error")).get("message"))
        result = _object(answer["result"])
        if result.get("protocolVersion") != self._version:
            raise OtherGateway("the gateway that runs now speaks another revision of the protocol; start it anew")
        if self._initialized is None:
            return []
        offered = _object(result.get("capabilities"))
        kinds = [kind for kind in LISTS if _object(offered.get(kind)).get("listChanged") is True]
        return _changes(kinds, list(self._subscribed), {})

    def resumption(self) -> list[bytes]:
        """What follows the handshake: that it is done, the log level, what is subscribed and listened to."""
        lines = [] if self._initialized is None else [self._initialized]
        wanted = [] if self._level is None else [self._level]
        for request in (*wanted, *self._subscribed.values()):
            ours = self._as_ours(request)
            self.sending(ours)
            lines.append(ours.line)
        for request_id, request in self._listening.items():
            self.sending(request)
            if request_id in self._acknowledged:
                self._resumed.add(request_id)
            lines.append(request.line)
        self._listening.clear()
        return lines

    def stops_listening(self, request_id: Id) -> bool:
        """The client cancels what waits to be opened again. Whether there was such a stream."""
        self._acknowledged.discard(request_id)
        return self._listening.pop(request_id, None) is not None

    def _as_ours(self, request: ClientLine) -> ClientLine:
        self._own_count += 1
        message = {**(request.message or {}), "id": f"{self._own}{self._own_count}"}
        return ClientLine(_encoded(message), {**message, "method": request.method})

    def _is_own(self, request_id: Id) -> bool:
        return isinstance(request_id, str) and request_id.startswith(self._own)


def interrupted(request: ClientLine) -> bytes:
    """The answer to a request whose gateway ended before it answered."""
    name = request.params.get("name")
    reads = request.method in ONLY_READ or (request.method == "tools/call" and name in READ_TOOLS)
    advice = (
        "It was not sent again; it only reads, so it may be sent again."
        if reads
        else "It was not sent again, and the server may have acted: look at what it did before sending it again "
        "(`mcpproxy activity list` shows what is known of it)."
    )
    return _failure(
        request, f"The gateway ended while this request was under way. {advice}", "INTERRUPTED", acted=not reads
    )


def not_sent(request: ClientLine, why: str) -> bytes:
    """The answer to a request that no gateway could be found for."""
    return _failure(request, f"{why}. This request was not sent to any server.", "NOT_REACHABLE", acted=False)


def _failure(request: ClientLine, message: str, code: str, *, acted: bool) -> bytes:
    error = {"code": CONNECTION_CLOSED, "message": message, "data": {"code": code, "may_have_acted": acted}}
    return _encoded({"jsonrpc": "2.0", "id": request.id, "error": error})


def _changes(kinds: list[str], uris: list[Any], meta: Message) -> list[bytes]:
    lists = [{"method": f"notifications/{kind}/list_changed", **({"params": meta} if meta else {})} for kind in kinds]
    updated = [{"method": UPDATED, "params": {"uri": uri, **meta}} for uri in uris]
    return [_encoded({"jsonrpc": "2.0", **message}) for message in (*lists, *updated)]


def _object(value: object) -> Message:
    return value if isinstance(value, dict) else {}


def _encoded(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _decoded(line: bytes) -> Message | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
