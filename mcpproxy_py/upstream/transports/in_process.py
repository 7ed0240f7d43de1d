"""Upstreams that live inside the gateway. They get no shortcut: the supervisor sees a connection like any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from mcpproxy_py import __version__
from mcpproxy_py.core.protocol.client_channel import NOBODY, ClientChannel, UpstreamCallContext
from mcpproxy_py.core.protocol.constants import LATEST_MODERN, METHOD_NOT_FOUND, SERVER_INFO
from mcpproxy_py.core.protocol.own_meta import remove_own
from mcpproxy_py.core.values import Caller
from mcpproxy_py.errors import MAY_HAVE_ACTED, Code, GatewayError, RpcError, UpstreamFailure, bad_answer
from mcpproxy_py.upstream.permit import NotPermitted, Permit
from mcpproxy_py.upstream.session.connection import Hear, RpcConnection, Stamp, unstamped
from mcpproxy_py.upstream.session.server_requests import INPUT_TIMEOUT, no_answer

logger = logging.getLogger(__name__)


class InProcessServer(Protocol):
    """What a built-in upstream has to offer. Both give raw wire objects, as a server of the modern era would; an
    `RpcError` is passed on as the error it is.

    One that may turn out to be a server object of the `mcp` package has a third, `async server_object()`: the low-level
    `Server`, or `None` where it is none. Raises `GatewayError`."""

    async def list_tools(self) -> list[dict[str, Any]]: ...

    async def call_tool(self, name: str, args: dict[str, Any], context: UpstreamCallContext) -> dict[str, Any]: ...


class InProcessConnection(RpcConnection):
    def __init__(self, name: str, upstream: InProcessServer) -> None:
        super().__init__()
        self._name = name
        self._upstream = upstream

    async def request(
        self, permit: Permit, *, timeout: float | None, stamp: Stamp = unstamped, hear: Hear | None = None
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout(timeout) as limit:
                channel = _TimedChannel(permit, limit, timeout)
                try:
                    return await self._answer(permit, channel)
                finally:
                    if channel.forbidden is not None:  # whatever its function made of that
                        raise channel.forbidden
        except TimeoutError:
            message = f"no answer to {permit.method} within {timeout:.3g} s; {MAY_HAVE_ACTED}"
            raise UpstreamFailure(Code.TIMEOUT, message) from None
        except RpcError as error:
            said = {"code": error.code, "data": error.data}
            raise bad_answer(error.message, {key: value for key, value in said.items() if value is not None}) from None
        except (UpstreamFailure, NotPermitted):
            raise
        except GatewayError as error:  # an expected failure, in the words of whoever lives in here
            raise UpstreamFailure(error.code, error.message, sent=False) from None
        except Exception as error:
            logger.exception("the built-in server %s failed", self._name)
            raise bad_answer(f"it failed inside ({type(error).__name__})") from None

    async def _answer(self, permit: Permit, channel: ClientChannel) -> dict[str, Any]:
        """In the turn in which this was permitted, the server's own code begins to run."""
        method, params, _ = permit()
        if method == "tools/call":
            context = UpstreamCallContext(channel, params.get("inputResponses"), params.get("requestState"))
            return await self._upstream.call_tool(params["name"], dict(params.get("arguments") or {}), context)
        if method == "tools/list":
            tools = await self._upstream.list_tools()
            remove_own(tools)
            return {"tools": tools}
        if method == "server/discover":
            return self._describe()
        raise bad_answer(f"the built-in server {self._name} has no {method[:80]}", {"code": METHOD_NOT_FOUND})

    def _describe(self) -> dict[str, Any]:
        info = {"name": self._name, "version": __version__}
        return {
            "supportedVersions": [LATEST_MODERN],
            "capabilities": {"tools": {}},
            "_meta": {SERVER_INFO: info},
        }

    async def notify(self, permit: Permit, stamp: Stamp = unstamped) -> None:
        """Nothing in here waits to be notified."""


class _TimedChannel:
    """A client's channel, with the call's time standing still while the client is asked, and its answers permitted."""

    def __init__(self, permit: Permit, limit: asyncio.Timeout, timeout: float | None) -> None:
        self._permit = permit
        self._channel = channel = permit.channel or NOBODY
        self.forbidden: NotPermitted | None = None
        self._limit = limit
        self._timeout = timeout
        self._questions = 0
        self.capabilities = channel.capabilities
        self.wants_progress = channel.wants_progress
        self.live = channel.live
        self.local = channel.local
        self.key = channel.key
        self.pause = channel.pause

    @property
    def caller(self) -> Caller:
        return self._channel.caller

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        remove_own(params)
        self._channel.notify(method, params)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        remove_own(params)
        self._questions += 1
        self._limit.reschedule(None)
        try:
            async with asyncio.timeout(INPUT_TIMEOUT):
                said = await self._channel.request(method, params)
            await self._permit.record_answer(method, {"result": said})
            self._permit.answer({"result": said})
            return said
        except RpcError as error:
            await self._permit.record_answer(method, {"error": error.as_json()})
            raise
        except TimeoutError:
            raise no_answer() from None
        except NotPermitted as no:
            self.forbidden = no
            raise
        finally:
            self._questions -= 1
            self._go_on()

    def _go_on(self) -> None:
        if not self._questions and self._timeout is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + self._timeout)


@asynccontextmanager
async def open_local(
    name: str, upstream: InProcessServer, max_result_bytes: int, max_values: int
) -> AsyncIterator[RpcConnection]:
    """Raises `UpstreamFailure`."""
    find = getattr(upstream, "server_object", None)
    try:
        server = await find() if find is not None else None
    except GatewayError as error:
        raise UpstreamFailure(error.code, error.message, sent=False) from None
    if server is None:
        yield InProcessConnection(name, upstream)
        return
    from mcpproxy_py.upstream.transports.sdk_server import open_sdk_server

    async with open_sdk_server(name, server, max_result_bytes, max_values) as connection:
        yield connection
