"""News of changes, coalesced: what is said ten thousand times in a moment is told twice, at once and at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

MOMENT: Final = 0.1
MOST: Final = 5_000
"""Different things that may change in one moment. A server that names more is making them up."""

Tell = Callable[[str, Mapping[str, Any]], None]
Key = tuple[str, str]


class Changes:
    """Each of these only says "look again", so the last one stands for all before it."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._waiting: dict[Key, Mapping[str, Any] | None] = {}

    def put(self, method: str, params: Mapping[str, Any]) -> None:
        key = (method, str(params.get("uri", ""))[:2048])
        if key in self._waiting:
            self._waiting[key] = params
        elif len(self._waiting) < MOST:
            self._waiting[key] = None
            asyncio.get_running_loop().call_later(MOMENT, self._tell_again, key)
            self._tell(method, params)

    def _tell_again(self, key: Key) -> None:
        params = self._waiting.pop(key)
        if params is not None:
            self.put(key[0], params)
