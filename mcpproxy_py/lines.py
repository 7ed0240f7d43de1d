"""Newline framing that a hostile peer cannot make expensive."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

KEPT: Final = 512
"""How much of the two ends of a dropped line is kept, to find out which request it answered."""

# Anchored at the very start or the very end of the object, so that an "id" inside the result is never taken for it.
_HEAD: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_TAIL: Final = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


def id_at_the_edges(head: bytes, tail: bytes) -> int | None:
    """The request id of a message that was not or could not be parsed, where it stands in plain sight."""
    found = _HEAD.match(head) or _TAIL.search(tail)
    return int(found[1]) if found else None


class LineSplitter:
    """Cuts bytes into lines of at most `limit`; a longer one is skipped to its newline.

    `on_oversize(head, tail)` is called once with an empty tail when the limit is passed, so that the
    caller can fail the request at once, and once more at the newline.
    """

    def __init__(
        self, limit: int, on_line: Callable[[bytes], None], on_oversize: Callable[[bytes, bytes], None]
    ) -> None:
        self._limit = limit
        self._on_line = on_line
        self._on_oversize = on_oversize
        self._partial = bytearray()
        self._skipped_head: bytes | None = None
        self._skipped_tail = b""

    def feed(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        for piece in whole:
            if not self._partial and self._skipped_head is None and len(piece) <= self._limit:
                self._on_line(piece)  # nearly all of them: a line that comes at once
            else:
                self._extend(piece)
                self._end_line()
        if rest:
            self._extend(rest)

    def _extend(self, piece: bytes) -> None:
        if self._skipped_head is not None:
            self._skipped_tail = (self._skipped_tail + piece[-KEPT:])[-KEPT:]
        elif len(self._partial) + len(piece) <= self._limit:
            self._partial += piece
        else:
            self._start_skipping(piece)

    def _start_skipping(self, piece: bytes) -> None:
        self._skipped_head = bytes(self._partial[:KEPT]) + piece[: max(0, KEPT - len(self._partial))]
        self._skipped_tail = (bytes(self._partial[-KEPT:]) + piece[-KEPT:])[-KEPT:]
        self._partial = bytearray()
        self._on_oversize(self._skipped_head, b"")

    def _end_line(self) -> None:
        if self._skipped_head is not None:
            head, tail = self._skipped_head, self._skipped_tail
            self._skipped_head, self._skipped_tail = None, b""
            self._on_oversize(head, tail)
        else:
            line, self._partial = bytes(self._partial), bytearray()
            self._on_line(line)
