"""Whoever asked, as the rooms below see them while their request is under way upstream."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mcpproxy_py.core.values import Caller, Client
from mcpproxy_py.errors import RpcError

CANNOT_BE_ASKED: Final = -32601
"""JSON-RPC's "method not found": what a client says that never heard of the question."""
NEEDS: Final[Mapping[str, str]] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a client must have declared before it can be asked."""


class Talk(Protocol):
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
    def key(self) -> str:
        """Names the client for `sessions: per_client`; empty for nobody in particular."""
        ...

    def note(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification that belongs to this request, its params as the upstream sent them. Called on the event loop:
        must not block."""
        ...

    def pause(self, seconds: float) -> Awaitable[object] | None:
        """The server ended its stream and wants to be asked again in so many seconds. A client that can do the same is
        told so, and what comes back is over when it is here again; None where it just waits."""
        ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The client's raw result of a question of the server's. Raises `RpcError`. Cancelling withdraws it."""
        ...


class Nobody:
    """A caller that hears nothing and cannot be asked."""

    capabilities: Mapping[str, Any] = {}
    wants_progress = False
    live = False
    key = ""

    def __init__(self, caller: Caller | None = None) -> None:
        self.caller = caller or Caller("nobody", "internal", Client())

    def note(self, method: str, params: Mapping[str, Any]) -> None:
        return

    def pause(self, seconds: float) -> None:
        return None

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise RpcError(CANNOT_BE_ASKED, f"the caller cannot be asked: {method[:80]} is not possible here")


NOBODY: Final[Talk] = Nobody()


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a built-in upstream gets beside the arguments of a call.

    It may ask at once with `talk.ask`, where `talk.live`, or answer `{"resultType": "input_required", ...}` and be
    called again, then with what the client answered (`input_responses`) and its own `request_state` as it gave it.
    """

    talk: Talk = NOBODY
    input_responses: Mapping[str, Any] | None = None
    request_state: str | None = None

    @property
    def caller(self) -> Caller:
        return self.talk.caller

    @property
    def principal(self) -> str:
        """Who asks, as the gateway authenticated it."""
        return self.talk.caller.principal


def lacks(capabilities: Mapping[str, Any], method: str) -> str | None:
    """The capability that a client would need to be asked this, and did not declare."""
    needed = NEEDS.get(method)
    return needed if needed is not None and needed not in capabilities else None
