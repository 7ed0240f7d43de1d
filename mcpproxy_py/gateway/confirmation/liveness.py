"""Which gateways of the same database live: what waits at one that has died, nobody waits for any more (SEC-10).

Only looked at while there is something to know: by whoever asks, and not more than once a second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Final, Protocol

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.gateway.access.tokens import TokenStore

log = logging.getLogger(__name__)

KEPT: Final = 1.0


class WaitingCallStore(TokenStore, Protocol):
    """What calls that wait need of the store room."""

    async def living_gateways(self) -> Collection[str]:
        """The names of those that have said so lately."""
        ...


class GatewayLiveness:
    def __init__(self, store: WaitingCallStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._looked_at = float("-inf")
        self._living: Collection[str] | None = None

    async def look(self) -> None:
        """Where the database does not say, it stays with what was known."""
        if not self._store.shared or self._clock() - self._looked_at < KEPT:
            return
        self._looked_at = self._clock()
        try:
            self._living = await self._store.living_gateways()
        except StoreUnavailable as error:
            log.warning("cannot read which gateways live: %s", error.message)

    def has_gone(self, gateway: str) -> bool:
        return self._living is not None and gateway not in self._living
