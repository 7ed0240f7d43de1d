"""What the two HTTP transports share: one client per server, one TLS context for all, careful redirects."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

import httpx2

from mcpproxy_py import __version__
from mcpproxy_py._upstream_failure import UpstreamFailure, bad_answer
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.session.rpc import Outgoing, send_now
from mcpproxy_py.upstream.spec import UpstreamSpec
from mcpproxy_py.upstream.transports.http_pool import Head
from mcpproxy_py.upstream.transports.origin import Origin

AuthFor = Callable[[UpstreamSpec], httpx2.Auth | None]
MAX_REDIRECTS: Final = 3
WRITE_TIMEOUT: Final = 30.0
BROKEN: Final = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)
MOMENTS: Final = frozenset(("http11.send_request_headers.started", "http11.send_request_body.started"))
"""What httpx2 tells (its extension `trace`) in the turn of the loop in which it writes."""
_FRAMING: Final = frozenset({"connection", "content-length", "expect", "te", "transfer-encoding", "upgrade"})
"""Whoever configures one of these means something that a plain POST does not do."""
_HINTS: Final[Mapping[int, str]] = {
    401: "it wants authorization: give it a header, or log in",
    403: "it does not allow this",
    404: "nothing answers at this URL",
    405: "this URL does not take MCP messages",
    429: "it is asked too often",
}


class Web:
    """One per supervisor. Making a TLS context costs 14 ms, which per call would be most of the call."""

    def __init__(self, auth_for: AuthFor | None = None, traced: bool = False) -> None:
        self._auth_for = auth_for
        self.traced = traced

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()

    def client(self, spec: UpstreamSpec) -> httpx2.AsyncClient:
        # No read timeout: each request has its own deadline, and streams may be silent for hours.
        timeout = httpx2.Timeout(None, connect=spec.connect_timeout, write=WRITE_TIMEOUT)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=spec.max_concurrency)
        return httpx2.AsyncClient(
            verify=self._tls, timeout=timeout, limits=limits, headers=_headers(spec),
            auth=self._auth_for(spec) if self._auth_for else None,
            trust_env=False, proxy=proxy_for(httpx2.URL(spec.url or "")),
        )  # fmt: skip

    def origin(self, spec: UpstreamSpec, client: httpx2.AsyncClient, headers: Mapping[str, str]) -> Origin | None:
        """The short way to this server for plain POSTs, all of which carry `headers`; None where it takes httpx2."""
        url, sent = httpx2.URL(spec.url or ""), _headers(spec)
        if client.auth or url.userinfo or proxy_for(url) or not _FRAMING.isdisjoint(sent):
            return None
        try:
            return Origin(url, {**sent, **headers}, self._tls, spec.connect_timeout, spec.max_concurrency)
        except ValueError:
            return None


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
        await response.aclose()
        response = await client.send(following, stream=True, follow_redirects=False)
    try:
        yield response
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


def head_of(response: httpx2.Response) -> Head:
    return Head(
        response.status_code, {name.lower(): value for name, value in response.headers.raw}, response.headers.raw
    )


def refusal(head: Head) -> UpstreamFailure:
    """What an HTTP status that is no answer means. Names no query and no credentials: those can be secrets."""
    status = head.status
    if 300 <= status < 400 and (location := _location(head)):
        return bad_answer(f"it redirects to {location}, which is not followed; use that as the url if it is right")
    hint = _HINTS.get(status)
    return bad_answer(f"it answered with HTTP status {status}" + (f" ({hint})" if hint else ""), {"status": status})


def _location(head: Head) -> str:
    try:
        location = httpx2.URL(head.fields.get(b"location", b"").decode("ascii"))
    except (httpx2.InvalidURL, UnicodeDecodeError):
        return ""
    return str(location.copy_with(userinfo=b"", query=None, fragment=None))


def unreachable(error: Exception) -> str:
    return f"cannot connect: {error}" if str(error) else f"cannot connect: {type(error).__name__}"


def unsent(error: Exception) -> UpstreamFailure:
    return UpstreamFailure(Code.SERVER_UNAVAILABLE, unreachable(error), sent=False)
