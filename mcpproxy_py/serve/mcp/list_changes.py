"""What listeners are told of what upstreams do (UP-4), each of what is in its scope (SEC-2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.json_values import same
from mcpproxy_py.core.policy.scope import Scope, narrowed
from mcpproxy_py.core.values import Policy, Server, Snapshot
from mcpproxy_py.serve.mcp.subscriptions import LIST_CHANGED, TOOLS_CHANGED, UPDATED, Concerns, SubscriptionHub
from mcpproxy_py.serve.mcp.surfaces.gate import GateOptions, within_scope

ALSO_DIRECT: Final = frozenset({"notifications/prompts/list_changed", "notifications/resources/list_changed"})
"""Lists that the direct surface gathers from all servers. Its tools follow the snapshot instead."""
LISTING: Final = "listing"


class ListChangeNotifier:
    """Within a moment there may be many changes: what a listing was before the first of them is held against what it is
    when listeners are told."""

    def __init__(self, hub: SubscriptionHub) -> None:
        self._hub = hub
        self._last = Snapshot()
        self._begun = False
        self._gate_options: GateOptions | None = None

    def server_said(self, server: str, method: str, params: Mapping[str, Any]) -> None:
        """A notification that belongs to no call goes to who looks at that server, whatever it is. That its tools
        changed is for who has all of them: for anybody else it may be about others, and they follow the snapshot."""
        topic = f"server/{server}"
        if method in LIST_CHANGED:
            self._hub.tell_changed(topic, method, _whom_concerns(server, method), (server, method))
        else:
            concerns = _whom_concerns(server, method)
            self._hub.tell(topic, method, params, concerns, server)
            if method == UPDATED:
                self._hub.tell("direct", method, params, concerns, server)
        if method in ALSO_DIRECT:
            self.said_elsewhere(server, method)

    def said_elsewhere(self, server: str, method: str) -> None:
        """A server said to another gateway that a list changed, be it that of its tools. Here nothing may change, no
        snapshot either, but whoever lists everything next may be answered there."""
        self._hub.tell_changed("direct", method, _whom_concerns(server, method), (server, method))

    def snapshot_changed(self, snapshot: Snapshot) -> None:
        before, self._last = self._last, snapshot
        if not self._begun:
            self._begun = True
            return
        changed = _changed(before, snapshot)
        for name in changed:
            told = self._hub.tell_changed
            told(f"server/{name}", TOOLS_CHANGED, lambda scope, name=name: self._lists(before, scope, name), LISTING)
        if changed or snapshot.policy != before.policy:
            self._hub.tell_changed("direct", TOOLS_CHANGED, lambda scope: self._shows(before, scope), LISTING)

    def _shows(self, before: Snapshot, scope: Scope) -> bool:
        """Whether the direct surface shows another list in this scope than before."""
        after = self._last
        if scope.tightened(before.policy) != scope.tightened(after.policy):
            return True
        return any(scope.has_server(name) and self._lists(before, scope, name) for name in _changed(before, after))

    def _lists(self, before: Snapshot, scope: Scope, name: str) -> bool:
        """Whether a server does."""
        if not scope.has_server(name):
            return False
        earlier, later = _listed(before, scope, name), _listed(self._last, scope, name)
        return earlier.keys() != later.keys() or any(
            terms != later[tool][1] or not same(wire, later[tool][0]) for tool, (wire, terms) in earlier.items()
        )

    def settings_changed(self, gate_options: GateOptions) -> None:
        """Most changes of the configuration do not change what the gate looks like, nor what is in whose scope."""
        self._gate_shows(gate_options)
        self._hub.scopes_changed()

    def _gate_shows(self, gate_options: GateOptions) -> None:
        before, self._gate_options = self._gate_options, gate_options
        if before is None or gate_options == before:
            return
        self._hub.tell_changed("gate", TOOLS_CHANGED, lambda scope: self._gate_differs(before, scope), LISTING)
        if _shown_directly(gate_options) != _shown_directly(before):  # the rest of what both show is in the policy
            self._hub.tell_changed("direct", TOOLS_CHANGED)

    def _gate_differs(self, before: GateOptions, scope: Scope) -> bool:
        after = self._gate_options
        return after is None or within_scope(before, scope) != within_scope(after, scope)


def _shown_directly(gate_options: GateOptions) -> object:
    return gate_options.request_capability_text, gate_options.host_confirm


def _whom_concerns(server: str, method: str) -> Concerns:
    if method == TOOLS_CHANGED:
        return lambda scope: _has_all(scope, server)
    return lambda scope: scope.has_server(server)


def _has_all(scope: Scope, server: str) -> bool:
    return scope.has_server(server) and scope.chooses(server, Policy()) is None


def _changed(before: Snapshot, after: Snapshot) -> list[str]:
    """The servers of which a client that lists their tools again would see another list, if it sees all of them."""
    return [
        name
        for name in after.servers.keys() | before.servers.keys()
        if _seen(before.servers.get(name)) != _seen(after.servers.get(name))
    ]


def _seen(server: Server | None) -> object:
    if server is None or server.state == "disabled" or not server.tools:
        return None
    return id(server.tools), server.allow_tools, server.deny_tools


def _listed(snapshot: Snapshot, scope: Scope, name: str) -> Mapping[str, tuple[Mapping[str, Any], object]]:
    """What of a server's listing is in scope, as far as anything that clients see follows from it: the wire object of
    each tool, and the rest."""
    server = narrowed(snapshot, scope).servers.get(name)
    if server is None or server.state == "disabled":
        return {}
    return {
        tool.name: (tool.wire, (tool.declared, tool.trusted, tool.overrides))
        for tool in server.tools.values()
        if server.offers(tool.name)
    }
