"""Head and body of an answer leave together.

uvicorn writes them one after the other, and each write to a client on the same machine wakes it: on a virtual machine
that costs more than all of our own work on the answer (docs/explanation/performance.md).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HELD: Final = 64 * 1024


class Corked:
    """A transport that holds what is written until the event loop turns, or there is much of it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._soon = asyncio.get_running_loop().call_soon
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._held:
            self._soon(self._flush)
        self._held.append(data)
        self._size += len(data)
        if self._size > MOST_HELD:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            held, self._held, self._size = self._held, [], 0
            self._transport.write(b"".join(held))

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class CorkedHttp(HttpToolsProtocol):
    def connection_made(self, transport: Any) -> None:
        super().connection_made(Corked(transport))  # type: ignore[arg-type]
