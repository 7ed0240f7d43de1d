"""The gateway's own unix socket, where `mcpproxy stdio` attaches (SURF-5).

The far end says in one line what it wants, gets one line back, and from then on the socket carries plain
newline-delimited MCP in either era. Whoever may open the socket (mode 0600) is the user it belongs to.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic_core import from_json, to_json

from mcpproxy_py.core.revisions import PARSE_ERROR
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp import messages
from mcpproxy_py.serve.mcp.door import Door
from mcpproxy_py.serve.mcp.lines import Attached, Writer

log = logging.getLogger(__name__)

HELLO_LIMIT: Final = 4096
HELLO_TIMEOUT: Final = 10.0
Wish = Mapping[str, Any]


class Attachments:
    """Serves streams on the socket. `door_for` finds what one wish is for, or raises `ValueError`."""

    def __init__(self, path: Path, door_for: Callable[[Wish], Door], line_limit: int) -> None:
        self._path = path
        self._door_for = door_for
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
                await self._greet(stream)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            pass  # the client left
        except Exception:
            log.exception("an attached client's stream failed")
        finally:
            self.attached -= 1

    async def _greet(self, stream: SocketStream) -> None:
        lines = BufferedByteReceiveStream(stream)
        try:
            with anyio.fail_after(HELLO_TIMEOUT):
                wish = from_json(await lines.receive_until(b"\n", HELLO_LIMIT))
            door = self._door_for(wish if isinstance(wish, dict) else {})
        except (ValueError, TimeoutError, anyio.DelimiterNotFound, anyio.IncompleteRead) as error:
            await stream.send(to_json({"error": str(error) or type(error).__name__}) + b"\n")
            return
        await stream.send(to_json({"ok": True}) + b"\n")
        await self._converse(lines, stream, door)

    async def _converse(self, lines: BufferedByteReceiveStream, stream: SocketStream, door: Door) -> None:
        writer = Writer(stream.send)
        client = Attached(door, writer, secrets.token_hex(16))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.run)
            tasks.start_soon(_cancel_when, door.closed, tasks.cancel_scope)
            try:
                await self._read(lines, client, writer)
            finally:
                with anyio.CancelScope(shield=True):
                    await client.end()
            tasks.cancel_scope.cancel()

    async def _read(self, lines: BufferedByteReceiveStream, client: Attached, writer: Writer) -> None:
        while True:
            try:
                line = await lines.receive_until(b"\n", self._line_limit)
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
                return
            except anyio.DelimiterNotFound:
                too_long = RpcError(PARSE_ERROR, f"A message is longer than {self._line_limit} bytes")
                writer.put(messages.refusal(too_long))
                await writer.flush()
                return
            if not line.isspace() and line:
                client.take(line)


async def _cancel_when(closed: asyncio.Event, scope: anyio.CancelScope) -> None:
    """A surface that goes takes the streams on it with it, as it takes the sessions."""
    await closed.wait()
    scope.cancel()
