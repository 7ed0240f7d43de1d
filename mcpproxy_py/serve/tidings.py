"""From what upstreams do to what clients are told: whom a change concerns (UP-4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.values import Server, Snapshot
from mcpproxy_py.serve.mcp.hub import LIST_CHANGED, Hub
from mcpproxy_py.serve.surfaces.gate import Face

TOOLS_CHANGED: Final = "notifications/tools/list_changed"
ALSO_DIRECT: Final = frozenset({"notifications/prompts/list_changed", "notifications/resources/list_changed"})
"""Lists that the direct surface gathers from all servers. Its tools follow the snapshot instead."""


class Tidings:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._last: Snapshot | None = None
        self._face: Face | None = None

    def server_said(self, server: str, method: str, params: Mapping[str, Any]) -> None:
        """A notification that belongs to no call goes to who looks at that server, whatever it is."""
        topic = f"server/{server}"
        if method in LIST_CHANGED:
            self._hub.tell_changed(topic, method)
        else:
            self._hub.tell(topic, method, params)
        if method in ALSO_DIRECT:
            self._hub.tell_changed("direct", method)

    def said_elsewhere(self, method: str) -> None:
        """A server said to another gateway that a list changed. Nothing may change here, but whoever lists everything
        next may be answered there."""
        self._hub.tell_changed("direct", method)

    def snapshot_changed(self, snapshot: Snapshot) -> None:
        before, self._last = self._last, snapshot
        if before is None:
            return
        changed = [name for name in snapshot.servers.keys() | before.servers.keys() if _differs(before, snapshot, name)]
        for name in changed:
            self._hub.tell_changed(f"server/{name}", TOOLS_CHANGED)
        if changed or snapshot.policy != before.policy:
            self._hub.tell_changed("direct", TOOLS_CHANGED)

    def gate_shows(self, face: Face) -> None:
        """After any change of the configuration; most do not change what the gate looks like."""
        before, self._face = self._face, face
        if before is None or face == before:
            return
        self._hub.tell_changed("gate", TOOLS_CHANGED)
        if face.wish_text != before.wish_text:  # the rest of what both show is in the policy
            self._hub.tell_changed("direct", TOOLS_CHANGED)


def _differs(before: Snapshot, after: Snapshot, name: str) -> bool:
    """Whether a client that lists this server's tools again would see another list."""
    old, new = before.servers.get(name), after.servers.get(name)
    return _seen(old) != _seen(new)


def _seen(server: Server | None) -> object:
    if server is None or server.state == "disabled" or not server.tools:
        return None
    return id(server.tools), server.allow_tools, server.deny_tools
