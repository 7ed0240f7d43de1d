"""Upstreams with bad intentions: they cost themselves something, and nobody else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcpproxy_py.upstream.session.session import MAX_ENTRIES, MAX_PAGES
from tests.upstream.helpers import Chat, Upstreams, connected, running, stdio, text_of, until

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-5", "UP-7")]


@asynccontextmanager
async def beside(tmp_path: Path, mode: str) -> AsyncIterator[Upstreams]:
    """The hostile server `bad`, and `good` beside it, which is called all the time."""
    async with running(tmp_path, stdio("bad", "hostile.py", mode), stdio("good", "plain.py")) as supervisor:
        await connected(supervisor, "good")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_calling, supervisor)
            yield supervisor
            tasks.cancel_scope.cancel()


async def keep_calling(supervisor: Upstreams) -> None:
    number = 0
    while True:
        number += 1
        result = await supervisor.call_tool("good", "echo", {"n": number}, channel=Chat())
        assert json.loads(text_of(result)) == {"n": number}
        await anyio.sleep(0.01)


async def echo(supervisor: Upstreams, number: int) -> None:
    result = await supervisor.call_tool("bad", "echo", {"n": number}, channel=Chat())
    assert json.loads(text_of(result)) == {"n": number}


@pytest.mark.parametrize(("mode", "known"), [("many", MAX_ENTRIES), ("endless", MAX_PAGES + 2)])
async def test_a_list_without_measure_is_cut_and_the_server_can_be_used(mode: str, known: int, tmp_path: Path) -> None:
    async with beside(tmp_path, mode) as supervisor:
        await connected(supervisor, "bad")
        assert len(supervisor.snapshot.servers["bad"].tools) == known
        await echo(supervisor, 1)


async def test_a_schema_of_ten_thousand_levels_is_a_server_that_says_why_it_is_not_connected(tmp_path: Path) -> None:
    async with beside(tmp_path, "deep") as supervisor:
        await until(lambda: supervisor.describe()[0]["error"], supervisor.describe)
        assert "nested too deeply" in supervisor.describe()[0]["error"]


async def test_answers_that_nobody_asked_for_reach_nobody(tmp_path: Path) -> None:
    async with beside(tmp_path, "answers") as supervisor:
        await connected(supervisor, "bad")
        assert text_of(await supervisor.call_tool("bad", "go", {})) == "done"
        ignored = supervisor.describe()[0]["ignored"]
        assert (ignored["unmatched"], ignored["garbage"]) == (4998 + 8, 5)
        for number in range(20):
            await echo(supervisor, number)
        assert supervisor.describe()[0]["restarts"] == 0


async def test_a_server_that_never_stops_changing_delays_nobody(tmp_path: Path) -> None:
    async with beside(tmp_path, "loop") as supervisor:
        await connected(supervisor, "bad")
        await supervisor.call_tool("bad", "go", {})
        for number in range(20):
            await echo(supervisor, number)
        await until(lambda: len(supervisor.snapshot.servers["bad"].tools) == 3)
        before = supervisor.snapshot.servers["bad"].tools
        await until(lambda: supervisor.snapshot.servers["bad"].tools is not before)
