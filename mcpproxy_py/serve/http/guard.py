"""The one way in: what every HTTP request must pass before any surface hears of it (SEC-1, API-2).

In this order, and the first that fails answers:

1. headers that decide something come once     400
2. the `Host` is ours                          421 (except for the two probes)
3. the `Origin`, where there is one, is ours   403 (the same); the preflight of an allowed one is answered
4. no page of another site asks without one    403 (`Sec-Fetch-Site`; except for what is open to everybody)
5. the credential fits the zone                401
6. the body is not too long                    413 (declared or streamed)

Zones are a table of paths. What is not in it reaches nobody behind the guard: `/` has a page for people, and everything
else is a 404. The admin key never opens an MCP surface, and a token of an agent nothing else but that agent's own
records (SEC-2): made equal by mistake, they are an agent token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import parse_qsl

from mcpproxy_py.core.json_size import MAX_BODY_VALUES
from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.policy.token_terms import PREFIX
from mcpproxy_py.errors import FACTS, Code, GatewayError
from mcpproxy_py.serve.http.asgi import NO_STORE, bad_request, error_json, json_bytes
from mcpproxy_py.serve.http.cors import answer_headers, answer_preflight, is_readable
from mcpproxy_py.serve.http.credentials import AGENT, LOGIN_HINT, AgentCredentials, AgentTokens
from mcpproxy_py.serve.http.hosts import authority, host_list, is_loopback, origin_list
from mcpproxy_py.serve.http.outside import answer_outside
from mcpproxy_py.serve.http.request import Handler, HttpRequest, RequestHead

if TYPE_CHECKING:
    from mcpproxy_py.serve.http.identity.provider import IdentityProvider
    from mcpproxy_py.serve.page.credentials import PageCredentials

log = logging.getLogger("mcpproxy.http")

request_id: ContextVar[str | None] = ContextVar("mcpproxy_request_id", default=None)
"""The request being served, for log lines written anywhere below (OPS-1)."""

Zone = Literal["agent", "open", "metrics", "admin", "outside"]
ZONES: Final[tuple[tuple[str, Zone], ...]] = (
    ("/mcp", "agent"),
    ("/tool", "agent"),
    ("/healthz", "open"),
    ("/readyz", "open"),
    ("/api/v1/proof", "open"),
    ("/api/v1/page/open", "open"),
    ("/api", "admin"),
    ("/metrics", "metrics"),
    ("/.well-known", "open"),  # where nothing is there, MCP clients that look for OAuth must hear 404, not 401
)
PROBES: Final = frozenset(("/healthz", "/readyz"))
"""Load balancers call these by address, so no `Host` is foreign to them."""
OWN_SITES: Final = frozenset(("same-origin", "none"))
"""What a browser says as `Sec-Fetch-Site` of our own pages, and where a person typed the address."""
MOST_LINES: Final = 300
"""Requests turned away that are logged in a minute; what is beyond that is counted."""
MOST_KNOWN_HOSTS: Final = 64
"""Spellings of our own name that were checked before; `*` lets anybody make up more."""
LOCAL, ADMIN = Access("local"), Access("admin")
OWN_RECORDS: Final = "/api/v1/activity"
"""With `?mine`, the one thing of REST that opens with a token of an agent."""
OWN_END: Final = "/api/v1/page/session"
"""Where a session of the page ends itself, which still hears so."""
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="mcpproxy"'}


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What the operator allows. A reload is a new value, handed to `Guard.use`."""

    admin_key: Callable[[], str]
    """Asked on each use, because a rotated key must stop working at once."""
    listen_host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    mcp_token: str | None = field(default=None, repr=False)
    tokens: AgentTokens | None = field(default=None, repr=False)
    require_mcp_auth: bool = False
    identity: IdentityProvider | None = None
    """Whose tokens are accepted, beside our own."""
    page: PageCredentials | None = field(default=None, repr=False)
    """Sessions of people in front of the page, who are the admin as well."""
    max_body_bytes: int = 4 << 20
    max_body_values: int = MAX_BODY_VALUES

    @property
    def agents_need_token(self) -> bool:
        has_tokens = self.mcp_token is not None or self.identity is not None
        return has_tokens or self.require_mcp_auth or not is_loopback(self.listen_host)


