"""The catalog as a server to measure, without a gateway around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from mcpproxy_py.bench.suite import Server
from mcpproxy_py.core.catalog.refused import NotAnswered
from mcpproxy_py.core.catalog.wishes import Wish
from mcpproxy_py.providers.catalog.data_files import data_files
from mcpproxy_py.providers.catalog.load import load
from mcpproxy_py.providers.catalog.provider import CatalogProvider


@dataclass(frozen=True, slots=True)
class _Caller:
    principal: str = "bench"


class _NoRequests:
    """Nobody's queue may fill with what a benchmark asks for."""

    async def submit(self, wish: Wish, principal: str) -> NoReturn:
        raise NotAnswered("Nothing is filed while the catalog is measured")


def catalog() -> Server:
    """The shipped catalog, answering in this process."""
    provider = CatalogProvider(load(), lambda principal: (), _NoRequests())

    async def call(tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        return await provider.call(tool, arguments, _Caller())

    return Server(provider.tools(), call, raw_data())


def raw_data() -> dict[str, str]:
    """Each agent's data file as it lies there."""
    return {
        file.path.parts[-3]: file.path.read_text(encoding="utf-8") for file in data_files(None) if file.kind == "agent"
    }
