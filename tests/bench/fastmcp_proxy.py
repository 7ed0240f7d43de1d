"""FastMCP's proxy in its fair form: clients that stay connected, mounted under one server. Run by `peers.py` with an
interpreter that has `fastmcp`: the only argument is a JSON object of servers as IDEs write them."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import AsyncExitStack
from typing import Any

import uvicorn
import uvloop
from fastmcp import Client, FastMCP  # pyright: ignore[reportMissingImports]
from fastmcp.client.transports import StdioTransport  # pyright: ignore[reportMissingImports]
from fastmcp.server import create_proxy  # pyright: ignore[reportMissingImports]


def target(entry: dict[str, Any]) -> Any:
    return entry["url"] if "url" in entry else StdioTransport(entry["command"], entry["args"])


async def main() -> None:
    app = FastMCP("bench")
    async with AsyncExitStack() as stack:
        for name, entry in json.loads(sys.argv[1]).items():
            client = await stack.enter_async_context(Client(target(entry)))
            app.mount(create_proxy(client), namespace=name)
        listener = socket.create_server(("127.0.0.1", 0))
        print(f"PORT {listener.getsockname()[1]}", flush=True)
        await uvicorn.Server(uvicorn.Config(app.http_app(), log_level="error")).serve(sockets=[listener])


if __name__ == "__main__":
    uvloop.run(main())  # which also turns off Nagle's algorithm on this listener; plain asyncio would not
