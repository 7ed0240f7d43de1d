"""What MCP needs of a request's head, found out once for each head, and how a request is turned away."""

from __future__ import annotations

from typing import Any, Final

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.protocol import headers
from mcpproxy_py.core.protocol.constants import HANDSHAKE
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.http.request import HttpRequest, RequestHead

SESSION_ID: Final = "mcp-session-id"
LAST_EVENT_ID: Final = "last-event-id"
READ: Final = tuple(
    (name.encode(), name) for name in (*sorted(headers.ROUTING), "accept", "content-type", SESSION_ID, LAST_EVENT_ID)
)
USUAL: Final = ("application/json, text/event-stream", "application/json")
"""What the SDKs send as `Accept` and `Content-Type`."""


class HttpRefusal(Exception):
    """A request that is turned away."""

    def __init__(self, status: int, error: RpcError | None, request_id: Any = None, **extra: str) -> None:
        super().__init__(status)
        self.status = status
        self.body = jsonrpc.refusal(error, request_id if jsonrpc.is_id(request_id) else None) if error else b""
        self.headers = [(name.encode(), value.encode()) for name, value in extra.items()]

    async def answer(self, http: HttpRequest) -> None:
        await http.respond(self.status, self.body, self.headers)


class HeadFacts:
    __slots__ = ("_headers", "_lines", "modern", "seen", "session_id", "twice", "unfit")

    def __init__(self, head: RequestHead) -> None:
        found = dict(head.headers)
        self.seen = {text: found[name].decode("latin-1").strip(" \t") for name, text in READ if name in found}
        """The headers that are read here. Of one that came several times, the last."""
        self._headers = head.headers
        self._lines: list[tuple[str, str]] | None = None
        version = self.seen.get(headers.PROTOCOL_VERSION)
        self.modern = version is not None and version not in HANDSHAKE
        self.session_id = self.seen.get(SESSION_ID)
        routing = headers.ROUTING if self.modern else headers.ROUTING | {SESSION_ID}
        repeated = len(found) != len(head.headers)
        self.twice = headers.duplicated_routing_header(self.lines(), routing) if repeated else None
        """A header that routes and came several times, by its name."""
        self.unfit = _unfit(self.seen.get("accept", ""), self.seen.get("content-type", ""))
        """What keeps a POST with this head from being taken: a status, and why."""

    def lines(self) -> list[tuple[str, str]]:
        """All headers, as they came."""
        if self._lines is None:
            self._lines = [
                (name.decode("latin-1"), text.decode("latin-1").strip(" \t")) for name, text in self._headers
            ]
        return self._lines


def head_facts(head: RequestHead) -> HeadFacts:
    facts = head.mcp = HeadFacts(head)
    return facts


def _unfit(accepted: str, kind: str) -> tuple[int, str] | None:
    if (accepted, kind) == USUAL:
        return None
    if not (accepts(accepted, "application/json") and accepts(accepted, "text/event-stream")):
        return 406, "Not Acceptable: Client must accept both application/json and text/event-stream"
    if kind.partition(";")[0].strip().lower() != "application/json":
        return 415, "Unsupported Media Type: Content-Type must be application/json"
    return None


def accepts(accepted: str, kind: str) -> bool:
    accepted = accepted.lower()
    return kind in accepted or "*/*" in accepted or f"{kind.partition('/')[0]}/*" in accepted
