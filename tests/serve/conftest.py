from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import anyio.to_thread
import httpx
import pytest

from mcpproxy_py.store.store import open_store
from tests.serve.parts import KEY, House


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was opened once and closed: migrating costs more than most tests here."""
    made = tmp_path_factory.mktemp("store") / "data"
    open_store(made).close()
    return made


@pytest.fixture
async def house(tmp_path: Path, empty_store: Path) -> AsyncIterator[House]:
    data_dir = shutil.copytree(empty_store, tmp_path / "data")
    store = await anyio.to_thread.run_sync(open_store, data_dir)
    try:
        yield House(store)
    finally:
        await anyio.to_thread.run_sync(store.close)


@pytest.fixture
async def http(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the admin key, in front of the whole application."""
    transport = httpx.ASGITransport(house.app, raise_app_exceptions=False)
    headers = {"X-API-Key": KEY, "User-Agent": "curl/8.5.0"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=headers) as client:
        yield client
