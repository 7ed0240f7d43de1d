"""What the gateway remembers of the lists that servers gave."""

from __future__ import annotations

from typing import Any

import anyio.to_thread

from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.store.store import Store


class UnmaskedListings:
    """The store's memory of tool lists, as the upstream room asks for it. A list is needed as it is, so one that holds
    a secret is not kept."""

    def __init__(self, store: Store, masker: Masker) -> None:
        self.load = store.listing
        self._save = store.save_listing
        self._masker = masker

    async def save(self, server: str, tools: list[dict[str, Any]]) -> None:
        if await anyio.to_thread.run_sync(self._masker.mask, tools) == tools:
            await self._save(server, tools)
