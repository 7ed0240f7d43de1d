"""Requests to authorization servers: what a flow wants sent, over the room's own HTTP client, within narrow limits.

A client of its own for each request: nothing of one server's, neither a cookie nor a connection, comes to another.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2

from mcpproxy_py import __version__
from mcpproxy_py.core.oauth.addresses import NEARNESS, AddressRules, Nearness, nearness, nearness_of_host
from mcpproxy_py.core.oauth.errors import OAuthRefused, OAuthUnreachable
from mcpproxy_py.core.oauth.values import HttpAnswer, HttpWanted
from mcpproxy_py.upstream.transports.http_clients import BROKEN, HttpClients, proxy_for

MAX_BODY: Final = 256 * 1024
TIMEOUT: Final = 30.0
CONNECTED: Final = "connection.connect_tcp.complete"
"""What httpx2 tells when there is a connection and nothing was written to it."""


class OAuthHttp:
    def __init__(self, clients: HttpClients, clock: Callable[[], float] = time.time, timeout: float = TIMEOUT) -> None:
        self._clients = clients
        self._clock = clock
        self._timeout = timeout

    async def send(self, wanted: HttpWanted, rules: AddressRules) -> HttpAnswer:
        """Raises `OAuthRefused` for what is not to be asked or answers too much, `OAuthUnreachable` for what does not
        answer."""
        url = httpx2.URL(wanted.url)
        proxied = proxy_for(url) is not None

        async def peer(event: str, info: Mapping[str, Any]) -> None:
            """A name can lead anywhere; where it led to is looked at before anything is written."""
            if event != CONNECTED or proxied:
                return
            address = info["return_value"].get_extra_info("server_addr")
            rules.check_peer(ip_address(str(address[0]).partition("%")[0]), wanted.what)

        try:
            with anyio.fail_after(self._timeout):
                async with self._clients.bare(url, self._timeout) as client:
                    return await self._exchange(client, wanted, {"trace": peer})
        except TimeoutError:
            raise OAuthUnreachable(f"{wanted.what} took longer than {self._timeout:g} s") from None
        except (*BROKEN, ValueError) as error:
            raise OAuthUnreachable(f"{wanted.what} cannot be had ({_host(url)}: {type(error).__name__})") from None

    async def _exchange(self, client: httpx2.AsyncClient, wanted: HttpWanted, extensions: dict[str, Any]) -> HttpAnswer:
        body: dict[str, Any] = {}
        if wanted.form is not None:
            body = {"data": dict(wanted.form)}
        elif wanted.json is not None:
            body = {"json": dict(wanted.json)}
        headers = {**wanted.headers, "user-agent": f"mcpproxy/{__version__}", "accept-encoding": "identity"}
        request = client.build_request(wanted.method, wanted.url, headers=headers, extensions=extensions, **body)
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise OAuthRefused(f"{wanted.what} is compressed, which was not asked for")
            read = bytearray()
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) > MAX_BODY:
                    raise OAuthRefused(f"{wanted.what} is larger than {MAX_BODY} bytes")
            challenge = ", ".join(response.headers.get_list("www-authenticate"))
            return HttpAnswer(response.status_code, bytes(read), self._clock(), challenge)
        finally:
            await response.aclose()


def _host(url: httpx2.URL) -> str:
    return url.netloc.decode("ascii", "replace").rpartition("@")[2]


async def rules_for(server_url: str) -> AddressRules:
    """How near the server is: of its addresses the one that is farthest away. One that cannot be looked up, or is
    reached by a proxy, is public."""
    host = urlsplit(server_url).hostname or ""
    near: Nearness | None = nearness_of_host(host)
    if near is None and proxy_for(httpx2.URL(server_url)) is None:
        try:
            found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:
            found = []
        known: list[Nearness] = [nearness(ip_address(str(each[4][0]).partition("%")[0])) for each in found]
        near = min(known, key=NEARNESS.index) if known else None
    return AddressRules(server_url, near or "public")
