"""An ordinary server made with the official SDK: stdio, or `--http PORT` (at /mcp), or `--sse PORT` (at /sse).

It speaks both eras, as the SDK does. Over HTTP the first line on stdout is `PORT <n>`; port 0 takes a free one,
and the server ends when its stdin does, so that no test can leave it behind.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from starlette.applications import Starlette

server = MCPServer("sdk", instructions="Notes, kept in memory.", log_level="ERROR")
NOTES: dict[str, str] = {}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
def add(name: str, text: str) -> str:
    """Keep a note under a name."""
    NOTES[name] = text
    return f"kept {name}"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def delete(name: str) -> str:
    """Delete the note of this name."""
    return f"deleted {NOTES.pop(name, None)!r}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def count(steps: int, ctx: Context) -> str:
    """Report progress, step by step."""
    for step in range(steps):
        await ctx.report_progress(step, steps, f"step {step}")
    return str(steps)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def slow(seconds: float) -> str:
    """Answer after that many seconds."""
    await anyio.sleep(seconds)
    return "done"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Add a tool of this name, and say that the list changed."""
    server.add_tool(echo, name=name)
    await ctx.notify_tools_changed()
    return "grown"


def serve_http(app: Starlette, port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    print(f"PORT {listener.getsockname()[1]}", flush=True)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on")).run(sockets=[listener])


def end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int)
    parser.add_argument("--sse", type=int)
    args = parser.parse_args()
    if args.http is not None:
        serve_http(server.streamable_http_app(), args.http)
    elif args.sse is not None:
        serve_http(server.sse_app(), args.sse)
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
