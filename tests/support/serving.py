"""A real server in front of an application, in the test's own process, and over the gateway's own protocol."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import anyio
import uvicorn

from mcpproxy_py.serve.head import Heads
from mcpproxy_py.serve.http1 import Http1


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: Any, heads: Heads | None = None, **options: Any) -> AsyncIterator[int]:
    """Its port. `options` are uvicorn's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        http: Any = partial(Http1, heads=Heads() if heads is None else heads)
        config = uvicorn.Config(
            app, http=http, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1, **options
        )
        server = _Server(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True
