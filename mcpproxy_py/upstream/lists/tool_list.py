"""The tools of one server: from its listing to the snapshot, and again whenever it says that they changed.

The tools of one server: its last listing, made into tools, and kept for the time when the server is away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol

import anyio
import anyio.to_thread

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.json_values import same
from mcpproxy_py.core.pins.parts import about_server, shown_about
from mcpproxy_py.core.policy.tool_class import next_step_for, said_of_unannotated
from mcpproxy_py.core.protocol.own_meta import remove_own
from mcpproxy_py.core.search.index import IndexSegment, segment
from mcpproxy_py.core.values import Tool
from mcpproxy_py.errors import UpstreamFailure
from mcpproxy_py.upstream.lists.build_tools import build_tools
from mcpproxy_py.upstream.lists.in_force import (
    Listing,
    ListingInForce,
    ListingJudge,
    SaidListing,
    is_judged,
)
from mcpproxy_py.upstream.lists.name_rules import MAX_TOLD, NameReport, report_of
from mcpproxy_py.upstream.lists.notifications import ServerNotifications
from mcpproxy_py.upstream.session.session import MAX_ENTRY_BYTES, ListPages, Negotiated, UpstreamSession
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.turns import LASTING, drop_all, uncollected

logger = logging.getLogger(__name__)

KNOWN_TIMEOUT: Final = 5.0
FEW: Final = 1000
"""Pieces of a listing that are let go at once."""


class ListingStore(Protocol):
    """Where the last listing of each server outlives the gateway."""

    async def load(self, server: str) -> Listing | None: ...

    async def save(self, server: str, tools: Listing) -> None: ...


class ToolCache:
    def __init__(self, known: ListingStore | None, judge: ListingJudge | None) -> None:
        self.said = SaidListing([])
        self.in_force = ListingInForce({})
        self.tools: dict[str, Tool] = {}
        self.names = NameReport()
        self._known = known
        self._judge = judge
        self._saved: Listing | None = None
        self._pieces: list[object] = []
        """What `tools` is made of."""
        self._filling = anyio.Lock()

    @property
    def has_memory(self) -> bool:
        return self._known is not None

    async def fill(
        self, spec: Callable[[], UpstreamSpec], said: SaidListing | None = None
    ) -> tuple[IndexSegment, list[object]]:
        """Make tools of this listing, or of the last one, beside the event loop. `spec` is asked late, and so is which
        one is the last: a change of either may come in between. Given beside them is what the tools before them were
        made of, for `let_go` once nobody is shown those any more."""
        async with self._filling:
            said = self.said if said is None else said
            now, in_force = spec(), ListingInForce({}, instructions=said.instructions, about=said.about or {})
            if self._judge is not None and is_judged(now):
                in_force = await self._judge.judged(now, said)
                build = partial(_build, now, said.tools, in_force, self.tools)
            else:
                build = partial(_build, now, said.tools, None, self.tools)
            tools, part, names, pieces = await anyio.to_thread.run_sync(uncollected, build)
            before, self._pieces = self._pieces, pieces
            self.said, self.in_force, self.tools = said, in_force, tools
            # What was kept from the last time may be missing what an entry means.
            self.names = names if said.heard else NameReport(unannotated=names.unannotated)
            return part, before

    async def remembered(self, server: str) -> Listing | None:
        """A store that fails or hangs costs the tools of a sleeping server, and nothing else."""
        if self._known is None:
            return None
        try:
            with anyio.fail_after(KNOWN_TIMEOUT):
                loaded = await self._known.load(server)
        except Exception as error:
            logger.warning("%s: its cached tool list could not be read: %s", server, error)
            return None
        self._saved = await anyio.to_thread.run_sync(_without_own, loaded)
        return self._saved

    async def remember(self, server: str) -> None:
        listed = self.said.tools
        if self._known is None or await anyio.to_thread.run_sync(same, self._saved, listed):
            return
        try:
            with anyio.fail_after(KNOWN_TIMEOUT):
                await self._known.save(server, listed)
            self._saved = listed
        except Exception as error:
            logger.warning("%s: its tool list could not be cached: %s", server, error)


async def let_go(pieces: list[object]) -> None:
    """One by one in a thread: ten thousand tools in one go hold everybody up for 60 ms (`tests.bench.listings`)."""
    if len(pieces) > FEW:
        await anyio.to_thread.run_sync(drop_all, pieces)


def _build(
    spec: UpstreamSpec, listed: Listing, in_force: ListingInForce | None, before: Mapping[str, Tool]
) -> tuple[dict[str, Tool], IndexSegment, NameReport, list[object]]:
    tools = build_tools(spec, listed, in_force, before)
    part = segment(tools.values())
    wires = listed if in_force is None else [*listed, *in_force.tools.values()]
    found = tools, part, report_of(spec, listed, tools), [*wires, *tools.values(), *part.impacts.values()]
    LASTING.made(len(tools))
    return found


def _without_own(loaded: object) -> Listing | None:
    saved = [tool for tool in loaded if isinstance(tool, dict)] if isinstance(loaded, list) else None
    remove_own(saved)
    return saved


def _differs(said: SaidListing, in_force: ListingInForce) -> bool:
    return any(not same(wire, in_force.tools.get(str(wire.get("name")))) for wire in said.tools)


COALESCE: Final = 0.1
"""Servers tell of ten changed tools with ten notifications."""
REST: Final = 9.0
"""A server that never stops changing may keep us busy for a tenth of the time at most."""
LIST_TIMEOUT: Final = 60.0


class ToolList:
    """`spec` gives the configuration as it is now, `show` publishes; with a segment where the tools are new.
    `unannotated` is what tools without hints count as."""

    def __init__(
        self,
        spec: Callable[[], UpstreamSpec],
        known: ListingStore | None,
        notifications: ServerNotifications,
        show: Callable[[IndexSegment | None], None],
        unannotated: Callable[[], str],
        judge: ListingJudge | None = None,
    ) -> None:
        self.extras: Mapping[str, Any] = {}
        """What is in force of what the server says in its list beside the tools."""
        self.left_out: Mapping[str, str] = {}
        """Tools that no client may call as they are declared, and why."""
        self._spec = spec
        self._cache = ToolCache(known, judge)
        self._session: UpstreamSession | None = None
        self._greeting: Negotiated | None = None
        """What the server said in its handshake, before anything of it was replaced by what is approved."""
        self._extras: Mapping[str, Any] = {}
        self._notifications = notifications
        self._show = show
        self._unannotated = unannotated

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._cache.tools

    @property
    def names(self) -> NameReport:
        """What a person has to know of the names in it."""
        return self._cache.names

    @property
    def review(self) -> Mapping[str, Any]:
        """What people are shown of what waits for them."""
        return self._cache.in_force.review

    async def load_known(self) -> bool:
        """From the last time. False: it was never listed, so nobody can find what it has. Of what has no pin nothing
        is believed that a database says: it is listed anew at each start."""
        if not is_judged(self._spec()):
            return True
        known = await self._cache.remembered(self._name)
        if known:
            await self.derive(SaidListing(known))
        return bool(known) or not self._cache.has_memory

    async def read(self, session: UpstreamSession) -> None:
        """The first listing of a session. Raises `UpstreamFailure`."""
        self._notifications.read_tools()
        self._session, self._greeting = session, session.handshake
        if await self._adopt(session, await session.list_tools()):
            self._notifications.tools_changed()

    async def follow(self, session: UpstreamSession) -> None:
        await self._remember()
        not_before = 0.0
        while True:
            await self._notifications.tools_may_have_changed()
            await anyio.sleep(max(COALESCE, not_before - anyio.current_time()))
            begun = anyio.current_time()
            await self._read_again(session)
            not_before = anyio.current_time() + REST * (anyio.current_time() - begun)

    async def _remember(self) -> None:
        if is_judged(self._spec()):
            await self._cache.remember(self._name)

    async def _read_again(self, session: UpstreamSession) -> None:
        said = self._notifications.read_tools()
        try:
            listed = await session.list_tools(LIST_TIMEOUT)
        except UpstreamFailure as failure:
            logger.warning("%s: its tools could not be listed again: %s", self._name, failure.message)
            return
        if await self._adopt(session, listed) or said:
            # Also where we see no change: the server said there is one, and may mean more.
            self._notifications.tools_changed()
            await self._remember()

    async def _adopt(self, session: UpstreamSession, listed: ListPages) -> bool:
        """Whether the list is another one than before."""
        usable, left_out = await session.learn(listed.entries)
        self._tell_of(left_out)
        if listed.cut:
            self.left_out = {**self.left_out, f"(everything after the first {len(listed.entries)})": listed.cut}
        self._extras, greeting = listed.extras, self._greeting or session.handshake
        about = about_server(greeting.server_info, greeting.capabilities, listed.extras)
        if len(jsonrpc.write(about)) > MAX_ENTRY_BYTES:
            about = {}
        before, said = self._cache.said, SaidListing(usable, greeting.instructions, heard=True, about=about)
        another = not await anyio.to_thread.run_sync(same, usable, before.tools)
        if another or not same(list(said[1:]), list(before[1:])):
            await self.derive(said)
        else:
            await self._take_on()
            self._show(None)
        return another

    async def _take_on(self) -> None:
        """What the session itself knows of the listing is of what is in force: headers, instructions and the rest of
        what the server says about itself."""
        session, greeting, in_force = self._session, self._greeting, self._cache.in_force
        if session is None or greeting is None:
            return
        info, capabilities, self.extras = shown_about(
            in_force.about, self._name, greeting.server_info, greeting.capabilities, self._extras
        )
        session.handshake = replace(
            greeting, server_info=info, capabilities=capabilities, instructions=in_force.instructions
        )
        if session.modern and in_force.tools and await anyio.to_thread.run_sync(_differs, self._cache.said, in_force):
            await session.learn([dict(wire) for wire in in_force.tools.values()])

    def _tell_of(self, left_out: Mapping[str, str]) -> None:
        """In one line, and once: a server must not be able to fill the log with its list."""
        told = dict(islice(left_out.items(), MAX_TOLD))
        if told and not told.items() <= self.left_out.items():
            named = "; ".join(f"{name[:80]!r}: {why}" for name, why in told.items())
            logger.warning("%s: %d tools are left out: %s", self._name, len(left_out), named)
        self.left_out = told

    async def derive(self, said: SaidListing | None = None) -> None:
        """Make tools of this listing, or of the last one under the configuration as it is now."""
        before = self.names
        part, replaced = await self._cache.fill(self._spec, said)
        await self._take_on()
        self._show(part)
        await let_go(replaced)
        left_out, unmatched, unannotated = self.names
        if left_out and left_out != before.left_out:
            named = "; ".join(f"'{name}': {why}" for name, why in left_out.items())
            logger.warning("%s: tools that nobody can call for their names: %s", self._name, named)
        if unmatched and unmatched != before.unmatched:
            named = ", ".join(unmatched[:MAX_TOLD])
            logger.warning("%s: %d entries of its configuration mean none of its tools: %s",
                           self._name, len(unmatched), named)  # fmt: skip
        if unannotated and unannotated != before.unannotated:
            sentence = said_of_unannotated(len(unannotated), self._unannotated())
            logger.warning("%s: %s; see `%s`", self._name, sentence, next_step_for(self._name))

    @property
    def _name(self) -> str:
        return self._spec().name
