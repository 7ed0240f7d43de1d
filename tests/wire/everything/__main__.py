"""`python -m tests.wire.everything [--http PORT] [--era both|handshake|modern] [--page N] [--notes FILE]`

Over HTTP the first line on stdout is `PORT <n>`, port 0 takes a free one, and the server ends when its stdin does.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest
from starlette.types import ASGIApp

from .eras import NO_HANDSHAKE, OneEra
from .notebook import FILE
from .resuming import Kept
from .server import Everything

warnings.simplefilter("ignore", MCPDeprecationWarning)
RETRY_MS = 100


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int, metavar="PORT")
    parser.add_argument("--era", choices=("both", "handshake", "modern"), default="both")
    parser.add_argument("--page", type=int, default=0, help="entries on a page of a list; 0: everything on one page")
    parser.add_argument(
        "--notes", type=Path, help="a file for what the tools note, for several processes of one server"
    )
    args = parser.parse_args()
    FILE.extend([args.notes] if args.notes else [])
    server = Everything(args.page).build()
    if args.http is None:
        anyio.run(serve_stdio, server, args.era)
    else:
        serve_http(server, args.era, args.http)


def serve_http(server: Server[Any], era: str, port: int) -> None:
    import uvicorn  # over stdio nobody waits for it

    app: ASGIApp = server.streamable_http_app(event_store=Kept(), retry_interval=RETRY_MS)
    listener = socket.create_server(("127.0.0.1", port))
    print(f"PORT {listener.getsockname()[1]}", flush=True)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    # h11 trims blanks around header values, as HTTP wants it; httptools does not.
    config = uvicorn.Config(OneEra(app, era) if era != "both" else app, http="h11", log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


async def serve_stdio(server: Server[Any], era: str) -> None:
    async with stdio_server() as (incoming, outgoing):
        if era == "handshake":
            options = server.create_initialization_options()
            await serve_loop(server, incoming, outgoing, lifespan_state={}, init_options=options)
        elif era == "both":
            await server.run(incoming, outgoing, server.create_initialization_options())
        else:
            await _serve_modern(server, incoming, outgoing)


async def _serve_modern(server: Server[Any], incoming: Any, outgoing: Any) -> None:
    """Refuse the handshake before the SDK sees it: what it sees first decides the era of the whole connection."""
    passed, received = anyio.create_memory_object_stream[SessionMessage | Exception](16)

    async def sift() -> None:
        async with passed:
            async for item in incoming:
                message = getattr(item, "message", None)
                if isinstance(message, JSONRPCRequest) and message.method == "initialize":
                    await outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=NO_HANDSHAKE)))  # type: ignore[arg-type]
                else:
                    await passed.send(item)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sift)
        await server.run(received, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    main()
