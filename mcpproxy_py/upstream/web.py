"""What the two HTTP transports share: one client per server, one TLS context for all, careful redirects."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, Final

import httpx2

from mcpproxy_py import __version__
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.failure import UpstreamFailure, bad_answer
from mcpproxy_py.upstream.spec import UpstreamSpec

AuthFor = Callable[[UpstreamSpec], httpx2.Auth | None]
MAX_REDIRECTS: Final = 3
WRITE_TIMEOUT: Final = 30.0
BROKEN: Final = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)
_HINTS: Final[Mapping[int, str]] = {
    401: "it wants authorization: give it a header, or log in",
    403: "it does not allow this",
    404: "nothing answers at this URL",
    405: "this URL does not take MCP messages",
    429: "it is asked too often",
}


class Web:
    """One per supervisor. Making a TLS context costs 14 ms, which per call would be most of the call."""

    def __init__(self, auth_for: AuthFor | None = None) -> None:
        self._auth_for = auth_for

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()

    def client(self, spec: UpstreamSpec) -> httpx2.AsyncClient:
        # No read timeout: each request has its own deadline, and streams may be silent for hours.
        timeout = httpx2.Timeout(None, connect=spec.connect_timeout, write=WRITE_TIMEOUT)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=spec.max_concurrency)
        headers = {"user-agent": f"mcpproxy/{__version__}", "accept-encoding": "identity", **spec.headers}
        auth = self._auth_for(spec) if self._auth_for else None
        return httpx2.AsyncClient(verify=self._tls, timeout=timeout, limits=limits, headers=headers, auth=auth)


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


def _same_origin_redirect(response: httpx2.Response) -> httpx2.Request | None:
    sent, following = response.request, response.next_request
    if following is None or following.method != sent.method or following.url.userinfo != sent.url.userinfo:
        return None
    here, there = ((r.url.scheme, r.url.host, r.url.port) for r in (sent, following))
    return following if here == there else None


def refusal(response: httpx2.Response) -> UpstreamFailure:
    """What an HTTP status that is no answer means. Names no query and no credentials: those can be secrets."""
    status = response.status_code
    if response.next_request is not None:
        location = response.next_request.url.copy_with(userinfo=b"", query=None, fragment=None)
        return bad_answer(f"it redirects to {location}, which is not followed; use that as the url if it is right")
    hint = _HINTS.get(status)
    return bad_answer(f"it answered with HTTP status {status}" + (f" ({hint})" if hint else ""), {"status": status})


def unreachable(error: Exception) -> str:
    return f"cannot connect: {error}" if str(error) else f"cannot connect: {type(error).__name__}"


def unsent(error: Exception) -> UpstreamFailure:
    return UpstreamFailure(Code.SERVER_UNAVAILABLE, unreachable(error), sent=False)


async def read_bounded(response: httpx2.Response, limit: int) -> bytes | None:
    """The whole body, or None as soon as it is more than `limit`."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            return None
    return bytes(body)
