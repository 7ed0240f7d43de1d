"""Which surface stands behind which path, as the configuration says at this moment (SURF-4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from mcpproxy_py.serve.mcp.door import ClientsOf, Door
from mcpproxy_py.serve.mcp.http import Endpoint
from mcpproxy_py.serve.mcp.hub import Hub
from mcpproxy_py.serve.mcp.kept import Kept
from mcpproxy_py.serve.surfaces.surface import Surface

GATE: Final = "/mcp"
DIRECT: Final = "/mcp/direct"
PASSTHROUGH: Final = "/mcp/s/"
ALWAYS: Final = frozenset({"catalog"})
"""Servers whose passthrough surface is there whatever is configured: built in, and harmless."""


class Doors:
    """Surfaces come and go with the configuration. One that goes takes its sessions with it."""

    def __init__(
        self, hub: Hub, max_sessions: int, upstreams: ClientsOf,
        made: Mapping[str, Callable[[str], Surface]],
    ) -> None:  # fmt: skip
        """`made` gives, by kind, what makes a surface; passthrough is made for a server's name."""
        self._hub = hub
        self._kept = Kept()
        self._max_sessions = max_sessions
        self._upstreams = upstreams
        self._made = made
        self._open: dict[str, Endpoint] = {}

    def use(self, surfaces: Iterable[str], servers: Iterable[str]) -> None:
        """What is open from now on."""
        kinds = set(surfaces)
        wanted = {path: kind for path, kind in ((GATE, "gate"), (DIRECT, "direct")) if kind in kinds}
        wanted |= {
            PASSTHROUGH + server: "passthrough" for server in servers if "passthrough" in kinds or server in ALWAYS
        }
        for path in self._open.keys() - wanted.keys():
            self._open.pop(path).door.close()
        for path, kind in wanted.items():
            if path not in self._open:
                surface = self._made[kind](path.removeprefix(PASSTHROUGH))
                door = Door(surface, self._hub, self._kept, self._max_sessions, self._upstreams)
                self._open[path] = Endpoint(door)

    def paths(self) -> list[str]:
        return list(self._open)

    def endpoint(self, path: str) -> Endpoint | None:
        return self._open.get(path.rstrip("/"))

    def door_for(self, wish: Mapping[str, Any]) -> Door:
        """For a stream on our socket. Raises `ValueError` for a wish that cannot be met."""
        server = wish.get("server")
        path = (
            PASSTHROUGH + str(server) if server is not None else {"direct": DIRECT}.get(wish.get("surface", ""), GATE)
        )
        found = self.endpoint(path)
        if found is None:
            raise ValueError(_missing(path))
        return found.door

    @property
    def sessions(self) -> int:
        return sum(len(endpoint.door.sessions) for endpoint in self._open.values())


def _missing(path: str) -> str:
    if path.startswith(PASSTHROUGH):
        return (
            f"there is no server '{path.removeprefix(PASSTHROUGH)}' to pass through to: add \"passthrough\" to "
            "`surfaces` in the configuration, and see `mcpproxy upstream list` for the names"
        )
    kind = "direct" if path == DIRECT else "gate"
    return f'this gateway does not serve its {kind} surface: add "{kind}" to `surfaces` in the configuration'


def by_path(doors: Doors, rest: ASGIApp) -> ASGIApp:
    """MCP behind its doors; everything else is REST's to answer or to deny."""

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        found = doors.endpoint(scope["path"]) if scope["type"] == "http" else None
        return (found or rest)(scope, receive, send)

    return app
