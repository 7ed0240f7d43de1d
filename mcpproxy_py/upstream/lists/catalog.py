"""What a server lists beside its tools, kept until it says that it changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py._upstream_failure import UpstreamFailure
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.session.session import Session

LIST_TIMEOUT: Final = 60.0
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
}
"""Method to the capability it comes with and to the key of its list."""


class Catalog:
    def __init__(self) -> None:
        self._kept: dict[str, list[dict[str, Any]]] = {}
        self._age: dict[str, int] = {}
        self._reading = {method: asyncio.Lock() for method in KINDS}

    async def listed(self, session: Session, method: str) -> list[dict[str, Any]]:
        """All pages of it. Asked by many at once, the server hears it once. Raises `UpstreamFailure`."""
        if method not in KINDS:
            raise UpstreamFailure(Code.UPSTREAM_ERROR, f"{method[:80]} is no listing that is kept", sent=False)
        async with self._reading[method]:
            if method in self._kept:
                return self._kept[method]
            capability, kind = KINDS[method]
            age = self._age.get(capability, 0)
            entries = await session.list_entries(method, kind, capability, LIST_TIMEOUT)
            if age == self._age.get(capability, 0):  # else it changed while it was read
                self._kept[method] = entries
            return entries

    def forget(self, capability: str) -> bool:
        """The server said that it changed. Whether anything was kept."""
        self._age[capability] = self._age.get(capability, 0) + 1
        gone = [method for method in self._kept if KINDS[method][0] == capability]
        for method in gone:
            del self._kept[method]
        return bool(gone)

    def forget_all(self) -> list[str]:
        """What somebody may have seen and should look at again, by capability."""
        return [capability for capability in ("prompts", "resources") if self.forget(capability)]
