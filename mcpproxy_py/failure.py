"""The one way the store fails."""

from __future__ import annotations

from mcpproxy_py.errors import Code, GatewayError


class StoreUnavailable(GatewayError):
    """The store cannot write, or cannot be opened. The message names the path and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.STORE_UNAVAILABLE, message)
