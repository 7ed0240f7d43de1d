"""How much work a JSON text is to read, found out before it is read.

A parser takes two nanoseconds for a byte of text, but up to a hundred for a value, and what it makes of a megabyte of
`[]` takes thirty times the room. So keys and values are counted first, a piece at a time, without making any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

SMALL: Final = 64 * 1024
"""Text up to this length is read at once: whatever it holds, that takes a millisecond or two."""
PIECE: Final = 32 * 1024
"""How much is counted in one turn of the event loop."""
MAX_VALUES: Final = 300_000
"""Of keys and values in one answer of a server, where nothing else is configured."""
MAX_BODY_VALUES: Final = 50_000
"""The same for one request, which is looked through more often: when it is decided on, checked, recorded and sent."""
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 64
LONG_NUMBER: Final = 16
"""How many values so many digits in a row count as: the work of reading a number grows with the square of them."""
SECONDS_A_BYTE: Final = 2e-9
SECONDS_A_VALUE: Final = 70e-9


class ValueCounter:
    """Counts the keys and values of a JSON text that comes in pieces: brackets, commas and colons outside of strings. A
    key counts twice, as it costs. What comes after the first mistake is counted somehow; no parser gets that far."""

    def __init__(self) -> None:
        self.values = 1
        self._in_string = False
        self._escaped = False

    def feed(self, piece: bytes) -> None:
        if self._escaped:
            piece, self._escaped = piece[1:], False
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"")
            self._escaped = piece.endswith(b"\\")
            piece = piece.replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[1::2] if self._in_string else parts[::2])
        self._in_string ^= not len(parts) & 1
        self.values += at_most(outside)


def at_most(piece: bytes) -> int:
    """More than the keys and values in it, at a tenth of the cost: what looks like one in a string counts too."""
    values = piece.count(b",") + 2 * piece.count(b":") + piece.count(b"[") + piece.count(b"{")
    return values + LONG_NUMBER * piece.translate(_DIGITS).count(_LONG)


def pieces(text: bytes) -> Iterator[bytes]:
    for begin in range(0, len(text), PIECE):
        yield text[begin : begin + PIECE]


def holds_more(text: bytes, limit: int) -> bool:
    """Whether a text has more values than this, all at once: for what is no longer than a request."""
    if len(text) <= limit or at_most(text) < limit:
        return False
    counter = ValueCounter()
    for piece in pieces(text):
        counter.feed(piece)
        if counter.values > limit:
            return True
    return False


def seconds(size: int, values: int = 0) -> float:
    """About how long it takes to read or write so much JSON."""
    return size * SECONDS_A_BYTE + values * SECONDS_A_VALUE
