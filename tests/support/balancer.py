"""A load balancer that strictly takes turns: no two requests in a row go to the same gateway."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from anyio.from_thread import start_blocking_portal

HEAD_END = b"\r\n\r\n"
ONLY_ONE = re.compile(rb"\r\nconnection:[^\r]*\r\n", re.IGNORECASE)
CHUNK = 65_536


class Balancer:
    """Takes turns by having each connection closed after one request, so that the next needs a new one."""

    def __init__(self, gateways: Sequence[str]) -> None:
        self._addresses = [(parts.hostname, parts.port) for parts in map(urlsplit, gateways)]
        self._turn = itertools.cycle(range(len(gateways)))
        self.served = [0] * len(gateways)
        """How many requests each gateway got."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(HEAD_END)
            theirs, ours = await self._next()
            ours.write(ONLY_ONE.sub(b"\r\n", head).removesuffix(b"\r\n") + b"Connection: close\r\n\r\n")
            # Whoever hangs up first ends both: a client that leaves is how a modern call is cancelled.
            ways = [asyncio.create_task(_pour(*way)) for way in ((reader, ours), (theirs, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            ours.close()
        writer.close()

    async def _next(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Of whoever's turn it is; one that takes no connections is passed over. Raises `OSError` where none does."""
        for number in itertools.islice(self._turn, len(self._addresses)):
            with contextlib.suppress(ConnectionRefusedError):
                opened = await asyncio.open_connection(*self._addresses[number])
                self.served[number] += 1
                return opened
        raise ConnectionRefusedError


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()


@contextlib.contextmanager
def balanced(*gateways: str) -> Iterator[tuple[str, Balancer]]:
    """The address of one, in a thread of its own for the length of the block."""
    balancer = Balancer(gateways)
    with start_blocking_portal() as portal:
        server = portal.call(functools.partial(asyncio.start_server, balancer.serve, "127.0.0.1", 0, limit=CHUNK))
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", balancer
        finally:
            portal.call(server.close)
