"""The tools of one server: from its listing to the snapshot, and again whenever it says that they changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

import anyio

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.core.search.index import Segment
from mcpproxy_py.core.values import Tool
from mcpproxy_py.upstream.lists.notifications import News
from mcpproxy_py.upstream.lists.shelf import KnownListings, Listing, Shelf
from mcpproxy_py.upstream.session.listing import Listed
from mcpproxy_py.upstream.session.session import Session
from mcpproxy_py.upstream.spec import UpstreamSpec

logger = logging.getLogger(__name__)

COALESCE: Final = 0.1
"""Servers tell of ten changed tools with ten notifications."""
REST: Final = 9.0
"""A server that never stops changing may keep us busy for a tenth of the time at most."""
LIST_TIMEOUT: Final = 60.0
MAX_TOLD: Final = 20


class Toolset:
    """`spec` gives the configuration as it is now, `show` publishes; with a segment where the tools are new."""

    def __init__(
        self,
        spec: Callable[[], UpstreamSpec],
        known: KnownListings | None,
        news: News,
        show: Callable[[Segment | None], None],
    ) -> None:
        self.extras: Mapping[str, Any] = {}
        """What the server said in its list beside the tools."""
        self.left_out: Mapping[str, str] = {}
        """Tools that no client may call as they are declared, and why."""
        self._spec = spec
        self._shelf = Shelf(known)
        self._news = news
        self._show = show

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._shelf.tools

    async def load_known(self) -> bool:
        """From the last time. False: it was never listed, so nobody can find what it has."""
        known = await self._shelf.remembered(self._name)
        if known:
            await self.derive(known)
        return bool(known) or not self._shelf.has_memory

    async def read(self, session: Session) -> None:
        """The first listing of a session. Raises `UpstreamFailure`."""
        self._news.read_tools()
        if await self._adopt(session, await session.list_tools()):
            self._news.tools_changed()

    async def follow(self, session: Session) -> None:
        await self._shelf.remember(self._name)
        not_before = 0.0
        while True:
            await self._news.tools_may_have_changed()
            await anyio.sleep(max(COALESCE, not_before - anyio.current_time()))
            begun = anyio.current_time()
            await self._read_again(session)
            not_before = anyio.current_time() + REST * (anyio.current_time() - begun)

    async def _read_again(self, session: Session) -> None:
        said = self._news.read_tools()
        try:
            listed = await session.list_tools(LIST_TIMEOUT)
        except UpstreamFailure as failure:
            logger.warning("%s: its tools could not be listed again: %s", self._name, failure.message)
            return
        if await self._adopt(session, listed) or said:
            self._news.tools_changed()  # also where we see no change: the server said there is one, and may mean more
            await self._shelf.remember(self._name)

    async def _adopt(self, session: Session, listed: Listed) -> bool:
        """Whether the list is another one than before."""
        usable, left_out = session.learn(listed.entries)
        self._tell_of(left_out)
        self.extras = listed.extras
        if usable == self._shelf.listed:
            self._show(None)
            return False
        await self.derive(usable)
        return True

    def _tell_of(self, left_out: Mapping[str, str]) -> None:
        """In one line, and once: a server must not be able to fill the log with its list."""
        told = dict(islice(left_out.items(), MAX_TOLD))
        if told and told != self.left_out:
            named = "; ".join(f"{name[:80]!r}: {why}" for name, why in told.items())
            logger.warning("%s: %d tools are left out, as the protocol wants: %s", self._name, len(left_out), named)
        self.left_out = told

    async def derive(self, listed: Listing | None = None) -> None:
        """Make tools of this listing, or of the last one under the configuration as it is now."""
        self._show(await self._shelf.fill(self._spec, listed))

    @property
    def _name(self) -> str:
        return self._spec().name
