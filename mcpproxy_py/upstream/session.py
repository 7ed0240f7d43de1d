"""A connection that has shaken hands: requests in the way its era wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from mcpproxy_py.core.headers import TRACE_CONTEXT
from mcpproxy_py.core.mirrors import Mirror, declared
from mcpproxy_py.core.revisions import METHOD_NOT_FOUND
from mcpproxy_py.core.talk import Talk
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.connection import Connection
from mcpproxy_py.upstream.failure import UpstreamFailure
from mcpproxy_py.upstream.handshake import Handshake
from mcpproxy_py.upstream.listing import Listed, read_all
from mcpproxy_py.upstream.pending import Hear

Mirrored = dict[str, tuple[Mirror, ...]]
"""The arguments of each tool that its calls repeat as headers."""


class Session:
    def __init__(self, name: str, connection: Connection, handshake: Handshake, mirrored: Mirrored) -> None:
        """`mirrored`, which tools want arguments repeated as headers, is one for all sessions with a server."""
        self.connection = connection
        self.handshake = handshake
        self._name = name
        self._mirrored = mirrored

    @property
    def closed(self) -> asyncio.Event:
        return self.connection.closed

    @property
    def modern(self) -> bool:
        return self.handshake.stamp.era == "modern"

    def learn(self, listed: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Note which tools want arguments repeated as headers. Gives the tools that can be called, and of those that a
        client has to leave out, because they want it wrongly, what is wrong."""
        if not self.modern:
            return listed, {}
        self._mirrored.clear()
        kept: list[dict[str, Any]] = []
        wrong: dict[str, str] = {}
        for tool in listed:
            name, wanted = tool.get("name"), declared(tool.get("inputSchema"))
            if isinstance(wanted, str) and self.connection.wants_headers:
                wrong[str(name)] = wanted
                continue
            kept.append(tool)
            if wanted and isinstance(wanted, tuple) and isinstance(name, str):
                self._mirrored[name] = wanted
        return kept, wrong

    def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None, talk: Talk | None = None,
        meta: Mapping[str, Any] | None = None, hear: Hear | None = None,
    ) -> Coroutine[Any, Any, dict[str, Any]]:  # fmt: skip
        """The raw result. Raises `UpstreamFailure`, also before it is awaited."""
        if meta is not None:
            params = {**params, "_meta": meta}
        stamp = self.handshake.stamp
        try:
            stamped = stamp.params(params, talk.capabilities if talk is not None else None)
            headers = self._headers(method, params)
        except (ValueError, TypeError) as error:
            message = f"these parameters cannot be written: {error}"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, message, sent=False) from None
        return self.connection.request(method, stamped, timeout=timeout, talk=talk, hear=hear, headers=headers)

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        if not self.connection.wants_headers:
            return {}
        found = self.handshake.stamp.headers(method, params, self._mirrored.get(params.get("name", ""), ()))
        return {**found, **_trace_context(params)} if self.connection.traced else found

    async def tell(self, method: str) -> None:
        """A notification without parameters, which only the handshake era has. Raises `UpstreamFailure`."""
        if not self.modern:
            await self.connection.notify(method, headers=self.handshake.stamp.headers(method, {}))

    async def list_tools(self, timeout: float | None = None) -> Listed:
        try:
            return await self._read("tools/list", "tools", timeout)
        except UpstreamFailure as failure:
            # A server of prompts and resources only may not know the method, and need not.
            if failure.data.get("code") == METHOD_NOT_FOUND and "tools" not in self.handshake.capabilities:
                return Listed([], {})
            raise

    async def list_entries(self, method: str, kind: str, capability: str, timeout: float) -> list[dict[str, Any]]:
        """All pages; nothing from a server that has no such thing."""
        if capability not in self.handshake.capabilities:
            return []
        try:
            return (await self._read(method, kind, timeout)).entries
        except UpstreamFailure as failure:
            if failure.data.get("code") == METHOD_NOT_FOUND:  # resources, say, but no templates of them
                return []
            raise

    async def _read(self, method: str, kind: str, timeout: float | None) -> Listed:
        async def page(params: Mapping[str, Any]) -> Mapping[str, Any]:
            return await self.request(method, params, timeout=timeout)

        return await read_all(self._name, method, kind, page)


def _trace_context(params: Mapping[str, Any]) -> dict[str, str]:
    meta = params.get("_meta") or {}
    return {key: meta[key] for key in TRACE_CONTEXT if key in meta}
