"""Requests that are being answered, by the access that they came with, where that can end before they do.

A stream that listens for changes has no end of its own, so it ends with its access. What is only in flight was allowed
when it came, and is decided on once more before anything is sent: where a person took the access back, that ends too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.serve.http.request import HttpRequest


class OpenRequests:
    def __init__(self) -> None:
        self._of: dict[Access, set[HttpRequest]] = {}

    def __contains__(self, access: object) -> bool:
        return access in self._of

    @contextmanager
    def held(self, access: Access, request: HttpRequest) -> Iterator[None]:
        """For as long as it is being answered."""
        there = self._of.setdefault(access, set())
        there.add(request)
        try:
            yield
        finally:
            there.discard(request)
            if not there:
                self._of.pop(access, None)

    def end(self, access: Access, *, listening_only: bool = False) -> None:
        """Whoever answers them hears that the client is gone."""
        for request in list(self._of.get(access, ())):
            if request.listens or not listening_only:
                request.cut_off()
