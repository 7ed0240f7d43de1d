"""What a server says of itself unasked, who has to look again because of it, and what it has been asked to tell."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.upstream.lists._upstream_subscriptions import Subscriptions
from mcpproxy_py.upstream.lists.catalog import Catalog
from mcpproxy_py.upstream.lists.ears import Ears
from mcpproxy_py.upstream.lists.subscriptions import Watch, watch
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.session.changes import Changes
from mcpproxy_py.upstream.session.rpc import CHANGES
from mcpproxy_py.upstream.session.session import Session
from mcpproxy_py.upstream.session.throttle import Flow

TOOLS_CHANGED: Final = "notifications/tools/list_changed"
LISTS: Final = frozenset((TOOLS_CHANGED, "notifications/prompts/list_changed", "notifications/resources/list_changed"))


class News:
    """One per server, for all its sessions and lives."""

    def __init__(self, server: str, ears: Ears) -> None:
        self._stale = asyncio.Event()
        self._said = False
        self._server = server
        self._ears = ears
        self._catalog = Catalog()
        self._subscriptions = Subscriptions()
        self._changes = Changes(self._tell)
        self._abroad = Changes(lambda method, _: ears.on_list_changed(server, method))
        self._rest = Flow(asyncio.get_running_loop(), self._tell)
        self._watch: Watch | None = None

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        if method in LISTS:
            self._abroad.put(method, {})
        self._take(method, params)

    def hear_elsewhere(self, method: str) -> None:
        """The server said so to another gateway. Ours may be another process of it, but who lists next may be answered
        by either, so our clients are told as well."""
        self._take(method, {})
        if method == TOOLS_CHANGED and self._watch is None:
            self.tools_changed()  # nobody reads them just now

    def _take(self, method: str, params: Mapping[str, Any]) -> None:
        if method == TOOLS_CHANGED:
            self._said = True
            self._stale.set()  # told when the snapshot has them
        elif method in CHANGES:
            self._catalog.forget(method.split("/")[1])
            self._changes.put(method, params)
        else:
            self._rest.put(method, params)

    async def tools_may_have_changed(self) -> None:
        await self._stale.wait()

    def read_tools(self) -> bool:
        """They are about to be read. Whether the server said that they changed; else we may just have missed it."""
        said, self._said = self._said, False
        self._stale.clear()
        return said

    def tools_changed(self) -> None:
        self._changes.put(TOOLS_CHANGED, {})

    def unattributed(self, method: str) -> None:
        self._ears.on_unattributed(self._server, method)

    def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        self._ears.on_notification(self._server, method, params)

    def gap(self) -> None:
        """For a while nobody would have told us: everything may be different."""
        self._stale.set()
        self._look_again()

    def _look_again(self) -> None:
        for capability in self._catalog.forget_all():
            self._changes.put(f"notifications/{capability}/list_changed", {})

    async def follow(self, session: Session) -> None:
        """For as long as the main session lives. What was wanted of the one before is wanted of this one."""
        self._watch = watch(self._server, session, self.gap)
        self._look_again()
        try:
            await self._watch.run(self._subscriptions.uris)
        finally:
            self._watch = None

    async def listed(self, session: Session, method: str) -> list[dict[str, Any]]:
        return await self._catalog.listed(session, method)

    async def subscribe(self, session: Session, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        return await self._subscriptions.add(self._watch_of(session), permit, uri, timeout)

    async def unsubscribe(self, session: Session, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        return await self._subscriptions.remove(self._watch_of(session), permit, uri, timeout)

    def _watch_of(self, session: Session) -> Watch:
        return self._watch or watch(self._server, session, self.gap)
