"""What uvicorn leaves open: how long the head of a request may grow before its end has come (SEC-5).

Its parser collects header lines for as long as somebody sends them, and no application hears of it.
"""

from __future__ import annotations

from typing import Final

from mcpproxy_py.serve.corked import CorkedHttp

MAX_HEAD: Final = 128 * 1024
TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 53\r\nconnection: close\r\n\r\n"
    b"The request line and headers are too long: send less."
)


class BoundedHeads(CorkedHttp):
    """Counts what has come of a head that is not complete. What comes at once with its end is bounded by a read."""

    _head: int | None = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._head is None:
            return
        self._head += len(data)
        if self._head > MAX_HEAD:
            self.transport.write(TOO_LONG)
            self.transport.close()
