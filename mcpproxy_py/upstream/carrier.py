"""Takes requests to a server and their answers back: over a kept plain connection where that will do, which costs a
call no task and a twentieth of httpx2's time, and over httpx2 for everything unusual."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import anyio.abc
import httpx2

from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.exchange import Exchange
from mcpproxy_py.upstream.failure import UpstreamFailure
from mcpproxy_py.upstream.http1 import Head, HttpConnection
from mcpproxy_py.upstream.origin import Origin, fields
from mcpproxy_py.upstream.web import BROKEN, head_of, stream, unsent

logger = logging.getLogger(__name__)

SAY_IT_THERE: Final = frozenset({307, 308})
"""The statuses that ask for the same request at another address, so it was not acted on at this one."""
NOT_CONNECTED: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol,
                        httpx2.InvalidURL)  # fmt: skip


class Carrier:
    def __init__(
        self, url: str, client: httpx2.AsyncClient, origin: Origin | None, headers: Mapping[str, str],
        tasks: anyio.abc.TaskGroup,
    ) -> None:  # fmt: skip
        """`headers` go with every request; what `origin` sends has them already."""
        self._url, self._client, self._headers, self._tasks = url, client, headers, tasks
        self._origin = origin
        self._leave_plain = origin is None

    def carry(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        """Raises `UpstreamFailure` if these headers cannot be written."""
        if self._origin is None or self._leave_plain:
            self._start(exchange, self._by_httpx2, {**self._headers, **headers})
            return
        exchange.plain = True
        request = self._origin.request(_written(headers), exchange.payload)
        connection = self._origin.idle()
        if connection is None:
            self._start(exchange, self._by_new_connection, request)
        else:
            _send(connection, request, exchange)

    def must_repeat(self, exchange: Exchange, head: Head) -> bool:
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

    def _start(self, exchange: Exchange, carry: Callable[..., Awaitable[None]], how: Any) -> None:
        scope = anyio.CancelScope()
        exchange.hang_up = scope.cancel
        self._tasks.start_soon(self._within, scope, carry, exchange, how)

    async def _within(
        self, scope: anyio.CancelScope, carry: Callable[..., Awaitable[None]], exchange: Exchange, how: Any
    ) -> None:
        with scope:
            try:
                await carry(exchange, how)
            except httpx2.ConnectError as error:
                exchange.unreachable(error)
            except NOT_CONNECTED as error:
                exchange.fail(unsent(error))
            except BROKEN as error:
                exchange.broken(f"the connection broke ({error or type(error).__name__})")
            except Exception as error:
                logger.exception("an exchange over HTTP failed")
                exchange.broken(f"the exchange failed ({type(error).__name__})")

    async def _by_new_connection(self, exchange: Exchange, request: bytes) -> None:
        assert self._origin is not None
        try:
            connection = await self._origin.connect()
        except TimeoutError as error:
            exchange.fail(unsent(error))
        except OSError as error:
            exchange.unreachable(error)
        else:
            _send(connection, request, exchange)

    async def _by_httpx2(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        exchange.sent()
        async with stream(self._client, "POST", self._url, content=exchange.payload, headers=headers) as response:
            exchange.head(head_of(response))
            async for chunk in response.aiter_raw():
                exchange.body(chunk)
        exchange.end()


def _send(connection: HttpConnection, request: bytes, exchange: Exchange) -> None:
    exchange.hang_up = connection.abort
    exchange.sent()
    connection.send(request, exchange)


def _written(headers: Mapping[str, str]) -> bytes:
    try:
        return fields(headers)
    except ValueError as error:
        raise UpstreamFailure(Code.UPSTREAM_ERROR, f"the request cannot be written: {error}", sent=False) from None