class AccessControl:
    """The rules, compiled once. `access` is the whole decision."""

    def __init__(self, rules: AccessRules) -> None:
        self._hosts = host_list(rules.listen_host, rules.allowed_hosts)
        self._known_hosts: set[str] = set()
        self._origins = origin_list(self._hosts, rules.allowed_origins)
        self._agents_need_token = rules.agents_need_token
        self._rules = rules
        self._credentials = AgentCredentials(rules.mcp_token, rules.tokens, rules.identity)

    def access(self, head: RequestHead, request: HttpRequest) -> Access | Awaitable[Access]:
        """Who comes in, or `GatewayError` with the first thing that is wrong. To be waited for with the first request
        that brings a token of the identity provider."""
        if head.repeated is not None:
            raise bad_request(f"The {head.repeated} header was sent more than once", header=head.repeated)
        if head.path not in PROBES:
            if head.host not in self._known_hosts:
                self._check_host(head.host)
            if head.origin is not None:
                self._check_origin(head, request)
                if request.cors and head.method == "OPTIONS":
                    return LOCAL  # a preflight, which the guard itself answers
        zone = head.zone
        if zone is None:
            zone = head.zone = zone_of(head.path)
        if head.fetch_site is not None and head.fetch_site not in OWN_SITES and head.origin is None and zone != "open":
            raise _of_another_site(head.fetch_site)
        if zone == "agent":
            if head.authorization is None and not self._agents_need_token:
                return LOCAL
            # The same head as before: heads are known as a whole, by their hash, so that how long this takes tells
            # nobody about a part of a secret. Whether it opens what it did is asked each time.
            if (known := head.admission) is not None and known[0] is self._credentials and known[1].holds():
                return known[1].access
            return self._agent(head)
        # Metrics name all servers: wherever agents need a token, a process of this machine does not see them without.
        if zone == "admin" or (zone == "metrics" and (self._agents_need_token or not is_local(request.peer, head))):
            return self._admin(head, request)
        return LOCAL

    def _check_host(self, host: str) -> None:
        given = authority(host)
        if given is None or not self._hosts.allows(given):
            shown = quoted(host)
            message = f"This gateway is not configured for the host '{shown}'"
            raise GatewayError(Code.FOREIGN_HOST, message, details={"host": shown})
        if len(self._known_hosts) < MOST_KNOWN_HOSTS:
            self._known_hosts.add(host)

    def _check_origin(self, head: RequestHead, request: HttpRequest) -> None:
        origin = head.origin or ""
        if not self._origins.allows(origin, head.host):
            shown = quoted(head.origin)
            message = f"Pages from '{shown}' are not allowed to use this gateway"
            raise GatewayError(Code.FOREIGN_ORIGIN, message, details={"origin": shown})
        if is_readable(head.path) and self._origins.names(origin):
            request.cors = answer_headers(origin)

    def _agent(self, head: RequestHead) -> Access | Awaitable[Access]:
        given = _bearer(head)
        if (found := self._credentials.find(given)) is not None:
            admission = None if given is None else self._credentials.admission(given, found)
            head.admission = None if admission is None else (self._credentials, admission)
            return found
        if (coming := self._credentials.to_verify(given)) is not None:
            return coming
        if not self._agents_need_token and not self._credentials.refuses(given):
            return LOCAL
        hint = None if self._rules.identity is None else LOGIN_HINT
        if same_secret(given, self._rules.admin_key()):
            instead = "send the agent token" if hint is None else "log in with the identity provider"
            raise _unauthorized(f"The admin key gives no access to MCP surfaces; {instead}", hint)
        if given is not None:
            raise _unauthorized("This token gives no access: it is wrong, expired or revoked", hint)
        if hint is None:
            raise _unauthorized("MCP surfaces need the agent token, as Authorization: Bearer")
        raise _unauthorized("You are not logged in to this gateway", hint)

    def _admin(self, head: RequestHead, request: HttpRequest) -> Access | Awaitable[Access]:
        given = head.api_key or _bearer(head)
        if given is None and (page := self._rules.page) is not None and (coming := page.admit(head, request.peer)):
            return coming
        may_be_agents = self._credentials.takes_others or (given or "").startswith(PREFIX)
        if may_be_agents and (found := self._credentials.find(given)) is not None:
            if found is not AGENT and head.api_key is None and _asks_for_own_records(head):
                return found  # many may share the one `mcp_token`, and none of them reads the others' records
            raise _unauthorized("The agent token gives no access to this; send the admin key")
        if head.api_key is None and _asks_for_own_records(head) and (coming := self._credentials.to_verify(given)):
            return coming
        if not same_secret(given, self._rules.admin_key()):
            raise _unauthorized("This needs the admin key, as X-API-Key or Authorization: Bearer")
        return ADMIN


def _of_another_site(said: str) -> GatewayError:
    """A browser names no origin where it follows a link or loads an image, but says whose page that is on. What another
    port of this machine serves is `same-site`, and as foreign."""
    shown = quoted(said)
    message = f"Pages of other sites are not allowed to use this gateway (Sec-Fetch-Site: {shown})"
    return GatewayError(Code.FOREIGN_ORIGIN, message, details={"fetch_site": shown})


def zone_of(path: str) -> Zone:
    for prefix, zone in ZONES:
        if path == prefix or path.startswith(f"{prefix}/"):
            return zone
    return "outside"


def _asks_for_own_records(head: RequestHead) -> bool:
    """REST looks again, and shows nobody but the admin anything else."""
    if head.method != "GET" or head.path != OWN_RECORDS:
        return False
    try:
        query = parse_qsl(head.query.decode("ascii"), keep_blank_values=True, max_num_fields=64)
    except ValueError:
        return False
    return any(name == "mine" for name, _ in query)


