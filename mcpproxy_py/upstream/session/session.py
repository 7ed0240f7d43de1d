"""A connection that has shaken hands: requests in the way its era wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.core.protocol._core_headers import TRACE_CONTEXT
from mcpproxy_py.core.protocol.client_channel import Talk
from mcpproxy_py.core.protocol.constants import METHOD_NOT_FOUND
from mcpproxy_py.core.protocol.headers import Mirror, declared
from mcpproxy_py.core.values import NOTHING
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.permit import OwnPermit, Permit, Permitted
from mcpproxy_py.upstream.session.listing import Listed, read_all
from mcpproxy_py.upstream.session.negotiate import Handshake
from mcpproxy_py.upstream.session.rpc import Headers, Hear, RpcConnection

Mirrored = dict[str, tuple[Mirror, ...]]
"""The arguments of each tool that its calls repeat as headers."""


class Session:
    def __init__(self, name: str, connection: RpcConnection, handshake: Handshake, mirrored: Mirrored) -> None:
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
        self, permit: Permit, *, timeout: float | None, hear: Hear | None = None
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """The raw result. Raises `UpstreamFailure` and `NotPermitted`."""
        return self.connection.request(permit, timeout=timeout, stamp=self.stamp, hear=hear)

    def stamp(self, message: Permitted, talk: Talk | None) -> tuple[Mapping[str, Any], Headers]:
        """The message as this server wants it. Raises `UpstreamFailure` for what cannot be written."""
        method, params, meta = message
        stamp, connection = self.handshake.stamp, self.connection
        stamped = stamp.params(params, meta, talk.capabilities if talk is not None else None)
        if not connection.wants_headers:
            return stamped, NOTHING
        try:
            headers = stamp.headers(method, params, self._mirrored.get(params.get("name", ""), ()))
        except (ValueError, TypeError) as error:
            complaint = f"these parameters cannot be written: {error}"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, complaint, sent=False) from None
        return stamped, {**headers, **_trace_context(meta)} if connection.traced else headers

    async def tell(self, method: str) -> None:
        """A notification without parameters, which only the handshake era has. Raises `UpstreamFailure`."""
        if not self.modern:
            await self.connection.notify(OwnPermit(method), self.handshake.stamp)

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
            return await self.request(OwnPermit(method, params), timeout=timeout)

        return await read_all(self._name, method, kind, page)


def _trace_context(meta: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: meta[key] for key in TRACE_CONTEXT if key in meta} if meta else {}
