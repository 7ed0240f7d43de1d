"""Upstreams that live inside the gateway. They get no shortcut: the supervisor sees a connection like any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from mcp_types.version import LATEST_HANDSHAKE_VERSION

from mcpproxy_py import __version__
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.upstream.failure import MAY_HAVE_ACTED, UpstreamFailure, bad_answer
from mcpproxy_py.upstream.messages import METHOD_NOT_FOUND
from mcpproxy_py.upstream.wire import OnNotification, OnProgress

logger = logging.getLogger(__name__)


class LocalUpstream(Protocol):
    """What a built-in upstream has to offer. Both give raw wire objects."""

    async def list_tools(self) -> list[dict[str, Any]]: ...

    async def call_tool(self, name: str, args: dict[str, Any]) -> dict[str, Any]: ...


class LocalConnection:
    def __init__(self, name: str, upstream: LocalUpstream) -> None:
        self.closed = asyncio.Event()
        self.why = ""
        self.on_notification: OnNotification = lambda method, params: None
        self.on_closed: Callable[[], None] = lambda: None
        self._name = name
        self._upstream = upstream

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None,
        on_progress: OnProgress | None = None, headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        try:
            async with asyncio.timeout(timeout):
                return await self._answer(method, params)
        except TimeoutError:
            message = f"no answer to {method} within {timeout:.3g} s; {MAY_HAVE_ACTED}"
            raise UpstreamFailure(Code.TIMEOUT, message) from None
        except UpstreamFailure:
            raise
        except GatewayError as error:  # an expected failure, in the words of whoever lives in here
            raise UpstreamFailure(error.code, error.message, sent=False) from None
        except Exception as error:
            logger.exception("the built-in server %s failed", self._name)
            raise bad_answer(f"it failed inside ({type(error).__name__})") from None

    def _answer(self, method: str, params: Mapping[str, Any]) -> Awaitable[dict[str, Any]]:
        if method == "tools/call":
            return self._upstream.call_tool(params["name"], dict(params.get("arguments") or {}))
        return self._describe(method)

    async def _describe(self, method: str) -> dict[str, Any]:
        if method == "tools/list":
            return {"tools": await self._upstream.list_tools()}
        if method == "initialize":
            info = {"name": self._name, "version": __version__}
            return {"protocolVersion": LATEST_HANDSHAKE_VERSION, "serverInfo": info, "capabilities": {"tools": {}}}
        raise bad_answer(f"the built-in server {self._name} has no {method[:80]}", {"code": METHOD_NOT_FOUND})

    async def notify(
        self, method: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Nothing in here waits to be notified."""

    def counts(self) -> dict[str, int]:
        return {}


@asynccontextmanager
async def open_local(name: str, upstream: LocalUpstream) -> AsyncIterator[LocalConnection]:
    yield LocalConnection(name, upstream)