def same_secret(given: str | None, secret: str | None) -> bool:
    """Constant in time, whatever the lengths; an empty secret opens nothing."""
    if not given or not secret:
        return False
    return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), hashlib.sha256(secret.encode()).digest())


def is_local(peer: Any, head: RequestHead) -> bool:
    """Whether the peer is this machine itself. What a proxy forwarded comes from somewhere else."""
    return peer is not None and not head.forwarded and is_loopback(peer[0])


def _bearer(head: RequestHead) -> str | None:
    scheme, _, token = (head.authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _unauthorized(message: str, hint: str | None = None) -> GatewayError:
    return GatewayError(Code.UNAUTHORIZED, message, hint=hint)


class Guard:
    """Stands before the endpoints of MCP, by path, and before REST, which answers or denies everything else.

    Who may come in is told with the request (`access`; its principal is `admin`, `agent` or `local`). Every exception
    that nobody caught it answers with a 500 that gives nothing away.
    """

    def __init__(self, endpoints: Mapping[str, Handler], rest: Handler, rules: AccessRules) -> None:
        """`endpoints` may change at any time."""
        self._endpoints = endpoints
        self._rest = rest
        self.last = time.monotonic()
        """When somebody who may last wanted something; a detached gateway ends when that is long ago."""
        self._minute, self._lines = self.last, 0
        self._under_way: dict[asyncio.Task[Any] | None, str] = {}
        """Requests, with what of an access may end: a principal, or a session of the page."""
        self.use(rules)

    def use(self, rules: AccessRules) -> None:
        """Requests from now on obey these rules."""
        self._access = AccessControl(rules)
        self._identity = rules.identity
        self._max_body_bytes, self._max_body_values = rules.max_body_bytes, rules.max_body_values

    def end(self, ends: str) -> None:
        """This access has ended: so do its requests under way, with their connections."""
        for task, whose in tuple(self._under_way.items()):
            if whose == ends and task is not None:
                task.cancel()

    async def serve(self, request: HttpRequest) -> None:
        head = request.head
        request.id = named = head.request_id or random.randbytes(8).hex()
        remembered = request_id.set(named)
        try:
            access = self._access.access(head, request)
            request.access = access if isinstance(access, Access) else await access
            if request.cors and head.method == "OPTIONS":
                await answer_preflight(request)
                return
            request.limit, request.max_values = self._max_body_bytes, self._max_body_values
            if not 0 <= head.length <= self._max_body_bytes:
                raise _bad_length(request)
            if head.zone == "outside":
                await answer_outside(request)
                return
            self.last = time.monotonic()
            endpoint = self._endpoints.get(head.path) or self._endpoints.get(head.path.rstrip("/"), self._rest)
            if self._identity is not None:
                endpoint = self._identity.answering(endpoint, request)
            if request.access.ends_with is None or (head.method == "DELETE" and head.path.startswith(OWN_END)):
                await endpoint(request)
            else:
                task = asyncio.current_task()
                self._under_way[task] = request.access.ends_with
                try:
                    await endpoint(request)
                finally:
                    del self._under_way[task]
            if request.over:
                raise request.too_large()
            if log.isEnabledFor(logging.DEBUG):
                log.debug("%s %s", head.method, quoted(head.path))
        except GatewayError as error:
            self._log(head, error)
            await _refuse(request, error, self._headers(head, error))
        except Exception:
            log.exception("%s %s failed", head.method, quoted(head.path))
            if request.started:
                raise  # an answer under way can only be cut off, which raising does
            details = {"request_id": named}
            error = GatewayError(Code.INTERNAL, "Something went wrong in the gateway", details=details)
            await _refuse(request, error)
        finally:
            request_id.reset(remembered)

    def _headers(self, head: RequestHead, error: GatewayError) -> Iterable[tuple[str, str]]:
        if self._identity is not None and head.zone == "agent":
            return self._identity.headers(head, error)
        return _CHALLENGE.items() if error.code is Code.UNAUTHORIZED else ()

    def _log(self, head: RequestHead, error: GatewayError) -> None:
        """Whoever is turned away must not fill the disk with that."""
        now = time.monotonic()
        if now - self._minute >= 60:
            if self._lines > MOST_LINES:
                log.warning("%d more requests were turned away within a minute", self._lines - MOST_LINES)
            self._minute, self._lines = now, 0
        self._lines += 1
        if self._lines <= MOST_LINES:
            log.warning("%s %s: %s: %s", head.method, quoted(head.path), error.code.value, error.message)


def _bad_length(request: HttpRequest) -> GatewayError:
    """A body that is too long is turned away before a byte of it is read."""
    if request.head.length < 0:
        return bad_request("The content-length header is not a number", header="content-length")
    return request.too_large()


async def _refuse(request: HttpRequest, error: GatewayError, headers: Iterable[tuple[str, str]] = ()) -> None:
    """The guard is heard in any case, unless another answer is under way: that one stays cut off."""
    if not request.started:
        request.over = False
        lines = [(name.encode(), value.encode()) for name, value in (*NO_STORE.items(), *headers)]
        await request.respond(FACTS[error.code].http, json_bytes(error_json(error)), lines)
