"""An edit of the configuration is noticed, however early it comes (UP-8)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from mcpproxy_py.app.live_settings import watch
from mcpproxy_py.settings import load

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-8")]


async def test_an_edit_between_reading_the_file_and_watching_it_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "mcp_config.json"
    file.write_text("{}")
    loaded, noticed = load(data_dir=tmp_path, environ={}), anyio.Event()
    file.write_text('{"listen": "127.0.0.1:1"}')

    async def changed() -> None:
        noticed.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, loaded, changed)
        with anyio.fail_after(30):
            await noticed.wait()
        tasks.cancel_scope.cancel()
