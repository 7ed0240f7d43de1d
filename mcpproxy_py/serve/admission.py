"""Who may come in, and by which door: the rungs of `guard`, without the sending and receiving.

Doors are a table of paths, and what is not in it needs the admin key. The admin key never opens an MCP
surface and the agent token never opens anything else: made equal by mistake, they are an agent token.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mcpproxy_py.core.jsonvalue import quoted
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.hosts import authority, host_list, is_loopback, origin_list
from mcpproxy_py.serve.wire import bad_request

request_id: ContextVar[str | None] = ContextVar("mcpproxy_request_id", default=None)
"""The request being served, for log lines written anywhere below (OPS-1)."""

Door = Literal["agent", "open", "metrics", "admin"]
DOORS: Final[tuple[tuple[str, Door], ...]] = (
    ("/mcp", "agent"),
    ("/tool", "agent"),
    ("/healthz", "open"),
    ("/readyz", "open"),
    ("/api/v1/proof", "open"),
    ("/metrics", "metrics"),
    ("/.well-known", "open"),  # nothing is there; MCP clients that look for OAuth must hear 404, not 401
)
PROBES: Final = frozenset(("/healthz", "/readyz"))
"""Load balancers call these by address, so no `Host` is foreign to them."""

ONCE: Final = frozenset((b"host", b"origin", b"authorization", b"x-api-key", b"content-length", b"x-request-id"))
MOST_KNOWN_HOSTS: Final = 64
"""Spellings of our own name that were checked before; `*` lets anybody make up more."""
FORWARDED: Final = frozenset((b"forwarded", b"x-forwarded-for", b"x-real-ip"))


@dataclass(frozen=True, slots=True)
class GuardRules:
    """What the operator allows. A reload is a new value, handed to `Guard.use`."""

    admin_key: Callable[[], str]
    """Asked on each use, because a rotated key must stop working at once."""
    listen_host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    mcp_token: str | None = field(default=None, repr=False)
    require_mcp_auth: bool = False
    max_body_bytes: int = 4 << 20

    @property
    def agents_need_token(self) -> bool:
        return self.mcp_token is not None or self.require_mcp_auth or not is_loopback(self.listen_host)


Headers = Mapping[bytes, str]


class Admission:
    """The rules, compiled once. `principal` is the whole decision."""

    def __init__(self, rules: GuardRules) -> None:
        self._hosts = host_list(rules.listen_host, rules.allowed_hosts)
        self._known_hosts: set[str] = set()
        self._origins = origin_list(self._hosts, rules.allowed_origins)
        self._agents_need_token = rules.agents_need_token
        self._rules = rules

    def principal(self, path: str, seen: Headers, peer: Any) -> str:
        """`admin`, `agent` or `local`, or `GatewayError` with the first thing that is wrong."""
        if path not in PROBES:
            self._check_host(seen.get(b"host", ""))
            self._check_origin(seen.get(b"origin"))
        door = door_of(path)
        if door == "agent":
            return self._agent(seen)
        if door == "admin" or (door == "metrics" and not is_local(peer, seen)):
            return self._admin(seen)
        return "local"

    def _check_host(self, host: str) -> None:
        if host in self._known_hosts:
            return
        given = authority(host)
        if given is None or not self._hosts.allows(given):
            shown = quoted(host)
            message = f"This gateway does not answer to the host '{shown}'"
            raise GatewayError(Code.FOREIGN_HOST, message, details={"host": shown})
        if len(self._known_hosts) < MOST_KNOWN_HOSTS:
            self._known_hosts.add(host)

    def _check_origin(self, origin: str | None) -> None:
        if origin is not None and not self._origins.allows(origin):
            shown = quoted(origin)
            message = f"Pages from '{shown}' may not use this gateway"
            raise GatewayError(Code.FOREIGN_ORIGIN, message, details={"origin": shown})

    def _agent(self, seen: Headers) -> str:
        if not self._agents_need_token:
            return "local"
        given = _bearer(seen)
        if same_secret(given, self._rules.mcp_token):
            return "agent"
        if same_secret(given, self._rules.admin_key()):
            raise _unauthorized("The admin key does not open MCP surfaces; send the agent token")
        raise _unauthorized("MCP surfaces need the agent token, as Authorization: Bearer")

    def _admin(self, seen: Headers) -> str:
        given = seen.get(b"x-api-key") or _bearer(seen)
        if same_secret(given, self._rules.mcp_token):
            raise _unauthorized("The agent token does not open this; send the admin key")
        if not same_secret(given, self._rules.admin_key()):
            raise _unauthorized("This needs the admin key, as X-API-Key or Authorization: Bearer")
        return "admin"


def door_of(path: str) -> Door:
    for prefix, door in DOORS:
        if path == prefix or path.startswith(f"{prefix}/"):
            return door
    return "admin"


def single_headers(headers: Collection[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """The headers that decide something. Sent twice, two readers could each believe another one: refused."""
    found = dict(headers)
    if len(found) != len(headers):
        _refuse_repeated(headers)
    seen = {name: found[name].decode("latin-1") for name in ONCE if name in found}
    if not FORWARDED.isdisjoint(found):
        seen[b"forwarded"] = ""
    return seen


def _refuse_repeated(headers: Iterable[tuple[bytes, bytes]]) -> None:
    names: set[bytes] = set()
    for name, _ in headers:
        if name in names and name in ONCE:
            raise bad_request(f"The {name.decode()} header was sent twice", header=name.decode())
        names.add(name)


def same_secret(given: str | None, secret: str | None) -> bool:
    """Constant in time, whatever the lengths; an empty secret opens nothing."""
    if not given or not secret:
        return False
    return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), hashlib.sha256(secret.encode()).digest())


def is_local(peer: Any, seen: Headers) -> bool:
    """Whether the peer is this machine itself. What a proxy forwarded comes from somewhere else."""
    return peer is not None and b"forwarded" not in seen and is_loopback(peer[0])


def _bearer(seen: Headers) -> str | None:
    scheme, _, token = seen.get(b"authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _unauthorized(message: str) -> GatewayError:
    return GatewayError(Code.UNAUTHORIZED, message)
