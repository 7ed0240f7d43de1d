"""Who hears of what changes at a server, beside the answers to requests (UP-4).

Listeners are sessions of the handshake era and `subscriptions/listen` streams of the modern one. What a server
says goes to the surfaces it concerns; which listener wants it, each knows itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from mcpproxy_py.core.revisions import INTERNAL_ERROR
from mcpproxy_py.errors import RpcError

COALESCE: Final = 0.05
"""Seconds: ten servers that connect at once change the list of all tools once."""
LIST_CHANGED: Final[Mapping[str, str]] = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
UPDATED: Final = "notifications/resources/updated"


class Listener(Protocol):
    topic: str

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        """On the event loop; does not block and does not raise."""
        ...


class Hub:
    def __init__(self, max_streams: int) -> None:
        """`max_streams`: of the modern era, at all doors together. Sessions are bounded where they are kept."""
        self._max_streams = max_streams
        self._streams = 0
        self._listeners: dict[str, dict[Listener, None]] = {}
        self._due: set[tuple[str, str]] = set()

    def add(self, listener: Listener) -> Callable[[], None]:
        """Gives the way to leave again."""
        there = self._listeners.setdefault(listener.topic, {})
        there[listener] = None
        return lambda: self._remove(listener)

    @contextmanager
    def listening(self, stream: Listener) -> Iterator[None]:
        """For as long as a stream of the modern era lasts. Raises `RpcError` where there are too many."""
        if self._streams >= self._max_streams:
            raise RpcError(INTERNAL_ERROR, "Too many subscriptions are open")
        self._streams += 1
        leave = self.add(stream)
        try:
            yield
        finally:
            leave()
            self._streams -= 1

    def _remove(self, listener: Listener) -> None:
        there = self._listeners.get(listener.topic, {})
        there.pop(listener, None)
        if not there:
            self._listeners.pop(listener.topic, None)

    def tell(self, topic: str, method: str, params: Mapping[str, Any]) -> None:
        for listener in list(self._listeners.get(topic, ())):
            listener.hear(method, params)

    def tell_changed(self, topic: str, method: str) -> None:
        """The same, once for everything that happens within a moment."""
        if (topic, method) not in self._due and topic in self._listeners:
            self._due.add((topic, method))
            asyncio.get_running_loop().call_later(COALESCE, self._tell_due, topic, method)

    def _tell_due(self, topic: str, method: str) -> None:
        self._due.discard((topic, method))
        self.tell(topic, method, {})
