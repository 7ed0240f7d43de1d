"""What one gateway makes of what another tells it, sense or not (ACT-6, UP-4)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpproxy_py.app.cluster import LIST_CHANGED, LOGIN, TAKEN_UP, ClusterSync
from mcpproxy_py.serve.mcp.input_rounds import InputRounds, StateBinding
from mcpproxy_py.store.cluster.event_bus import RESYNC, EventBus

pytestmark = [pytest.mark.anyio, pytest.mark.proves("ACT-6")]
CHANGED = "notifications/tools/list_changed"


class Servers:
    """Of which there is one, `github`."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def list_changed_elsewhere(self, server: str, method: str) -> bool:
        self.heard.append((server, method))
        return server == "github"

    def look_again(self) -> None:
        self.heard.append("everything")


@pytest.mark.proves("UP-4")
async def test_sense_is_acted_on_and_nonsense_does_no_harm() -> None:
    event_bus, servers, rounds = EventBus(), Servers(), []
    lists: list[tuple[str, str]] = []
    logins: list[str | None] = []
    end = ClusterSync(event_bus).listen(servers, lambda *said: lists.append(said), rounds.append, logins.append)
    for kind, payload in (
        (LIST_CHANGED, ["github", CHANGED]), (LIST_CHANGED, ["gitlab", CHANGED]), (LIST_CHANGED, ["github"]),
        (LIST_CHANGED, None), (LIST_CHANGED, [1, {}]), (LIST_CHANGED, "github"), (TAKEN_UP, "a1"), (TAKEN_UP, ["a1"]),
        (LOGIN, "github"), (LOGIN, ["github"]), (LOGIN, None), (LOGIN, 7), (LOGIN, {"server": "github"}),
        (LOGIN, ["github", CHANGED]), (TAKEN_UP, None), (LIST_CHANGED, ["github", CHANGED, "more"]),
        (RESYNC, None), (RESYNC, ["github", CHANGED]), ("of a later version", {"x": 1}),
    ):  # fmt: skip
        event_bus.publish_here(kind, payload)
    await anyio.wait_all_tasks_blocked()
    end()
    event_bus.publish_here(TAKEN_UP, "too late")
    event_bus.publish_here(LOGIN, "too late")
    await anyio.wait_all_tasks_blocked()
    assert servers.heard == [("github", CHANGED), ("gitlab", CHANGED), "everything", "everything"]
    assert (lists, rounds, logins) == ([("github", CHANGED)], ["a1"], ["github", None, None])


@pytest.mark.proves("SURF-6")
async def test_a_call_that_is_taken_up_elsewhere_is_given_up_only_when_nothing_more_is_heard_of_it() -> None:
    given_up, taken_up, bound = [], [], StateBinding("local", "digest")
    here = InputRounds([b"key"], 60, given_up.append, taken_up.append)
    there = InputRounds([b"other", b"key"], 60, given_up.append, taken_up.append)
    token = here.wrap("a1", {}, bound, "")["requestState"]
    await there.take_up(token, there.open(token, bound))
    assert taken_up == ["a1"]
    here._patience = 0.01  # only now: a state that was opened later than that would have expired
    here.taken_up_elsewhere("a1")
    here.taken_up_elsewhere("of another")
    assert (len(here), len(there)) == (1, 0)
    with anyio.fail_after(30):
        while not given_up:  # noqa: ASYNC110 (a timer tells nobody)
            await anyio.sleep(0.01)
    assert (given_up, len(here)) == (["a1"], 0)


async def test_a_call_that_goes_on_where_it_began_is_told_to_nobody() -> None:
    taken_up, bound = [], StateBinding("local", "digest")
    rounds = InputRounds([b"key"], 60, lambda ask_id: None, taken_up.append)
    token = rounds.wrap("a1", {}, bound, "")["requestState"]
    await rounds.take_up(token, rounds.open(token, bound))
    assert (taken_up, len(rounds)) == ([], 0)
