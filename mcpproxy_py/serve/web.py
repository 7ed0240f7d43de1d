"""HTTP: uvicorn with our own protocol in it, and with the signals taken out of its hands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from mcpproxy_py.serve.head import Heads
from mcpproxy_py.serve.http1 import Http1


class Web(uvicorn.Server):
    """Stopping means draining first, so signals are the composition root's."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(Http1, heads=Heads()),  # type: ignore[arg-type]  # it is called like the class
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
