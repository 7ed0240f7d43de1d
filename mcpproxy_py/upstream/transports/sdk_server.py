"""A server object of the `mcp` package, served in this process (UP-13): its own loop, over streams in memory.

It is spoken to like a server behind a pipe, in either era, so that all it has (resources, prompts, elicitation,
progress) is there. `mcp` is imported by whoever made the object; here only what is loaded by then is used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.upstream.session.rpc import Headers, Outgoing, PendingRequest, RpcPeer, cancellation, send_now

logger = logging.getLogger(__name__)

MOST_UNREAD: Final = 4096
"""Messages that a server has not taken yet. More than all calls that may be under way, with their answers."""
ENDING_GRACE: Final = 2.0
"""Seconds that its lifespan gets to end by itself."""


class SdkServerConnection(RpcPeer):
    def __init__(self, name: str, max_result_bytes: int, max_values: int) -> None:
        super().__init__(max_result_bytes, max_values)
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        self._name = name
        self._as_message = lambda line: SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        streams = anyio.create_memory_object_stream[Any]
        self._to_server: MemoryObjectSendStream[Any]
        self._from_server: MemoryObjectReceiveStream[Any]
        self._to_server, self._server_reads = streams(MOST_UNREAD)
        self._server_writes, self._from_server = streams(MOST_UNREAD)

    def _send(self, outgoing: Outgoing) -> None:
        send_now(outgoing, self._write)

    def _write(self, message: bytes, headers: Headers) -> None:
        try:
            self._to_server.send_nowait(self._as_message(message))
        except anyio.WouldBlock:
            said = f"{self._name} has not read the last {MOST_UNREAD} messages"
            raise UpstreamFailure(Code.OVERLOADED, said, sent=False) from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # that it ends is noticed where it runs
            return

    def _retract(self, pending: PendingRequest, reason: str, cancellable: bool) -> None:
        if pending.sent and cancellable and not self.closed.is_set():
            send_now(cancellation(pending.id, reason), self._write)

    async def serve(self, server: Any) -> None:
        """Run it until it ends or is cancelled."""
        why = "it ended"
        try:
            await server.run(self._server_reads, self._server_writes, server.create_initialization_options())
        except Exception as error:
            logger.exception("the server object %s failed", self._name)
            why = f"it failed inside ({type(error).__name__}); the log says where"
        finally:
            self.shut(why)

    async def read(self) -> None:
        """Until it ends. A turn of the loop for each message, so that a flood of them delays nobody."""
        async with self._from_server:
            async for each in self._from_server:
                line: bytes = each.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                if len(line) > self._limit:
                    self._oversize(line[:1024], line[-1024:])
                else:
                    self.receive_text(line)
                await asyncio.sleep(0)

    async def hang_up(self) -> None:
        """Its end of the streams: it ends by itself then, in time or not."""
        await self._to_server.aclose()


@asynccontextmanager
async def open_sdk_server(
    name: str, server: Any, max_result_bytes: int, max_values: int
) -> AsyncIterator[SdkServerConnection]:
    connection = SdkServerConnection(name, max_result_bytes, max_values)
    async with anyio.create_task_group() as tasks:
        ended = anyio.Event()

        async def serve() -> None:
            try:
                await connection.serve(server)
            finally:
                ended.set()

        tasks.start_soon(serve)
        tasks.start_soon(connection.read)
        try:
            yield connection
        finally:
            connection.shut("the gateway is closing this connection")
            with anyio.CancelScope(shield=True):
                await connection.hang_up()
                with anyio.move_on_after(ENDING_GRACE):
                    await ended.wait()
            tasks.cancel_scope.cancel()
