"""A connection that has shaken hands: requests in the way its era wants them.

What a request must carry so that its server knows the protocol revision: `_meta` and HTTP headers.

Each era has its own way. The handshake era agrees once and only repeats the version in a header; the
modern one has no session, so every request says everything again.

Reading what a server lists, page by page, as raw objects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import anyio.to_thread

from mcpproxy_py import __version__, jsonrpc
from mcpproxy_py.core.json_size import SMALL
from mcpproxy_py.core.protocol import constants
from mcpproxy_py.core.protocol import headers as names
from mcpproxy_py.core.protocol.client_channel import ClientChannel
from mcpproxy_py.core.protocol.constants import (
    METHOD_NOT_FOUND,
)
from mcpproxy_py.core.protocol.extensions import EXTENSIONS, PAGE, UI
from mcpproxy_py.core.protocol.headers import TRACE_PARENT, ParamHeader, declared, param_headers
from mcpproxy_py.core.values import NOTHING
from mcpproxy_py.errors import Code, UpstreamFailure, bad_answer
from mcpproxy_py.upstream.permit import OwnPermit, Permit, Permitted
from mcpproxy_py.upstream.session.connection import Headers, Hear, RpcConnection

Era = Literal["handshake", "modern"]

CLIENT_INFO: Final[Mapping[str, Any]] = {"name": "mcpproxy", "version": __version__}
_CLIENT_INFO: Final = dict(CLIENT_INFO)
CAPABILITIES: Final[Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"context": {}, "tools": {}},
    "roots": {"listChanged": True},
}
"""For a session that many clients share: all that any of them may be able to do. Who cannot says so when asked."""
SHOWS_PAGES: Final[Mapping[str, Any]] = {EXTENSIONS: {UI: {"mimeTypes": [PAGE]}}}
"""What some servers list the tools of their apps for."""


@dataclass(frozen=True, slots=True)
class VersionStamp:
    era: Era
    version: str

    def __call__(
        self, message: Permitted, channel: ClientChannel | None
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """A message of the gateway's own, which can do nothing but wait, with its headers."""
        return self.params(message.params), self.headers(message.method, message.params)

    def params(
        self, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """`meta` and `capabilities` are those of the client it is for, as far as they go along."""
        if self.era == "handshake":
            return {**params, "_meta": dict(meta)} if meta else params
        said = {
            **(meta or {}),
            constants.PROTOCOL_VERSION: self.version,
            constants.CLIENT_INFO: _CLIENT_INFO,
            constants.CLIENT_CAPABILITIES: {} if capabilities is None else capabilities,
        }
        return {**params, "_meta": said}

    def headers(self, method: str, params: Mapping[str, Any], mirrored: tuple[ParamHeader, ...] = ()) -> dict[str, str]:
        """`mirrored`: which arguments this tool wants repeated as headers."""
        headers = {names.PROTOCOL_VERSION: self.version}
        if self.era == "handshake":
            return headers
        headers[names.METHOD] = method
        name = params.get(names.NAMED_BY.get(method, ""))
        if isinstance(name, str):
            headers[names.NAME] = names.encode_header_value(name)
        if mirrored:
            headers.update(param_headers(mirrored, params.get("arguments") or {}))
        return headers


logger = logging.getLogger(__name__)

MAX_PAGES: Final = 1000
MAX_ENTRIES: Final = 20_000
MAX_LISTING_BYTES: Final = 16 << 20
"""Of a whole list, as JSON. A list is kept in memory for as long as the gateway runs, at several times its size."""
MAX_ENTRY_BYTES: Final = 256 * 1024
"""Of one entry. What it is made into, schema and index, is made in one piece."""
SHOWN: Final = 256
"""Characters of a tool's name."""
Page = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class ListPages(NamedTuple):
    entries: list[dict[str, Any]]
    extras: dict[str, Any]
    """What else the first page said: `_meta`, `ttlMs` and the like."""
    cut: str = ""
    """Why there is more in the list than here; nothing where there is not."""


async def read_all(server: str, method: str, kind: str, page: Page) -> ListPages:
    """Every entry under the key `kind`, following `nextCursor`. Of a list without measure, which gets a warning, what
    was read so far.

    Raises what `page` raises, and `UpstreamFailure` when the answer holds no list.
    """
    first = result = await page({})
    extras = {key: value for key, value in first.items() if key not in (kind, "nextCursor")}
    if len(jsonrpc.write(extras)) > MAX_ENTRY_BYTES:
        extras = {}
    entries: list[dict[str, Any]] = []
    size, seen = 0, set[str]()
    while True:
        size, cut = await _add_page(entries, _entries_of(result, method, kind), size)
        cursor = result.get("nextCursor")
        if cut or not isinstance(cursor, str):
            break
        if cursor in seen or len(seen) + 1 >= MAX_PAGES:
            cut = f"its pages do not end after {len(seen) + 1}"
            break
        seen.add(cursor)
        result = await page({"cursor": cursor})
    if cut:
        logger.warning("%s: its answer to %s is too long; using the first %d: %s", server, method, len(entries), cut)
    return ListPages(entries, extras, cut)


async def _add_page(entries: list[dict[str, Any]], page: list[dict[str, Any]], size: int) -> tuple[int, str]:
    """What the list has come to in bytes, and why not all of this page was added."""
    rested = size
    for entry in page:
        if size - rested > SMALL:
            rested = size
            await asyncio.sleep(0)
        size += len(jsonrpc.write(entry))
        if len(entries) >= MAX_ENTRIES:
            return size, f"it has more than {MAX_ENTRIES} entries"
        if size > MAX_LISTING_BYTES:
            return size, f"it is longer than {MAX_LISTING_BYTES} bytes"
        entries.append(entry)
    return size, ""


def _entries_of(result: Mapping[str, Any], method: str, kind: str) -> list[dict[str, Any]]:
    entries = result.get(kind)
    if not isinstance(entries, list):
        raise bad_answer(f"it answered {method} without a list of {kind}")
    return [entry if isinstance(entry, dict) else {} for entry in entries]


Mirrored = dict[str, tuple[ParamHeader, ...]]
"""The arguments of each tool that its calls repeat as headers."""


class UpstreamSession:
    def __init__(self, name: str, connection: RpcConnection, handshake: Negotiated, mirrored: Mirrored) -> None:
        """`mirrored`, which tools want arguments repeated as headers, is one for all sessions with a server."""
        self.connection = connection
        self.handshake = handshake
        self.own_capabilities: Mapping[str, Any] | None = None
        """What the gateway declares in what it asks itself, its lists above all."""
        self.task_tools: set[str] | None = None
        """Tools that can run as a task; None until that was looked up (`LegacySessions`)."""
        self._name = name
        self._mirrored = mirrored

    @property
    def closed(self) -> asyncio.Event:
        return self.connection.closed

    @property
    def modern(self) -> bool:
        return self.handshake.stamp.era == "modern"

    async def learn(self, listed: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Note which tools want arguments repeated as headers. Gives the tools that can be called, and of those that
        have to be left out what is wrong with them: they are too large, or want such headers wrongly."""
        kept, wrong, mirrored = await anyio.to_thread.run_sync(self._sorted, listed)
        self._mirrored.clear()
        self._mirrored.update(mirrored)
        self.task_tools = None
        return kept, wrong

    def _sorted(self, listed: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str], Mirrored]:
        kept: list[dict[str, Any]] = []
        wrong: dict[str, str] = {}
        mirrored: Mirrored = {}
        for tool in listed:
            name = tool.get("name")
            if len(jsonrpc.write(tool)) > MAX_ENTRY_BYTES:
                wrong[str(name)[:SHOWN]] = f"its definition is larger than {MAX_ENTRY_BYTES} bytes"
                continue
            wanted = declared(tool.get("inputSchema")) if self.modern else ()
            if isinstance(wanted, str) and self.connection.wants_headers:
                wrong[str(name)[:SHOWN]] = f"{wanted}, so the protocol requires it"
                continue
            kept.append(tool)
            if wanted and isinstance(wanted, tuple) and isinstance(name, str):
                mirrored[name] = wanted
        return kept, wrong, mirrored

    def request(
        self, permit: Permit, *, timeout: float | None, hear: Hear | None = None
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """The raw result. Raises `UpstreamFailure` and `NotPermitted`."""
        return self.connection.request(permit, timeout=timeout, stamp=self.stamp, hear=hear)

    def stamp(self, message: Permitted, channel: ClientChannel | None) -> tuple[Mapping[str, Any], Headers]:
        """The message as this server wants it. Raises `UpstreamFailure` for what cannot be written."""
        method, params, meta = message
        stamp, connection = self.handshake.stamp, self.connection
        stamped = stamp.params(params, meta, channel.capabilities if channel is not None else self.own_capabilities)
        if not connection.wants_headers:
            return stamped, NOTHING
        try:
            headers = stamp.headers(method, params, self._mirrored.get(params.get("name", ""), ()))
        except (ValueError, TypeError) as error:
            complaint = f"these parameters cannot be written: {error}"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, complaint, sent=False) from None
        if connection.traced and meta and TRACE_PARENT in meta:
            headers[TRACE_PARENT] = meta[TRACE_PARENT]
        return stamped, headers

    async def send_notification(self, method: str) -> None:
        """A notification without parameters, which only the handshake era has. Raises `UpstreamFailure`."""
        if not self.modern:
            await self.connection.notify(OwnPermit(method), self.handshake.stamp)

    async def list_tools(self, timeout: float | None = None) -> ListPages:
        try:
            return await self._read("tools/list", "tools", timeout)
        except UpstreamFailure as failure:
            # A server of prompts and resources only may not know the method, and need not.
            if failure.data.get("code") == METHOD_NOT_FOUND and "tools" not in self.handshake.capabilities:
                return ListPages([], {})
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

    async def _read(self, method: str, kind: str, timeout: float | None) -> ListPages:
        async def page(params: Mapping[str, Any]) -> Mapping[str, Any]:
            return await self.request(OwnPermit(method, params), timeout=timeout)

        return await read_all(self._name, method, kind, page)


@dataclass(frozen=True, slots=True)
class Negotiated:
    """Who answered, and how to talk to it. Everything is as it came."""

    stamp: VersionStamp
    server_info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: str | None = None
    probe_unanswered: bool = False

    @property
    def protocol_version(self) -> str:
        return self.stamp.version
