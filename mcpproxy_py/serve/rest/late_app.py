"""REST, made when somebody first asks for it, or a moment after the start: its hundred models are a part of the start
that clients of MCP have no use for. It is imported and made in a thread, while the event loop serves others.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Final

import anyio
import anyio.to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpproxy_py.serve.http.asgi import answer
from mcpproxy_py.upstream.turns import uncollected

log = logging.getLogger(__name__)

SOON: Final = 1.0
"""Seconds after the start. It is not left to the first request alone: whoever installs another version over this one
would else get a REST interface of that version in a gateway of this one."""
ALIVE: Final = "/healthz"
"""Whoever starts a gateway asks this again and again, and the answer needs nothing."""


class LateRest:
    """What of REST answers now is `app`."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        """`make` imports what it needs; called in a thread."""
        self.app: ASGIApp = self._first
        self._make = make
        self._turn = anyio.Lock()

    async def run(self) -> None:
        await anyio.sleep(SOON)
        try:
            await self._made()
        except Exception:
            log.exception("the REST interface could not be made; the next request tries again")

    async def _first(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == ALIVE and scope["method"] in ("GET", "HEAD") and not scope["query_string"]:
            await answer({"status": "ok"})(scope, receive, send)
        else:
            await (await self._made())(scope, receive, send)

    async def _made(self) -> ASGIApp:
        async with self._turn:
            if self.app == self._first:
                self.app = await anyio.to_thread.run_sync(uncollected, self._make)
                gc.freeze()  # it stays, and nobody need look through it for garbage
        return self.app
