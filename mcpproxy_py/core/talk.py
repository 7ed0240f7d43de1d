"""The way back to whoever asked, beside the answer, while their request is under way upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from mcpproxy_py.core.revisions import METHOD_NOT_FOUND
from mcpproxy_py.errors import RpcError

NEEDS: Final[Mapping[str, str]] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a client must have declared before it can be asked."""


class Talk(Protocol):
    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client said it can do, as it came; empty where nobody can be asked."""
        ...

    @property
    def wants_progress(self) -> bool: ...

    @property
    def live(self) -> bool:
        """Whether the client answers questions while its request goes on. Where not, a server that is able to
        had better end its turn with `input_required`; `ask` may still work."""
        ...

    @property
    def key(self) -> str:
        """Names the client for `sessions: per_client`; empty for nobody in particular."""
        ...

    def note(self, method: str, params: Mapping[str, Any]) -> None:
        """Pass on a notification that belongs to this request. On the event loop; does not block."""
        ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The client's raw result of a server's request. Raises `RpcError`; cancelling it withdraws the question."""
        ...


class Nobody:
    """Who asked cannot be asked back: REST, the command line."""

    capabilities: Mapping[str, Any] = {}
    wants_progress = False
    live = False
    key = ""

    def note(self, method: str, params: Mapping[str, Any]) -> None:
        """Nobody listens."""

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise RpcError(METHOD_NOT_FOUND, f"Nobody can be asked here ({method[:80]})")


def lacks(capabilities: Mapping[str, Any], method: str) -> str | None:
    """The capability that a client would need to be asked this, and did not declare."""
    needed = NEEDS.get(method)
    return needed if needed is not None and needed not in capabilities else None
