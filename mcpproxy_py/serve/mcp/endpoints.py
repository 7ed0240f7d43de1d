"""Which surface stands at which path, as the configuration says at this moment (SURF-4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.scope import Scope
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.access.profiles import ProfileTable
from mcpproxy_py.gateway.shares import Share
from mcpproxy_py.serve.http.request import Handler, HttpRequest
from mcpproxy_py.serve.mcp.endpoint import ClientsOf, McpEndpoint
from mcpproxy_py.serve.mcp.event_streams import ReplayBudget
from mcpproxy_py.serve.mcp.http_handshake import HandshakeHttp
from mcpproxy_py.serve.mcp.http_modern import ModernHttp
from mcpproxy_py.serve.mcp.request import by_era
from mcpproxy_py.serve.mcp.subscriptions import SubscriptionHub
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


class Endpoints:
    """Surfaces come and go with the configuration. One that goes takes its sessions with it."""

    def __init__(
        self, hub: SubscriptionHub, max_sessions: int, upstreams: ClientsOf,
        made: Mapping[str, Callable[[str], Surface]], edge: Callable[[Handler], Handler] = lambda handler: handler,
        share: Share | None = None, scope_of: Callable[[str], Callable[[], Scope]] = NO_PROFILES.scope_of,
        elsewhere: Handler | None = None,
    ) -> None:  # fmt: skip
        """`made` gives, by kind, what makes a surface; passthrough is made for a server's name. `edge` wraps what
        answers over HTTP. `share` is what each principal may have of the sessions at a surface. `scope_of` gives what
        gives the scope of a profile. `elsewhere` answers at paths where there is nothing."""
        self._hub = hub
        self._kept = ReplayBudget()
        self._max_sessions = max_sessions
        self._upstreams = upstreams
        self._made = made
        self._edge = edge
        self._share = share
        self._scope_of = scope_of
        self._elsewhere = elsewhere or _nothing_there
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
                there = _has_server(path.removeprefix(PASSTHROUGH)) if kind == "passthrough" else None
                eras = ModernHttp(endpoint).serve, HandshakeHttp(endpoint).serve
                handler = by_era(*eras, there, self._elsewhere)
                if path in in_profile:
                    handler = _within(self._scope_of(in_profile[path][1]), handler)
                self.over_http[path] = self._edge(handler)

    def end(self, principal: str) -> None:
        """Its access has ended: so do its sessions. What streams to it ends with its requests."""
        for endpoint in self._open.values():
            endpoint.sessions.end_of(principal)

    def find(self, wish: Mapping[str, Any], scope: Scope | None = None) -> McpEndpoint:
        """For a stream on our socket. Raises `ValueError` for a wish that cannot be met, or not in this scope."""
        server, surface = wish.get("server"), wish.get("surface")
        if not isinstance(server, str | None) or not isinstance(surface, str | None):
            raise ValueError('"surface" and "server" in the first line must be text')
        if server is None and surface not in NAMED:
            raise ValueError(f"there is no surface '{json_values.quoted(surface)}': attach to gate or direct")
        path = NAMED[surface] if server is None else PASSTHROUGH + server
        found = self._open.get(path)
        if found is None or (scope is not None and server is not None and not scope.has_server(server)):
            raise ValueError(_missing(path))
        return found

    @property
    def sessions(self) -> int:
        return sum(len(endpoint.sessions) for endpoint in self._open.values())


def _has_server(server: str) -> Callable[[Scope], bool]:
    return lambda scope: scope.has_server(server)


async def _nothing_there(http: HttpRequest) -> None:
    raise GatewayError(Code.NOT_FOUND, f"There is nothing at {json_values.quoted(http.head.path)}")


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
