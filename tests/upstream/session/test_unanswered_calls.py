"""Calls that were given up and that their server did not answer: remembered within bounds, and for how long."""

from __future__ import annotations

from math import inf
from pathlib import Path

import anyio
import pytest

from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.upstream import server as upstream_server
from mcpproxy_py.upstream.session.server_requests import MOST_UNANSWERED, UnansweredCalls
from mcpproxy_py.upstream.spec import Sessions
from tests.upstream.helpers import LONG, Chat, Upstreams, connected, running, stdio, text_of, until

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-11")]


ANN, BOB = Caller("ann", "mcp", ClientInfo()), Caller("bob", "mcp", ClientInfo())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_counts_until_it_is_answered() -> None:
    calls = UnansweredCalls(Clock())
    assert not calls.any(inf)
    calls.add(1, ANN)
    calls.add(2, BOB)
    calls.discard(1)
    calls.discard(7)
    assert calls.any(inf)
    calls.discard(2)
    assert not calls.any(inf)


def test_or_for_a_time_where_there_is_one() -> None:
    clock = Clock()
    calls = UnansweredCalls(clock)
    calls.add(1, ANN)
    clock.now = 9.0
    calls.add(2, BOB)
    clock.now = 18.0
    assert calls.any(10.0)
    assert calls.any(inf)
    assert [calls.callers(within) for within in (10.0, 19.0)] == [[BOB], [BOB, ANN]]
    clock.now = 19.0
    assert not calls.any(10.0)


def test_a_flood_of_them_is_not_forgotten_by_being_one() -> None:
    clock = Clock()
    calls = UnansweredCalls(clock)
    for number in range(3 * MOST_UNANSWERED):
        calls.add(number, ANN)
    for number in range(3 * MOST_UNANSWERED):
        calls.discard(number)
    assert calls.any(inf)  # of those beyond the bound nobody knows whether they were answered
    assert calls.any(10.0)
    assert [each.principal for each in calls.callers(10.0)] == ["nobody"]
    clock.now = 10.0
    assert not calls.any(10.0)


async def ask(supervisor: Upstreams, chat: Chat) -> str:
    args = {"method": "elicitation/create", "outside": True}
    return text_of(await supervisor.call_tool("s", "ask", args, channel=chat))


@pytest.mark.parametrize("sessions", ["shared", "per_client"])
@pytest.mark.parametrize(("seconds", "asked"), [(0.0, True), (600.0, False)])
async def test_where_no_other_session_can_take_its_place_it_counts_for_a_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sessions: Sessions, seconds: float, asked: bool
) -> None:
    monkeypatch.setattr(upstream_server, "UNANSWERED_FOR", seconds)

    async def yes(method: str, params: object) -> dict[str, object]:
        return {"action": "accept"}

    log = tmp_path / "heard"
    spec = stdio("s", "asks.py", "--log", str(log), sessions=sessions, timeout=2 * LONG)
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: supervisor.call_tool("s", "wait", {"seconds": 2 * LONG}, channel=Chat(key="ann")))
            await until(lambda: "tools/call" in log.read_text())  # only what was sent can be left behind
            tasks.cancel_scope.cancel()
        chat = Chat(yes, key="ann")
        said = await ask(supervisor, chat)
        assert (len(chat.asked) == 1) is asked
        assert ("cancelled" in said) is not asked
