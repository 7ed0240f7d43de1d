"""Which resources of a server somebody wants to hear of, whatever happens to its sessions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.lists.subscriptions import Watch
from mcpproxy_py.upstream.permit import Permit

MAX_RESOURCES: Final = 10_000


class Subscriptions:
    """The server hears of the first subscriber of a resource and of the last that goes."""

    def __init__(self) -> None:
        self._subscribers: Counter[str] = Counter()
        self._changing = asyncio.Lock()

    @property
    def uris(self) -> Iterable[str]:
        return self._subscribers.keys()

    async def add(self, watch: Watch, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        """The server's own answer to the first. Raises `UpstreamFailure`."""
        async with self._changing:
            if len(self._subscribers) >= MAX_RESOURCES and uri not in self._subscribers:
                raise UpstreamFailure(Code.OVERLOADED, f"{MAX_RESOURCES} of its resources are watched", sent=False)
            answer = {} if uri in self._subscribers else await watch.add(permit, uri, timeout)
            self._subscribers[uri] += 1
            return answer

    async def remove(self, watch: Watch, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        """Whoever was never subscribed gets what the server says to that. Raises `UpstreamFailure`."""
        async with self._changing:
            if self._subscribers[uri] > 1:
                self._subscribers[uri] -= 1
                return {}
            del self._subscribers[uri]
            return await watch.remove(permit, uri, timeout)
