"""Takes requests to a server and their answers back: over a kept plain connection where that will do, which costs a
call no task and a twentieth of httpx2's time, and over httpx2 for everything unusual."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import anyio.abc
import httpx2

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.session.rpc import send_now
from mcpproxy_py.upstream.transports.exchange import Exchange
from mcpproxy_py.upstream.transports.http_clients import BROKEN, Withheld, head_of, post, unsent
from mcpproxy_py.upstream.transports.http_pool import Head, HttpConnection
from mcpproxy_py.upstream.transports.origin import Origin, fields

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
        """`headers` are those of the session; the message brings its own, when it is made."""
        if self._origin is None or self._leave_plain:
            self._start(exchange, self._by_httpx2, {**self._headers, **headers})
            return
        exchange.plain = True
        connection = self._origin.idle()
        if connection is None:
            self._start(exchange, self._by_new_connection, headers)
        else:
            _send(self._origin, connection, headers, exchange)

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
            except Withheld:
                exchange.withheld()
            except httpx2.ConnectError as error:
                exchange.unreachable(error)
            except NOT_CONNECTED as error:
                exchange.fail(unsent(error))
            except BROKEN as error:
                exchange.broken(f"the connection broke ({error or type(error).__name__})")
            except Exception as error:
                logger.exception("an exchange over HTTP failed")
                exchange.broken(f"the exchange failed ({type(error).__name__})")

    async def _by_new_connection(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        assert self._origin is not None
        try:
            connection = await self._origin.connect()
        except TimeoutError as error:
            exchange.fail(unsent(error))
        except OSError as error:
            exchange.unreachable(error)
        else:
            _send(self._origin, connection, headers, exchange)

    async def _by_httpx2(self, exchange: Exchange, headers: Mapping[str, str]) -> None:
        async with post(self._client, self._url, exchange.pending, headers) as response:
            exchange.head(head_of(response))
            async for chunk in response.aiter_raw():
                exchange.body(chunk)
        exchange.end()


def _send(origin: Origin, connection: HttpConnection, session: Mapping[str, str], exchange: Exchange) -> None:
    """On a connection that waits for nothing."""

    def write(payload: bytes, headers: Mapping[str, str]) -> None:
        request = origin.request(_written({**session, **headers}), payload)
        exchange.hang_up = connection.abort
        connection.send(request, exchange)

    if not send_now(exchange.pending, write):
        origin.free(connection)
        exchange.withheld()


def _written(headers: Mapping[str, str]) -> bytes:
    try:
        return fields(headers)
    except ValueError as error:
        raise UpstreamFailure(Code.UPSTREAM_ERROR, f"the request cannot be written: {error}", sent=False) from None
