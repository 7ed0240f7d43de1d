"""Heads that came lately, on any connection: a client sends the same one again and again."""

from __future__ import annotations

from typing import Final

from mcpproxy_py.serve.http.request import END, RequestHead

LONGEST: Final = 4096
"""Of the heads that are kept."""
MOST: Final = 512

Known = tuple[RequestHead, int]
"""A head, and the length of the body that comes with it."""


class HeadCache:
    """Heads that came lately, by their bytes. Bounded: of two generations, the older goes when the younger is full."""

    def __init__(self) -> None:
        self._young: dict[bytes, Known] = {}
        self._old: dict[bytes, Known] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def find(self, data: bytes) -> tuple[RequestHead, bytes] | None:
        """The head and the body of a request that came at once and alone, if this head is known."""
        end = data.find(END) + 4
        key = data[:end]
        known = self._young.get(key) or self._recalled(key)
        if known is None or known[1] != len(data) - end:
            return None
        return known[0], data[end:]

    def keep(self, data: bytes, head: RequestHead, length: int) -> None:
        """`data` is one whole request with this head and a body of this length. In chunks it would be longer, and a
        head that does not end where it would be looked for is not kept either."""
        end = len(data) - length
        if end <= LONGEST and data.find(END) + len(END) == end:
            self._keep(data[:end], (head, length))

    def _recalled(self, key: bytes) -> Known | None:
        if (known := self._old.get(key)) is not None:
            self._keep(key, known)
        return known

    def _keep(self, key: bytes, known: Known) -> None:
        if len(self._young) >= MOST:
            self._old, self._young = self._young, {}
        self._young[key] = known
