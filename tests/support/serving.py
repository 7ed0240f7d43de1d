"""A real server in front of an application, in the test's own process, and over the gateway's own protocol."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcpproxy_py.serve.http.asgi import answered_by
from mcpproxy_py.serve.http.guard import Guard
from mcpproxy_py.serve.http.request import HeadCache
from mcpproxy_py.serve.http.server import HttpServer


@asynccontextmanager
async def serving(app: Any, heads: HeadCache | None = None, **options: Any) -> AsyncIterator[int]:
    """Its port. `app` is one of ASGI, or a guard. `options` are uvicorn's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        handle = app.serve if isinstance(app, Guard) else answered_by(app)
        server = HttpServer(handle, heads, **{"timeout_graceful_shutdown": 1, **options})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield listener.getsockname()[1]
            finally:
                server.should_exit = True
