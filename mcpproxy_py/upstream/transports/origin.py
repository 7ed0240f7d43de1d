"""The kept connections to one server, and the bytes that every request to it begins with."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Final

import aiohappyeyeballs
import httpx2

from mcpproxy_py.upstream.transports.http_pool import HttpConnection

KEEP_IDLE: Final = 4.0
"""Many servers hang up after five idle seconds; a request that meets that in the middle may be lost."""
HAPPY_EYEBALLS_DELAY: Final = 0.25
_FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*")


class Origin:
    def __init__(
        self, url: httpx2.URL, headers: Mapping[str, str], tls: ssl.SSLContext, connect_timeout: float, keep: int
    ) -> None:
        self._address = (url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80))
        self._tls = tls if url.scheme == "https" else None
        self._connect_timeout = connect_timeout
        host = {"host": url.netloc.decode("ascii")}
        self._start = b"POST " + url.raw_path + b" HTTP/1.1\r\n" + fields({**host, **headers})
        self._idle: deque[HttpConnection] = deque()
        self._keep = keep
        self._live: set[HttpConnection] = set()
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None

    def request(self, headers: bytes, payload: bytes) -> bytes:
        return b"%scontent-length: %d\r\n%s\r\n%s" % (self._start, len(payload), headers, payload)

    def idle(self) -> HttpConnection | None:
        """A connection to send on at once; the one that was used last, since it is the likeliest to be alive."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_sound():
                return connection
            connection.abort()
        return None

    async def connect(self) -> HttpConnection:
        """Raises `OSError`; `TimeoutError` is one."""
        host, port = self._address
        async with asyncio.timeout(self._connect_timeout):
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            sock = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY)
            name = host if self._tls else None
            _, connection = await self._loop.create_connection(
                lambda: HttpConnection(self), sock=sock, ssl=self._tls, server_hostname=name
            )
        return connection

    def close(self) -> None:
        for connection in list(self._live):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()

    # What the connections tell.

    def made(self, connection: HttpConnection) -> None:
        self._live.add(connection)

    def free(self, connection: HttpConnection) -> None:
        connection.free_since = self._loop.time()
        self._idle.append(connection)
        if len(self._idle) > self._keep:
            self._idle.popleft().abort()
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(KEEP_IDLE, self._sweep)

    def lost(self, connection: HttpConnection) -> None:
        self._live.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _sweep(self) -> None:
        self._sweeper = None
        while self._idle and self._idle[0].free_since <= self._loop.time() - KEEP_IDLE:
            self._idle.popleft().abort()
        if self._idle:
            self._sweeper = self._loop.call_at(self._idle[0].free_since + KEEP_IDLE, self._sweep)


def fields(headers: Mapping[str, str]) -> bytes:
    """Header lines. Raises `ValueError` for what is no header: it could end the head early and smuggle a request."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if not all(map(_FIELD.fullmatch, lines)):
        raise ValueError("a header holds what a header may not")
    return "".join([f"{line}\r\n" for line in lines]).encode("latin-1")
