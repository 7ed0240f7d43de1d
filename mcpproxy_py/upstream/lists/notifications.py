"""What a server says of itself unasked, who has to look again because of it, and what it has been asked to tell.

What the gateway hears of a server beside the answers to its calls.

What a server lists beside its tools, kept until it says that it changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.lists.subscriptions import ResourceWatch, Subscriptions, watch
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.session.rpc import CHANGES
from mcpproxy_py.upstream.session.session import UpstreamSession
from mcpproxy_py.upstream.session.throttle import ChangeCoalescer, NotificationThrottle

OnNotification = Callable[[str, str, Mapping[str, Any]], None]
OnUnattributed = Callable[[str, str], None]
OnListChanged = Callable[[str, str], None]


def ignored(*_: Any) -> None:
    return


@dataclass(frozen=True, slots=True)
class UpstreamCallbacks:
    """Called on the event loop; must not block."""

    on_notification: OnNotification = ignored
    """(server, method, params): a notification that belongs to no call."""
    on_unattributed: OnUnattributed = ignored
    """(server, method): a question that belongs to no one call, and was refused."""
    on_list_changed: OnListChanged = ignored
    """(server, method): it says itself that one of its lists changed, whether or not we see a difference."""


LIST_TIMEOUT: Final = 60.0
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
}
"""Method to the capability it comes with and to the key of its list."""


class ListCache:
    def __init__(self) -> None:
        self._kept: dict[str, list[dict[str, Any]]] = {}
        self._age: dict[str, int] = {}
        self._reading = {method: asyncio.Lock() for method in KINDS}

    async def listed(self, session: UpstreamSession, method: str) -> list[dict[str, Any]]:
        """All pages of it. Asked by many at once, the server hears it once. Raises `UpstreamFailure`."""
        if method not in KINDS:
            raise UpstreamFailure(Code.UPSTREAM_ERROR, f"{method[:80]} is not a list that is cached", sent=False)
        async with self._reading[method]:
            if method in self._kept:
                return self._kept[method]
            capability, kind = KINDS[method]
            age = self._age.get(capability, 0)
            entries = await session.list_entries(method, kind, capability, LIST_TIMEOUT)
            if age == self._age.get(capability, 0):  # else it changed while it was read
                self._kept[method] = entries
            return entries

    def forget(self, capability: str) -> bool:
        """The server said that it changed. Whether anything was kept."""
        self._age[capability] = self._age.get(capability, 0) + 1
        gone = [method for method in self._kept if KINDS[method][0] == capability]
        for method in gone:
            del self._kept[method]
        return bool(gone)

    def forget_all(self) -> list[str]:
        """What somebody may have seen and should look at again, by capability."""
        return [capability for capability in ("prompts", "resources") if self.forget(capability)]


TOOLS_CHANGED: Final = "notifications/tools/list_changed"
PROMPTS_CHANGED: Final = "notifications/prompts/list_changed"
LISTS: Final = frozenset((TOOLS_CHANGED, PROMPTS_CHANGED, "notifications/resources/list_changed"))


class ServerNotifications:
    """One per server, for all its sessions and lives."""

    def __init__(self, server: str, callbacks: UpstreamCallbacks) -> None:
        self._stale = asyncio.Event()
        self._said = False
        self._server = server
        self._callbacks = callbacks
        self._catalog = ListCache()
        self.subscriptions = Subscriptions()
        self._changes = ChangeCoalescer(self._tell)
        self._abroad = ChangeCoalescer(lambda method, _: callbacks.on_list_changed(server, method))
        self._rest = NotificationThrottle(asyncio.get_running_loop(), self._tell)
        self._watch: ResourceWatch | None = None

    def receive(self, method: str, params: Mapping[str, Any]) -> None:
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

    def judged_again(self) -> None:
        """Something else of its lists is in force now, whatever the server says."""
        self.tools_changed()
        self._changes.put(PROMPTS_CHANGED, {})

    def unattributed(self, method: str) -> None:
        self._callbacks.on_unattributed(self._server, method)

    def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        self._callbacks.on_notification(self._server, method, params)

    def missed(self) -> None:
        """For a while nobody would have told us: everything may be different."""
        self._stale.set()
        self._look_again()

    def _look_again(self) -> None:
        for capability in self._catalog.forget_all():
            self._changes.put(f"notifications/{capability}/list_changed", {})

    async def follow(self, session: UpstreamSession) -> None:
        """For as long as the main session lives. What was wanted of the one before is wanted of this one."""
        self._watch = watch(self._server, session, self.missed)
        self._look_again()
        try:
            await self._watch.run(self.subscriptions.uris)
        finally:
            self._watch = None

    async def listed(self, session: UpstreamSession, method: str) -> list[dict[str, Any]]:
        return await self._catalog.listed(session, method)

    async def subscribe(self, session: UpstreamSession, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        return await self.subscriptions.add(self._watch_of(session), permit, uri, timeout)

    async def unsubscribe(self, session: UpstreamSession, permit: Permit, uri: str, timeout: float) -> dict[str, Any]:
        return await self.subscriptions.remove(self._watch_of(session), permit, uri, timeout)

    def _watch_of(self, session: UpstreamSession) -> ResourceWatch:
        return self._watch or watch(self._server, session, self.missed)
