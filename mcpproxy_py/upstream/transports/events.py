"""Server-sent events, bounded: one event too large is dropped, and the stream goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from mcpproxy_py.lines import LineSplitter

FIELD_NAME_ROOM: Final = 64
"""What `data: ` and the like may add to a line that holds a message of the largest size."""
MAX_RETRY_SECONDS: Final = 30.0


class Event(NamedTuple):
    kind: str
    data: bytes


class EventParser:
    """Bytes in; complete events out, in order. `last_id` and `retry` are what to reconnect with."""

    def __init__(self, limit: int, on_event: Callable[[Event], None], on_oversize: Callable[[bytes, bytes], None]):
        self.last_id: str | None = None
        self.retry = 1.0
        self._limit = limit
        self._on_event = on_event
        self._on_oversize = on_oversize
        self._lines = LineSplitter(limit + FIELD_NAME_ROOM, self._line, self._line_oversize)
        self._dropped = False
        self._reset()

    def feed(self, data: bytes) -> None:
        self._lines.feed(data)

    def _reset(self) -> None:
        self._kind = "message"
        self._data: list[bytes] = []
        self._size = 0

    def _line(self, line: bytes) -> None:
        line = line.removesuffix(b"\r")
        if not line:
            self._dispatch()
            return
        name, _, value = line.partition(b":")
        self._field(name, value.removeprefix(b" "))

    def _dispatch(self) -> None:
        data, kind, dropped = b"\n".join(self._data), self._kind, self._dropped
        self._dropped = False
        self._reset()
        if data and not dropped:
            self._on_event(Event(kind, data))

    def _field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._kind = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self.last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = min(int(value) / 1000, MAX_RETRY_SECONDS)

    def _add(self, value: bytes) -> None:
        self._size += len(value)
        if self._size <= self._limit:
            self._data.append(value)
        elif not self._dropped:
            self._dropped = True
            head, self._data = b"".join(self._data) or value, []
            self._on_oversize(head[:512], b"")

    def _line_oversize(self, head: bytes, tail: bytes) -> None:
        self._dropped = True
        self._on_oversize(head.partition(b":")[2], tail)
