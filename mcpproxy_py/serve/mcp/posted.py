"""What an HTTP request brings, read and checked before any surface hears of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core import headers
from mcpproxy_py.core.revisions import INVALID_REQUEST, PARSE_ERROR
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.head import Headers
from mcpproxy_py.serve.mcp import messages
from mcpproxy_py.serve.visit import BodyCutShort, Visit

SESSION_ID: Final = "mcp-session-id"
LAST_EVENT_ID: Final = "last-event-id"
READ: Final = tuple(
    (name.encode(), name) for name in (*sorted(headers.ROUTING), "accept", "content-type", SESSION_ID, LAST_EVENT_ID)
)
USUAL: Final = ("application/json, text/event-stream", "application/json")
"""What the SDKs send as `Accept` and `Content-Type`."""


class Refused(Exception):
    """A request that is turned away."""

    def __init__(self, status: int, error: RpcError | None, request_id: Any = None, **extra: str) -> None:
        super().__init__(status)
        self.status = status
        self.body = messages.refusal(error, request_id if messages.is_id(request_id) else None) if error else b""
        self.headers = [(name.encode(), value.encode()) for name, value in extra.items()]


def seen_of(headers: Headers) -> dict[str, str]:
    """The headers that are read here. Of one that came several times, the last."""
    found = dict(headers)
    return {text: found[name].decode("latin-1").strip(" \t") for name, text in READ if name in found}


def routed_twice(lines: Headers) -> str | None:
    """A header that routes and came several times, by its name."""
    return _twice(lines, headers.ROUTING)


def routed_twice_in_session(lines: Headers) -> str | None:
    """The same in the handshake era, where the session's id is one of them."""
    return _twice(lines, headers.ROUTING | {SESSION_ID})


def _twice(lines: Headers, among: frozenset[str]) -> str | None:
    nothing_repeated = len(dict(lines)) == len(lines)
    return None if nothing_repeated else headers.duplicated_routing_header(lines_of(lines), among)


def lines_of(headers: Headers) -> list[tuple[str, str]]:
    """The headers as they came."""
    return [(name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in headers]


def check_kind(seen: Mapping[str, str]) -> None:
    accepted, kind = seen.get("accept", ""), seen.get("content-type", "")
    if (accepted, kind) == USUAL:
        return
    if not (accepts(accepted, "application/json") and accepts(accepted, "text/event-stream")):
        message = "Not Acceptable: Client must accept both application/json and text/event-stream"
        raise Refused(406, RpcError(INVALID_REQUEST, message))
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, RpcError(INVALID_REQUEST, "Unsupported Media Type: Content-Type must be application/json"))


def accepts(accepted: str, kind: str) -> bool:
    accepted = accepted.lower()
    return kind in accepted or "*/*" in accepted or f"{kind.partition('/')[0]}/*" in accepted


async def message_in(visit: Visit) -> dict[str, Any]:
    try:
        return messages.read(await visit.body())
    except BodyCutShort:
        raise Refused(400, RpcError(PARSE_ERROR, "Parse error: the body ended early")) from None
    except RpcError as error:
        raise Refused(400, error) from None


def kind_of(message: Mapping[str, Any]) -> messages.Kind:
    try:
        return messages.kind_of(message)
    except RpcError as error:
        raise Refused(400, error, message.get("id")) from None


def params_of(message: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return messages.params_of(message)
    except RpcError as error:
        raise Refused(400, error, message.get("id")) from None
