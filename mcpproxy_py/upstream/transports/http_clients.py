"""What the two HTTP transports share: one client per server, one TLS context for all, careful redirects.

Takes requests to a server and their answers back: over a kept plain connection where that will do, which costs a
call no task and a twentieth of httpx2's time, and over httpx2 for everything unusual.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

import anyio
import anyio.abc
import httpx2

from mcpproxy_py import __version__
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.oauth.auth import NO_AUTH, AuthFor, NoAuth, ServerAuth
from mcpproxy_py.upstream.session.rpc import Outgoing, send_now
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.http_exchange import HttpExchange, refusal, unsent
from mcpproxy_py.upstream.transports.http_pool import SLICE, HttpConnection, OriginPool, ResponseHead, fields

MAX_REDIRECTS: Final = 3
WRITE_TIMEOUT: Final = 30.0
BROKEN: Final = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)
MOMENTS: Final = frozenset(("http11.send_request_headers.started", "http11.send_request_body.started"))
"""What httpx2 tells (its extension `trace`) in the turn of the loop in which it writes."""
_SURPLUS: Final = attrgetter(
    "stream._stream._httpcore_stream._stream._connection._h11_state.trailing_data"  # no public name leads there
)
_FRAMING: Final = frozenset({"connection", "content-length", "expect", "te", "transfer-encoding", "upgrade"})
"""Whoever configures one of these means something that a plain POST does not do."""


class HttpClients:
    """One per supervisor. Making a TLS context costs 14 ms, which per call would be most of the call."""

    def __init__(self, auth_for: AuthFor | None = None, traced: bool = False) -> None:
        self._auth_for = auth_for
        self.traced = traced

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()

    def auth(self, spec: UpstreamSpec) -> ServerAuth | NoAuth:
        return (self._auth_for(spec) if self._auth_for else None) or NO_AUTH

    def bare(self, url: httpx2.URL, timeout: float) -> httpx2.AsyncClient:
        """For one request to somebody who is no server of ours: nothing that is configured for one goes there."""
        return httpx2.AsyncClient(
            verify=self._tls, timeout=timeout, trust_env=False, proxy=proxy_for(url), follow_redirects=False
        )

    def client(self, spec: UpstreamSpec) -> httpx2.AsyncClient:
        # No read timeout: each request has its own deadline, and streams may be silent for hours.
        timeout = httpx2.Timeout(None, connect=spec.connect_timeout, write=WRITE_TIMEOUT)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=spec.max_concurrency)
        auth, url = self.auth(spec), httpx2.URL(spec.url or "")
        return httpx2.AsyncClient(
            verify=self._tls, timeout=timeout, limits=limits, headers=_headers(spec),
            auth=None if isinstance(auth, NoAuth) or url.userinfo else _ServerLogin(auth),
            trust_env=False, proxy=proxy_for(url),
        )  # fmt: skip

    def origin(self, spec: UpstreamSpec, client: httpx2.AsyncClient, headers: Mapping[str, str]) -> OriginPool | None:
        """The short way to this server for plain POSTs, all of which carry `headers`; None where it takes httpx2."""
        url, sent = httpx2.URL(spec.url or ""), _headers(spec)
        if url.userinfo or proxy_for(url) or not _FRAMING.isdisjoint(sent):
            return None
        try:
            return OriginPool(url, {**sent, **headers}, self._tls, spec.connect_timeout, spec.max_concurrency)
        except ValueError:
            return None


class _ServerLogin(httpx2.Auth):
    """Puts on each request what is to be shown at that moment. None goes elsewhere by a redirect, see `stream`."""

    def __init__(self, auth: ServerAuth | NoAuth) -> None:
        self._auth = auth

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._auth.until <= time.time():
            await self._auth.prepare()
        request.headers.update(self._auth.headers)
        yield request


def _headers(spec: UpstreamSpec) -> dict[str, str]:
    ours = {"user-agent": f"mcpproxy/{__version__}", "accept-encoding": "identity"}
    return {**ours, **{name.lower(): value for name, value in spec.headers.items()}}


def proxy_for(url: httpx2.URL) -> str | None:
    """The proxy that the environment wants for this URL. Asked here for both clients, so that they agree."""
    proxies = getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    if not found or proxy_bypass(url.netloc.decode("ascii")):
        return None
    return found if "://" in found else f"http://{found}"


@asynccontextmanager
async def stream(client: httpx2.AsyncClient, method: str, url: str, **request: Any) -> AsyncIterator[httpx2.Response]:
    """One exchange. A redirect is followed only within the origin and with the method kept: everything on the
    request, its credentials too, was meant for the configured server and for nobody else."""
    response = await client.send(client.build_request(method, url, **request), stream=True, follow_redirects=False)
    for _ in range(MAX_REDIRECTS):
        following = _same_origin_redirect(response)
        if following is None:
            break
        await _release(response)
        response = await client.send(following, stream=True, follow_redirects=False)
    try:
        yield response
    finally:
        await _release(response)


async def _release(response: httpx2.Response) -> None:
    """Give its connection back, or hang up: the library would take surplus bytes for the next response there."""
    try:
        surplus: bytes = _SURPLUS(response)[0]
    except AttributeError:  # another version of the library
        surplus = b"unknown"
    try:
        if surplus:
            await response.extensions["network_stream"].aclose()
    finally:
        await response.aclose()


@asynccontextmanager
async def post(
    client: httpx2.AsyncClient, url: str, outgoing: Outgoing, headers: Mapping[str, str]
) -> AsyncIterator[httpx2.Response]:
    """One message of ours. It is made at the moment in which its head is written, after all waiting for a connection
    and again for every redirect; until then there is only a place for it. Its body may have to wait for the head, so it
    is permitted once more. Raises `Withheld` where it may not leave."""

    async def moment(event: str, info: Mapping[str, Any]) -> None:
        if event not in MOMENTS:
            return
        request = info["request"]
        if request.method != b"POST":  # a proxy is asked for a tunnel first
            return
        if not send_now(outgoing, partial(_fill, request)):
            raise Withheld

    async with stream(client, "POST", url, content=b"", headers=headers, extensions={"trace": moment}) as response:
        yield response


class Withheld(Exception):
    """Nothing was sent; whoever waits for the answer knows why."""


def _fill(request: Any, payload: bytes, headers: Mapping[str, str]) -> None:
    """The request as it is about to be written, with this message in it."""
    ours = {name.lower().encode(): value.encode("latin-1") for name, value in headers.items()}
    ours[b"content-length"] = str(len(payload)).encode()
    kept = [(name, value) for name, value in request.headers if name.lower() not in ours]
    request.headers = [*kept, *ours.items()]
    request.stream = httpx2.ByteStream(payload)


def _same_origin_redirect(response: httpx2.Response) -> httpx2.Request | None:
    sent, following = response.request, response.next_request
    if following is None or following.method != sent.method or following.url.userinfo != sent.url.userinfo:
        return None
    here, there = ((r.url.scheme, r.url.host, r.url.port) for r in (sent, following))
    return following if here == there else None


async def slices(chunk: bytes) -> AsyncIterator[bytes]:
    """What is read of it in each turn of the event loop."""
    for begin in range(0, len(chunk), SLICE):
        yield chunk[begin : begin + SLICE]
        await asyncio.sleep(0)


def head_of(response: httpx2.Response) -> ResponseHead:
    return ResponseHead(
        response.status_code, {name.lower(): value for name, value in response.headers.raw}, response.headers.raw
    )


def challenge_of(head: ResponseHead) -> str | None:
    """What the server wants to be shown, where that is why it turned a request away."""
    said = b", ".join(value for name, value in head.raw if name.lower() == b"www-authenticate").decode("latin-1")
    return said if head.status == 401 or (head.status == 403 and "insufficient_scope" in said) else None


logger = logging.getLogger(__name__)

SAY_IT_THERE: Final = frozenset({307, 308})
"""The statuses that ask for the same request at another address, so it was not acted on at this one."""
NOT_CONNECTED: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol,
                        httpx2.InvalidURL)  # fmt: skip


class RequestSender:
    def __init__(
        self, url: str, client: httpx2.AsyncClient, origin: OriginPool | None, headers: Mapping[str, str],
        tasks: anyio.abc.TaskGroup, auth: ServerAuth | NoAuth = NO_AUTH,
    ) -> None:  # fmt: skip
        """`headers` go with every request; what `origin` sends has them already."""
        self._url, self._client, self._headers, self._tasks = url, client, headers, tasks
        self._origin = origin
        self._auth = auth
        self._leave_plain = origin is None

    def carry(self, exchange: HttpExchange, headers: Mapping[str, str]) -> None:
        """`headers` are those of the session; the message brings its own, when it is made."""
        if self._auth.until <= time.time():
            self._start(exchange, self._when_prepared, headers)
        else:
            self._carry_now(exchange, headers)

    def _carry_now(self, exchange: HttpExchange, headers: Mapping[str, str]) -> None:
        exchange.auth_version = self._auth.version
        if self._origin is None or self._leave_plain:
            self._start(exchange, self._by_httpx2, {**self._headers, **headers})
            return
        exchange.plain = True
        connection = self._origin.idle()
        if connection is None:
            self._start(exchange, self._by_new_connection, headers)
        else:
            _send(self._origin, connection, {**headers, **self._auth.headers}, exchange)

    async def _when_prepared(self, exchange: HttpExchange, headers: Mapping[str, str]) -> None:
        await self._auth.prepare()
        self._carry_now(exchange, headers)

    def asks_who(self, exchange: HttpExchange, head: ResponseHead, headers: Mapping[str, str]) -> bool:
        """Whether the server turned the request away for who it is from, and somebody looks after that. By 401 it says
        that it did not act (RFC 9110, 15.5.2), and by a scope that does not suffice as well (RFC 6750): so such a
        request may be sent once more, even one that writes, as `send_now` permits it again."""
        challenge = None if self._auth is NO_AUTH else challenge_of(head)
        if challenge is None:
            return False
        exchange.carried += 1
        exchange.hang_up()
        self._start(exchange, self._ask_who, (head, challenge, headers))
        return True

    async def _ask_who(self, exchange: HttpExchange, how: tuple[ResponseHead, str, Mapping[str, str]]) -> None:
        head, challenge, headers = how
        again, exchange.asked_who = exchange.asked_who, True
        if not await self._auth.challenged(head.status, challenge, exchange.auth_version, again) or again:
            raise refusal(head)
        self._carry_now(exchange, headers)

    def must_repeat(self, exchange: HttpExchange, head: ResponseHead) -> bool:
        """Whether this exchange has to be carried again; the way for all later ones may change with it. A cookie is
        often which of several servers knows the session."""
        if not exchange.plain:
            return False
        if b"set-cookie" in head.fields:
            self._leave_plain = True
            request = httpx2.Request("POST", self._url)
            self._client.cookies.extract_cookies(httpx2.Response(head.status, headers=head.raw, request=request))
        if head.status not in SAY_IT_THERE:
            return False
        exchange.plain, self._leave_plain = False, True
        exchange.hang_up()
        return True

    def close(self) -> None:
        if self._origin is not None:
            self._origin.close()

    def _start(self, exchange: HttpExchange, carry: Callable[..., Awaitable[None]], how: Any) -> None:
        scope = anyio.CancelScope()
        exchange.hang_up = scope.cancel
        self._tasks.start_soon(self._within, scope, carry, exchange, how)

    async def _within(
        self, scope: anyio.CancelScope, carry: Callable[..., Awaitable[None]], exchange: HttpExchange, how: Any
    ) -> None:
        with scope:
            try:
                await carry(exchange, how)
            except Withheld:
                exchange.withheld()
            except UpstreamFailure as failure:
                exchange.fail(failure)
            except httpx2.ConnectError as error:
                exchange.unreachable(error)
            except NOT_CONNECTED as error:
                exchange.fail(unsent(error))
            except BROKEN as error:
                exchange.broken(f"the connection broke ({error or type(error).__name__})")
            except Exception as error:
                logger.exception("an exchange over HTTP failed")
                exchange.broken(f"the exchange failed ({type(error).__name__})")

    async def _by_new_connection(self, exchange: HttpExchange, headers: Mapping[str, str]) -> None:
        assert self._origin is not None
        try:
            connection = await self._origin.connect()
        except TimeoutError as error:
            exchange.fail(unsent(error))
        except OSError as error:
            exchange.unreachable(error)
        else:
            _send(self._origin, connection, {**headers, **self._auth.headers}, exchange)

    async def _by_httpx2(self, exchange: HttpExchange, headers: Mapping[str, str]) -> None:
        async with post(self._client, self._url, exchange.pending, headers) as response:
            carried = exchange.carried
            exchange.head(head_of(response))
            if exchange.carried != carried:  # it goes another way from here
                return
            async for chunk in response.aiter_raw():
                async for slice_ in slices(chunk):
                    exchange.body(slice_)
                    await exchange.room()
        exchange.end()


def _send(origin: OriginPool, connection: HttpConnection, session: Mapping[str, str], exchange: HttpExchange) -> None:
    """On a connection that waits for nothing."""

    def write(payload: bytes, headers: Mapping[str, str]) -> None:
        request = origin.request(_written({**session, **headers}), payload)
        exchange.hang_up, exchange.source = connection.abort, connection.hold
        connection.send(request, exchange)

    if not send_now(exchange.pending, write):
        origin.free(connection)
        exchange.withheld()


def _written(headers: Mapping[str, str]) -> bytes:
    try:
        return fields(headers)
    except ValueError as error:
        raise UpstreamFailure(Code.UPSTREAM_ERROR, f"the request cannot be written: {error}", sent=False) from None
