"""The gateway's own unix socket, where `mcpproxy stdio` attaches (SURF-5).

The far end says in one line what it wants, gets one line back, and from then on the socket carries plain
newline-delimited MCP in either era. Whoever may open the socket (mode 0600) is the user it belongs to.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json, to_json

log = logging.getLogger(__name__)

HELLO_LIMIT: Final = 4096
HELLO_TIMEOUT: Final = 10.0
Wish = Mapping[str, Any]


class Attachments:
    """Serves streams on the socket. `open_server` makes the server for one wish, or raises `ValueError`."""

    def __init__(self, path: Path, open_server: Callable[[Wish, str], Server[Any]], line_limit: int) -> None:
        self._path = path
        self._open_server = open_server
        self._line_limit = line_limit
        self.attached = 0

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled. The socket is born private: nobody gets in between bind and chmod."""
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            listener = await anyio.create_unix_listener(self._path, mode=0o600)
        finally:
            os.umask(before)
        try:
            async with listener:
                task_status.started()
                await listener.serve(self._serve)
        finally:
            self._path.unlink(missing_ok=True)

    async def _serve(self, stream: SocketStream) -> None:
        self.attached += 1
        try:
            async with stream:
                await self._converse(stream)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            pass  # the client left
        except Exception:
            log.exception("an attached client's stream failed")
        finally:
            self.attached -= 1

    async def _converse(self, stream: SocketStream) -> None:
        lines, line = BufferedByteReceiveStream(stream), _Line(stream)
        try:
            with anyio.fail_after(HELLO_TIMEOUT):
                wish = from_json(await lines.receive_until(b"\n", HELLO_LIMIT))
            server = self._open_server(wish if isinstance(wish, dict) else {}, secrets.token_hex(16))
        except (ValueError, TimeoutError, anyio.DelimiterNotFound, anyio.IncompleteRead) as error:
            await line.send({"error": str(error) or type(error).__name__})
            return
        await line.send({"ok": True})
        async with _as_messages(lines, line, self._line_limit) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


class _Line:
    """The sending half of a socket, one whole message at a time."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lock = anyio.Lock()

    async def send(self, message: Any) -> None:
        async with self._lock:
            await self._stream.send(to_json(message) + b"\n")

    async def refuse(self, message: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": message}})


@asynccontextmanager
async def _as_messages(
    lines: BufferedByteReceiveStream, line: _Line, line_limit: int
) -> AsyncIterator[tuple[Any, Any]]:
    """The socket as the pair of message streams that the SDK serves."""
    into_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with into_server:
            while True:
                try:
                    text = await lines.receive_until(b"\n", line_limit)
                except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
                    return
                except anyio.DelimiterNotFound:
                    await line.refuse(f"A message is longer than {line_limit} bytes")
                    return
                if text.strip():
                    await deliver(text)

    async def deliver(text: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(text, by_name=False)
        except ValidationError:
            await line.refuse("Parse error: not a JSON-RPC message")
            return
        await into_server.send(SessionMessage(message))

    async def write() -> None:
        async with from_server:
            async for item in from_server:
                await line.send(item.message.model_dump(by_alias=True, exclude_unset=True))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()
