"""What the record takes in the database, for metrics: soon, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.store.options import Options
from mcpproxy_py.store.store import Store, open_store
from tests.support.postgres import own_server

pytestmark = pytest.mark.anyio
Make = Callable[..., dict[str, Any]]


async def test_the_size_grows_with_the_record(opened: Callable[..., Store], tmp_path: Path, asked: Make) -> None:
    store = opened(tmp_path)
    before = await store.size()
    store.append(*(asked(f"r{number}", arguments="x" * 10_000) for number in range(200)))
    assert await store.caught_up(30)
    after = await store.size()
    assert before is not None and after is not None
    assert after > before


@pytest.mark.proves("ACT-6")
async def test_a_database_that_is_gone_has_no_size_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    with own_server() as server:
        options = Options(database_url=server.database())
        store = await anyio.to_thread.run_sync(lambda: open_store(tmp_path, options=options))
        try:
            assert await store.size() is not None
            await anyio.to_thread.run_sync(server.kill)
            with anyio.fail_after(30):
                assert await store.size() is None
        finally:
            await anyio.to_thread.run_sync(store.close)
