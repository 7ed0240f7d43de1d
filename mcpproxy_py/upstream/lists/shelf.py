"""The tools of one server: its last listing, made into tools, and kept for the time when the server is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

import anyio
import anyio.to_thread

from mcpproxy_py.core.search.index import Segment, segment
from mcpproxy_py.core.values import Tool
from mcpproxy_py.upstream.lists.tools import build_tools
from mcpproxy_py.upstream.spec import UpstreamSpec

logger = logging.getLogger(__name__)

KNOWN_TIMEOUT: Final = 5.0
Listing = list[dict[str, Any]]


class KnownListings(Protocol):
    """Where the last listing of each server outlives the gateway."""

    async def load(self, server: str) -> Listing | None: ...

    async def save(self, server: str, tools: Listing) -> None: ...


class Shelf:
    def __init__(self, known: KnownListings | None) -> None:
        self.listed: Listing = []
        self.tools: dict[str, Tool] = {}
        self._known = known
        self._saved: Listing | None = None
        self._filling = anyio.Lock()

    @property
    def has_memory(self) -> bool:
        return self._known is not None

    async def fill(self, spec: Callable[[], UpstreamSpec], listed: Listing | None = None) -> Segment:
        """Make tools of this listing, or of the last one, beside the event loop. `spec` is asked late, and so is which
        one is the last: a change of either may come in between."""
        async with self._filling:
            listed = self.listed if listed is None else listed
            tools, part = await anyio.to_thread.run_sync(_build, spec(), listed)
            self.listed, self.tools = listed, tools
            return part

    async def remembered(self, server: str) -> Listing | None:
        """A store that fails or hangs costs the tools of a sleeping server, and nothing else."""
        if self._known is None:
            return None
        try:
            with anyio.fail_after(KNOWN_TIMEOUT):
                loaded = await self._known.load(server)
        except Exception as error:
            logger.warning("%s: its last listing could not be read: %s", server, error)
            return None
        self._saved = [tool for tool in loaded if isinstance(tool, dict)] if isinstance(loaded, list) else None
        return self._saved

    async def remember(self, server: str) -> None:
        listed = self.listed
        if self._known is None or self._saved == listed:
            return
        try:
            with anyio.fail_after(KNOWN_TIMEOUT):
                await self._known.save(server, listed)
            self._saved = listed
        except Exception as error:
            logger.warning("%s: its listing could not be kept: %s", server, error)


def _build(spec: UpstreamSpec, listed: Listing) -> tuple[dict[str, Tool], Segment]:
    tools = build_tools(spec, listed)
    return tools, segment(tools.values())
