"""A connection that has shaken hands: requests in the way its era wants them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import anyio

from mcpproxy_py.core.talk import Talk
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.connection import Connection
from mcpproxy_py.upstream.failure import UpstreamFailure
from mcpproxy_py.upstream.handshake import Handshake
from mcpproxy_py.upstream.listing import list_tools
from mcpproxy_py.upstream.messages import METHOD_NOT_FOUND
from mcpproxy_py.upstream.pending import Hear
from mcpproxy_py.upstream.stamp import HeaderMap, Stamp, mirrored_arguments

logger = logging.getLogger(__name__)

LISTEN_FOR: Final[Mapping[str, Any]] = {
    "notifications": {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
}
MAX_LISTEN_PAUSE: Final = 60.0


class Session:
    def __init__(self, name: str, connection: Connection, handshake: Handshake) -> None:
        self.connection = connection
        self.handshake = handshake
        self._name = name
        self._mirrored: dict[str, HeaderMap] = {}

    @property
    def closed(self) -> asyncio.Event:
        return self.connection.closed

    @property
    def modern(self) -> bool:
        return self.handshake.stamp.era == "modern"

    def learn(self, listed: Iterable[Mapping[str, Any]]) -> None:
        """Note which tools want arguments repeated as headers."""
        if self.modern:
            found = ((tool.get("name"), mirrored_arguments(tool.get("inputSchema"))) for tool in listed)
            self._mirrored = {name: mirrored for name, mirrored in found if isinstance(name, str) and mirrored}

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None, talk: Talk | None = None,
        meta: Mapping[str, Any] | None = None, hear: Hear | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The raw result. Raises `UpstreamFailure`."""
        if meta is not None:
            params = {**params, "_meta": meta}
        stamp = self.handshake.stamp
        try:
            stamped = stamp.params(params, talk.capabilities if talk is not None else None)
            headers = self._headers(stamp, method, params)
        except (ValueError, TypeError) as error:
            message = f"these parameters cannot be written: {error}"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, message, sent=False) from None
        return await self.connection.request(method, stamped, timeout=timeout, talk=talk, hear=hear, headers=headers)

    def _headers(self, stamp: Stamp, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        if not self.connection.wants_headers:
            return {}
        return stamp.headers(method, params, self._mirrored.get(params.get("name", "")))

    async def list_tools(self, timeout: float | None = None) -> list[dict[str, Any]]:
        async def page(params: Mapping[str, Any]) -> Mapping[str, Any]:
            return await self.request("tools/list", params, timeout=timeout)

        try:
            return await list_tools(self._name, page)
        except UpstreamFailure as failure:
            # A server of prompts and resources only may not know the method, and need not.
            if failure.data.get("code") == METHOD_NOT_FOUND and "tools" not in self.handshake.capabilities:
                return []
            raise

    async def listen(self, stale: asyncio.Event) -> None:
        """Keep the modern era's stream of changes open. What changed while it was not, nobody told: list again."""
        pause = 1.0
        while True:
            begun = anyio.current_time()
            try:
                await self.request("subscriptions/listen", LISTEN_FOR, timeout=None)
            except UpstreamFailure as failure:
                if failure.code is Code.UPSTREAM_ERROR and failure.data:
                    logger.debug("%s does not tell of changes: %s", self._name, failure.message)
                    return
            pause = 1.0 if anyio.current_time() - begun > MAX_LISTEN_PAUSE else min(pause * 2, MAX_LISTEN_PAUSE)
            await anyio.sleep(pause)
            stale.set()
