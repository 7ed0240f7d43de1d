"""What the rest of this room knows of logins: how a request shows whose it is, and who waits for a person.

Imported with every start, so nothing here loads what only a login needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpproxy_py.core.values import NOTHING
from mcpproxy_py.errors import Code, UpstreamFailure

if TYPE_CHECKING:
    from mcpproxy_py.upstream.spec import UpstreamSpec


class LoginRequired(UpstreamFailure):
    """The server wants a person to log in first. `sent` where that was its answer to a request."""

    def __init__(self, server: str, why: str) -> None:
        message = f"{why}; `mcpproxy upstream login {server}`"
        super().__init__(Code.SERVER_UNAVAILABLE, message, data={"status": 401, "login": server}, sent=False)


class MoreScopeRequired(LoginRequired):
    """The server wants a permission that its login did not give. What that gave goes on."""

    def __init__(self, server: str, scope: str) -> None:
        why = f"it wants one more permission ({scope}), for which a person has to log in again"
        super().__init__(server, why)
        self.server = server
        self.scope = scope


class ServerAuth(Protocol):
    """For one server. What each request looks at is an attribute."""

    headers: Mapping[str, str]
    """To be put on every request to the server, and on no other, at the moment it is written."""
    until: float
    """When, in seconds since 1970, `prepare` is to be awaited before the next request; `inf` for never."""
    version: int
    """Changes with `headers`."""

    async def prepare(self) -> None:
        """Until there is something to send, where there can be. Raises `UpstreamFailure`."""
        ...

    async def challenged(self, status: int, header: str, version: int, again: bool) -> bool:
        """The server turned a request away that was sent with `version`. Whether the same request may be sent once
        more; `again` if it was already. Raises `UpstreamFailure`."""
        ...

    async def needed(self) -> str:
        """Until a person is needed to go on: what to tell."""
        ...

    async def given(self) -> None:
        """Until there is a token that there was not."""
        ...


class NoAuth:
    """For a server to which nobody logs in, or whose headers are configured."""

    headers: Mapping[str, str] = NOTHING
    until = inf
    version = 0

    async def prepare(self) -> None:
        return

    async def challenged(self, status: int, header: str, version: int, again: bool) -> bool:
        return False

    async def needed(self) -> str:
        return await asyncio.get_running_loop().create_future()

    async def given(self) -> None:
        await asyncio.get_running_loop().create_future()


NO_AUTH: Final = NoAuth()
AuthFor = Callable[["UpstreamSpec"], ServerAuth | None]


class LoginStore(Protocol):
    """What this needs of the store room. `data` is kept encrypted; `version` counts its changes. All raise
    `StoreUnavailable`."""

    async def load(self, upstream: str) -> tuple[Mapping[str, Any], int] | None:
        """The login that was saved last."""
        ...

    async def save(self, upstream: str, issuer: str, data: Mapping[str, Any]) -> int:
        """What somebody has just got; gives its version."""
        ...

    async def claim(self, upstream: str, issuer: str, version: int, seconds: float) -> bool:
        """Whether it is ours to change this version for so long, and nobody else's."""
        ...

    async def release(self, upstream: str, issuer: str) -> None:
        """Nothing was changed."""
        ...

    async def drop(self, upstream: str) -> None: ...
