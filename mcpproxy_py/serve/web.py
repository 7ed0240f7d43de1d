"""HTTP: which path is whose, and uvicorn with the signals taken out of its hands."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpproxy_py.serve.http1 import Http1


class Pulse:
    """When somebody last wanted something over HTTP; a detached gateway ends when that is long ago."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.last = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.last = time.monotonic()
        await self._app(scope, receive, send)


class Web(uvicorn.Server):
    """Stopping means draining first, so signals are the composition root's."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Http1,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_keep_alive=75,
                timeout_graceful_shutdown=2,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
