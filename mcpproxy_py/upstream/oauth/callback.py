"""Where a browser brings the answer of a login: a page on this machine, at a fixed port, as long as a login waits."""

from __future__ import annotations

import asyncio
import html
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

PORT: Final = 33418
PORTS: Final = 10
"""How many after it are tried, where a registration still allows it."""
PATH: Final = "/callback"
MAX_HEAD: Final = 32_768
HEAD_TIMEOUT: Final = 10.0
MAX_AT_ONCE: Final = 16
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>mcpproxy</title>
<meta name="viewport" content="width=device-width"><style>body{font:1.1em/1.5 system-ui,sans-serif;margin:4em auto;
max-width:34em;padding:0 1em}</style><h1>%s</h1><p>%s</p></html>
"""
_HEAD: Final = (
    "HTTP/1.1 %s\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n"
    "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\n"
    "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n\r\n"
)
Answered = Callable[[str], Awaitable[tuple[bool, str]]]
"""Handed the path and query that a browser came with: whether that was the answer to a login, and what to say."""


class CallbackListener:
    """One for all logins that wait at the same port; which of them is meant, the state in the answer says."""

    def __init__(self, answered: Answered) -> None:
        self._answered = answered
        self._servers: dict[int, list[asyncio.Server]] = {}
        self._users: dict[int, int] = {}
        self._open = 0

    async def open(self, port: int) -> bool:
        """Whether it listens there now, at both addresses that `localhost` can mean where there are both. What was
        opened has to be closed."""
        if port not in self._servers:
            servers: list[asyncio.Server] = []
            for host in ("127.0.0.1", "::1"):
                try:
                    servers.append(await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD))
                except OSError as error:
                    log.debug("cannot listen at %s port %d: %s", host, port, error)
                    if host == "127.0.0.1":
                        return False
            self._servers[port] = servers
        self._users[port] = self._users.get(port, 0) + 1
        return True

    def close(self, port: int) -> None:
        self._users[port] -= 1
        if self._users[port] == 0:
            del self._users[port]
            for server in self._servers.pop(port):
                server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= MAX_AT_ONCE:
            writer.close()
            return
        self._open += 1
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
            status, title, text = await self._answer(head.partition(b"\r\n")[0].decode("ascii", "replace"))
            page = (_PAGE % (html.escape(title), html.escape(text))).encode()
            writer.write((_HEAD % (status, len(page))).encode() + page)
            async with asyncio.timeout(HEAD_TIMEOUT):
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError):
            log.debug("a request to the page for logins was not one")
        finally:
            self._open -= 1
            with suppress(OSError):
                writer.close()

    async def _answer(self, line: str) -> tuple[str, str, str]:
        method, _, rest = line.partition(" ")
        target = rest.partition(" ")[0]
        if method != "GET" or not urlsplit(target).path.endswith(PATH):
            return "404 Not Found", "Nothing is here", "This page takes the answers of logins."
        done, says = await self._answered(target)
        title = "You are logged in" if done else "That did not work"
        return "200 OK" if done else "400 Bad Request", title, says
