"""The catalog as an upstream: made in a worker thread when the supervisor first connects to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio.to_thread

from mcpproxy_py.core.catalog.wishes import Wish
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.providers.catalog.data_files import DataError
from mcpproxy_py.providers.catalog.provider import CatalogProvider, Context


class ServedCatalog:
    """Fits the upstream room's `LocalUpstream`. `make` reads the data files, so it blocks, and may raise `DataError`;
    it is called again after a failure, until the operator has mended the file."""

    def __init__(self, make: Callable[[], CatalogProvider]) -> None:
        self._make = make
        self._provider: CatalogProvider | None = None

    async def list_tools(self) -> list[dict[str, Any]]:
        return (await self._made()).tools()

    async def call_tool(self, name: str, args: dict[str, Any], context: Context) -> dict[str, Any]:
        return await (await self._made()).call(name, args, context)

    def command_for(self, wish: Wish) -> str | None:
        """With which a person would grant this wish; none is known before the data was read."""
        return self._provider.command_for(wish) if self._provider else None

    async def _made(self) -> CatalogProvider:
        if self._provider is None:
            try:
                self._provider = await anyio.to_thread.run_sync(self._make)
            except DataError as error:
                raise GatewayError(Code.SERVER_UNAVAILABLE, f"the catalog's data cannot be used: {error}") from None
        return self._provider
