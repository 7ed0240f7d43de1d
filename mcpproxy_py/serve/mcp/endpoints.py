"""Which surface stands at which path, as the configuration says at this moment (SURF-4), and what its listeners are
told of what upstreams do (UP-4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.scope import Scope
from mcpproxy_py.core.values import Server, Snapshot
from mcpproxy_py.gateway.profiles import ProfileTable
from mcpproxy_py.gateway.shares import Share
from mcpproxy_py.serve.http.request import Handler, HttpRequest
from mcpproxy_py.serve.mcp.endpoint import ClientsOf, McpEndpoint
from mcpproxy_py.serve.mcp.event_streams import ReplayBudget
from mcpproxy_py.serve.mcp.http_handshake import HandshakeHttp
from mcpproxy_py.serve.mcp.http_modern import ModernHttp
from mcpproxy_py.serve.mcp.request import by_era
from mcpproxy_py.serve.mcp.subscriptions import LIST_CHANGED, SubscriptionHub
from mcpproxy_py.serve.mcp.surfaces.gate import GateOptions
from mcpproxy_py.serve.mcp.surfaces.surface import Surface

GATE: Final = "/mcp"
DIRECT: Final = "/mcp/direct"
PASSTHROUGH: Final = "/mcp/s/"
PROFILE: Final = "/mcp/p/"
IN_A_PROFILE: Final[Mapping[str, str]] = {"gate": "", "direct": "/direct"}
"""The surfaces that each profile has, where they are configured, and what comes behind its name."""
NAMED: Final[Mapping[str | None, str]] = {None: GATE, "gate": GATE, "direct": DIRECT}
"""What a stream on our socket may ask for; without a word it is the gate."""
ALWAYS: Final = frozenset({"catalog"})
"""Servers whose passthrough surface is there whatever is configured: built in, and harmless."""
NO_PROFILES: Final = ProfileTable()
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
ALSO_DIRECT: Final = frozenset({"notifications/prompts/list_changed", "notifications/resources/list_changed"})
"""Lists that the direct surface gathers from all servers. Its tools follow the snapshot instead."""


class Endpoints:
    """Surfaces come and go with the configuration. One that goes takes its sessions with it."""

    def __init__(
        self, hub: SubscriptionHub, max_sessions: int, upstreams: ClientsOf,
        made: Mapping[str, Callable[[str], Surface]], edge: Callable[[Handler], Handler] = lambda handler: handler,
        share: Share | None = None, scope_of: Callable[[str], Callable[[], Scope]] = NO_PROFILES.scope_of,
    ) -> None:  # fmt: skip
        """`made` gives, by kind, what makes a surface; passthrough is made for a server's name. `edge` wraps what
        answers over HTTP. `share` is what each principal may have of the sessions at a surface. `scope_of` gives what
        gives the scope of a profile."""
        self._hub = hub
        self._kept = ReplayBudget()
        self._max_sessions = max_sessions
        self._upstreams = upstreams
        self._made = made
        self._edge = edge
        self._share = share
        self._scope_of = scope_of
        self._open: dict[str, McpEndpoint] = {}
        self.over_http: dict[str, Handler] = {}
        """By path, as they are now."""

    def use(self, surfaces: Iterable[str], servers: Iterable[str] = (), profiles: Iterable[str] = ()) -> None:
        """What is open from now on."""
        kinds = set(surfaces)
        wanted = {path: kind for path, kind in ((GATE, "gate"), (DIRECT, "direct")) if kind in kinds}
        wanted |= {
            PASSTHROUGH + server: "passthrough" for server in servers if "passthrough" in kinds or server in ALWAYS
        }
        in_profile = {
            f"{PROFILE}{name}{rest}": (kind, name)
            for name in profiles
            for kind, rest in IN_A_PROFILE.items()
            if kind in kinds
        }
        wanted |= {path: kind for path, (kind, _) in in_profile.items()}
        for path in self._open.keys() - wanted.keys():
            del self.over_http[path]
            self._open.pop(path).close()
        for path, kind in wanted.items():
            if path not in self._open:
                surface = self._made[kind](path.removeprefix(PASSTHROUGH))
                endpoint = McpEndpoint(surface, self._hub, self._kept, self._max_sessions, self._upstreams, self._share)
                self._open[path] = endpoint
                handler = by_era(ModernHttp(endpoint).serve, HandshakeHttp(endpoint).serve)
                if path in in_profile:
                    handler = _within(self._scope_of(in_profile[path][1]), handler)
                self.over_http[path] = self._edge(handler)

    def end(self, principal: str) -> None:
        """Its access has ended: so do its sessions. What streams to it ends with its requests."""
        for endpoint in self._open.values():
            endpoint.sessions.end_of(principal)

    def find(self, wish: Mapping[str, Any]) -> McpEndpoint:
        """For a stream on our socket. Raises `ValueError` for a wish that cannot be met."""
        server, surface = wish.get("server"), wish.get("surface")
        if not isinstance(server, str | None) or not isinstance(surface, str | None):
            raise ValueError('"surface" and "server" in the first line must be text')
        if server is None and surface not in NAMED:
            raise ValueError(f"there is no surface '{json_values.quoted(surface)}': attach to gate or direct")
        path = NAMED[surface] if server is None else PASSTHROUGH + server
        found = self._open.get(path)
        if found is None:
            raise ValueError(_missing(path))
        return found

    @property
    def sessions(self) -> int:
        return sum(len(endpoint.sessions) for endpoint in self._open.values())


def _within(scope: Callable[[], Scope], handler: Handler) -> Handler:
    """Whoever comes here has what it may, and of that what the profile has."""

    def serve(http: HttpRequest) -> Awaitable[None]:
        http.access = http.access.within(scope)
        return handler(http)

    return serve


def _missing(path: str) -> str:
    if path.startswith(PASSTHROUGH):
        server = json_values.quoted(path.removeprefix(PASSTHROUGH))
        return (
            f"there is no server '{server}' for passthrough: add \"passthrough\" to "
            "`surfaces` in the configuration, and see `mcpproxy upstream list` for the names"
        )
    kind = "direct" if path == DIRECT else "gate"
    return f'this gateway does not serve its {kind} surface: add "{kind}" to `surfaces` in the configuration'


class ListChangeNotifier:
    def __init__(self, hub: SubscriptionHub) -> None:
        self._hub = hub
        self._last: Snapshot | None = None
        self._gate_options: GateOptions | None = None

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

    def gate_shows(self, gate_options: GateOptions) -> None:
        """After any change of the configuration; most do not change what the gate looks like."""
        before, self._gate_options = self._gate_options, gate_options
        if before is None or gate_options == before:
            return
        self._hub.tell_changed("gate", TOOLS_CHANGED)
        if _shown_directly(gate_options) != _shown_directly(before):  # the rest of what both show is in the policy
            self._hub.tell_changed("direct", TOOLS_CHANGED)


def _shown_directly(gate_options: GateOptions) -> object:
    return gate_options.request_capability_text, gate_options.host_confirm


def _differs(before: Snapshot, after: Snapshot, name: str) -> bool:
    """Whether a client that lists this server's tools again would see another list."""
    old, new = before.servers.get(name), after.servers.get(name)
    return _seen(old) != _seen(new)


def _seen(server: Server | None) -> object:
    if server is None or server.state == "disabled" or not server.tools:
        return None
    return id(server.tools), server.allow_tools, server.deny_tools
