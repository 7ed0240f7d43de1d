"""The head of a request: a client sends the same one again and again, so it is read once.

What the same bytes mean never changes, so it may be kept. Whether their sender may come in can, so that is asked each
time (`admission`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from starlette.types import Scope

Headers = list[tuple[bytes, bytes]]
T = TypeVar("T")

END: Final = b"\r\n\r\n"
LONGEST: Final = 4096
"""Of those that are kept."""
MOST: Final = 512
_HEAD: Final = "mcpproxy.head"


class Head:
    __slots__ = ("_found", "_scope", "expects", "headers", "keep_alive")

    def __init__(self, scope: dict[str, Any], keep_alive: bool = True, expects: bool = False) -> None:
        """`scope` has what all requests with this head share. `expects`: whether the client waits to be told that it
        may send the body."""
        self.headers: Headers = scope["headers"]
        self._scope = scope
        self.keep_alive = keep_alive
        self.expects = expects
        self._found: dict[Callable[[Headers], Any], Any] = {}

    @property
    def method(self) -> str:
        return self._scope["method"]

    @property
    def http_version(self) -> str:
        return self._scope["http_version"]

    def scope(self, own: dict[str, Any]) -> dict[str, Any]:
        """Of one request with this head; `own` is what the others do not share."""
        return {**self._scope, **own, _HEAD: self}

    def once(self, find: Callable[[Headers], T]) -> T:
        """What `find` makes of these headers, which has to follow from them alone. What it raises is not kept."""
        try:
            return self._found[find]
        except KeyError:
            found = self._found[find] = find(self.headers)
            return found


def head_of(scope: Scope) -> Head:
    """Of a request, whichever server it came through."""
    head: Head | None = scope.get(_HEAD)
    return head if head is not None else Head(cast("dict[str, Any]", scope))


Known = tuple[Head, int]
"""A head, and the length of the body that comes with it."""


class Heads:
    """Those that came lately, by their bytes. Bounded: of two generations, the older goes when the younger is full."""

    def __init__(self) -> None:
        self._young: dict[bytes, Known] = {}
        self._old: dict[bytes, Known] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def of(self, data: bytes) -> tuple[Head, bytes] | None:
        """The head and the body of a request that came at once and alone, if this head is known."""
        end = data.find(END) + len(END)
        key = data[:end]
        known = self._young.get(key) or self._recalled(key)
        if known is None or known[1] != len(data) - end:
            return None
        return known[0], data[end:]

    def keep(self, data: bytes, head: Head, length: int) -> None:
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
