"""Whoever asked, as the rooms below see them while their request is under way upstream."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol.constants import LOG_LEVEL, LOG_LEVELS
from mcpproxy_py.core.protocol.extensions import EXTENSIONS, forwarded
from mcpproxy_py.core.protocol.headers import TRACE_PARENT
from mcpproxy_py.core.values import (
    Ask,
    Caller,
    ClientInfo,
    Surface,
)
from mcpproxy_py.errors import RpcError

CANNOT_BE_ASKED: Final = -32601
"""JSON-RPC's "method not found": what a client says that never heard of the question."""
NEEDS: Final[Mapping[str, str]] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a client must have declared before it can be asked."""
SERVED: Final[Mapping[str, frozenset[str]]] = {
    "elicitation": frozenset(("form", "url")),
    "sampling": frozenset(("context", "tools")),
    "roots": frozenset(("listChanged",)),
}
"""What of a client's capabilities any surface can serve to the end (SURF-10), with what each may say closer."""
FORWARDED_META: Final = frozenset((TRACE_PARENT, LOG_LEVEL))
"""The keys of a client's `_meta` that may go along upstream."""
_TRACE: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, 3.2. Of another version nobody knows what it holds."""


def forwarded_meta(said: Mapping[str, Any] | None) -> Mapping[str, str] | None:
    """What of a client's `_meta` goes along upstream (GATE-15), and on record: which trace it is part of, and its log
    level. The progress token is of each connection its own. `tracestate` and `baggage` are free text, kilobytes of it,
    which nobody decided on."""
    if not said:
        return None
    kept: dict[str, str] = {}
    trace = said.get(TRACE_PARENT)
    if isinstance(trace, str) and _TRACE.fullmatch(trace):
        kept[TRACE_PARENT] = trace
    level = said.get(LOG_LEVEL)
    if isinstance(level, str) and level in LOG_LEVELS:
        kept[LOG_LEVEL] = level
    return kept or None


def is_served(capabilities: Mapping[str, Any]) -> bool:
    """Whether `served` would leave these as they are."""
    return all(
        name in SERVED
        and (known := json_values.as_object(said)) is not None
        and known.keys() <= SERVED[name]
        and not any(map(_nested, known.values()))
        for name, said in capabilities.items()
    )


def served(capabilities: Mapping[str, Any], surface: Surface = "gate") -> dict[str, Any]:
    """A client's capabilities as a server hears of them, at every surface: of extensions those that it serves to the
    end, and without any other JSON that somebody put in there."""
    known = forwarded(capabilities[EXTENSIONS], surface) if EXTENSIONS in capabilities else None
    kept = _known_parts(capabilities)
    return {**kept, EXTENSIONS: known} if known else kept


def _known_parts(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {key: {} if _nested(value) else value for key, value in _object(said).items() if key in SERVED[name]}
        for name, said in capabilities.items()
        if name in SERVED
    }


def _nested(value: object) -> bool:
    return not isinstance(value, bool) and value != {}


def _object(value: object) -> Mapping[str, Any]:
    return json_values.as_object(value) or {}


class ClientChannel(Protocol):
    """The way back to whoever asked, beside the answer, while their request is under way upstream."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The client's raw capabilities object, `{}` where nobody can be asked."""
        ...

    @property
    def caller(self) -> Caller:
        """Who was let in with this request. Its `client` is only what that client says of itself."""
        ...

    @property
    def wants_progress(self) -> bool: ...

    @property
    def live(self) -> bool:
        """Whether the client answers while its request goes on. Where not, whoever is able to had better end its turn
        with `input_required`; but `ask` may work all the same, by holding the call."""
        ...

    @property
    def local(self) -> bool:
        """Whether the client is on this machine, as far as the wire tells, and so is a browser that it opens."""
        ...

    @property
    def key(self) -> str:
        """Names the client for `sessions: per_client`; empty for nobody in particular."""
        ...

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification that belongs to this request, its params as the upstream sent them. Called on the event loop:
        must not block."""
        ...

    def pause(self, seconds: float) -> Awaitable[object] | None:
        """The server ended its stream and wants to be asked again in so many seconds. A client that can do the same is
        told so, and what comes back is over when it is here again; None where it just waits."""
        ...

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The client's raw result of a question of the server's. Raises `RpcError`. Cancelling withdraws it."""
        ...


@runtime_checkable
class ReturningClient(Protocol):
    """One that may leave while its request goes on, and come back for the answer."""

    @property
    def is_there(self) -> bool:
        """Whether somebody would hear an answer now."""
        ...

    def come_back(self) -> None:
        """Send it away, where it is of the era that then comes back at once."""
        ...

    def at_once(self) -> None:
        """The answer comes now, and nothing before it."""
        ...


class NoClient:
    """A caller that hears nothing and cannot be asked."""

    capabilities: Mapping[str, Any] = {}
    wants_progress = False
    live = False
    local = False
    key = ""

    def __init__(self, caller: Caller | None = None, ask: Ask | None = None) -> None:
        if caller is None and ask is not None:
            caller = Caller(ask.principal, ask.source, ask.client, ask.request_id, ask.access)
        self.caller = caller or Caller("nobody", "internal", ClientInfo())

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        return

    def pause(self, seconds: float) -> None:
        return None

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise RpcError(CANNOT_BE_ASKED, f"the caller cannot be asked: {method[:80]} is not possible here")


NOBODY: Final[ClientChannel] = NoClient()


@dataclass(frozen=True, slots=True)
class UpstreamCallContext:
    """What a built-in upstream gets beside the arguments of a call.

    It may ask at once with `talk.ask`, where `talk.live`, or answer `{"resultType": "input_required", ...}` and be
    called again, then with what the client answered (`input_responses`) and its own `request_state` as it gave it.
    """

    channel: ClientChannel = NOBODY
    input_responses: Mapping[str, Any] | None = None
    request_state: str | None = None

    @property
    def caller(self) -> Caller:
        return self.channel.caller

    @property
    def principal(self) -> str:
        """Who asks, as the gateway authenticated it."""
        return self.channel.caller.principal


def lacks(capabilities: Mapping[str, Any], method: str) -> str | None:
    """The capability that a client would need to be asked this, and did not declare."""
    needed = NEEDS.get(method)
    return needed if needed is not None and needed not in capabilities else None


class NarrowedChannel:
    """A client's way back, with other capabilities than it declared: those that can be served here."""

    def __init__(self, channel: ClientChannel, capabilities: Mapping[str, Any]) -> None:
        self.capabilities = capabilities
        self.caller, self.wants_progress, self.live, self.local, self.key = (
            channel.caller,
            channel.wants_progress,
            channel.live,
            channel.local,
            channel.key,
        )
        self.notify, self.pause, self.request = channel.notify, channel.pause, channel.request


def narrowed(channel: ClientChannel, surface: Surface) -> ClientChannel:
    declared = channel.capabilities
    return channel if is_served(declared) else NarrowedChannel(channel, served(declared, surface))
