"""Calls whose clients went away with a question, when others wait for their places (UP-5, UP-7)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpproxy_py.errors import Code, UpstreamFailure
from tests.upstream.helpers import LONG, Chat, Upstreams, connected, running, stdio, text_of, until

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-5", "UP-7")]

PLACES = 2


async def call(supervisor: Upstreams, tool: str, chat: Chat | None = None, **args: Any) -> Any:
    return json.loads(text_of(await supervisor.call_tool("s", tool, args, channel=chat)))


async def leave(supervisor: Upstreams, chat: Chat, ended: list[UpstreamFailure]) -> None:
    """A call whose client is asked, and does not come back."""
    try:
        await call(supervisor, "ask", chat, method="elicitation/create")
    except UpstreamFailure as failure:
        ended.append(failure)


@pytest.mark.parametrize("live", [False, True])
async def test_the_longest_open_question_gives_way_to_a_call_that_waits_if_its_client_is_away(
    tmp_path: Path, live: bool
) -> None:
    log = tmp_path / "log"
    spec = stdio("s", "asks.py", "--log", str(log), sessions="exclusive", max_concurrency=PLACES, timeout=LONG)
    first, second, ended = Chat(live=live), Chat(live=live), [UpstreamFailure(Code.INTERNAL, "")][:0]
    async with running(tmp_path, spec, evict_after=0.5) as supervisor, anyio.create_task_group() as tasks:
        await connected(supervisor, "s")
        for chat in (first, second):
            tasks.start_soon(leave, supervisor, chat, ended)
            await until(lambda chat=chat: chat.asked)
        if live:
            await supervisor.apply({"s": replace(spec, timeout=1)})  # for the call that waits in vain
            with pytest.raises(UpstreamFailure) as caught:
                await call(supervisor, "wait", Chat(), seconds=0)
            assert caught.value.code is Code.OVERLOADED
        else:
            assert await call(supervisor, "wait", Chat(), seconds=0) == "waited"
            assert [(each.code, "other calls waited" in each.message) for each in ended] == [(Code.TIMEOUT, True)]
            assert (first.withdrawn, second.withdrawn) == (["elicitation/create"], [])
            await until(lambda: log.read_text().count("given up") == 1)
        tasks.cancel_scope.cancel()


async def test_nobody_is_hurried_while_there_is_room(tmp_path: Path) -> None:
    spec = stdio("s", "asks.py", sessions="exclusive", max_concurrency=PLACES, timeout=LONG)
    away, ended = Chat(live=False), [UpstreamFailure(Code.INTERNAL, "")][:0]
    async with running(tmp_path, spec, evict_after=0.0) as supervisor, anyio.create_task_group() as tasks:
        await connected(supervisor, "s")
        tasks.start_soon(leave, supervisor, away, ended)
        await until(lambda: away.asked)
        for _ in range(3):
            assert await call(supervisor, "wait", Chat(), seconds=0.1) == "waited"
        assert (ended, away.withdrawn) == ([], [])
        tasks.cancel_scope.cancel()


async def test_a_session_whose_opener_left_before_it_was_there_is_nobodys(tmp_path: Path) -> None:
    """Else the questions of its next call could be for two."""
    log = tmp_path / "log"
    spec = stdio("s", "asks.py", "--log", str(log), sessions="exclusive", timeout=2 * LONG)

    async def answer(method: str, params: Any) -> dict[str, Any]:
        return {"number": 4}

    async with running(tmp_path, spec) as supervisor, anyio.create_task_group() as tasks:
        await connected(supervisor, "s")
        tasks.start_soon(lambda: call(supervisor, "wait", Chat(), seconds=2 * LONG))
        await until(lambda: supervisor.describe()[0]["in_flight"] == 1)
        with anyio.move_on_after(0.01):
            await call(supervisor, "whoami", Chat())
        await until(lambda: log.read_text().count("notifications/initialized") == 2)
        got = await call(supervisor, "ask", Chat(answer), method="elicitation/create")
        assert got["result"] == {"number": 4}
        tasks.cancel_scope.cancel()
