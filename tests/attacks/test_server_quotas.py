"""One agent wants all of a server: its slots, its queue and its subscriptions. Another agent is served all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    DOORS,
    ERAS,
    Later,
    Outcome,
    Target,
    ask,
    declines,
    eventually,
    fresh,
    heard,
    latch,
    params,
    path_of,
    release,
)
from tests.support.gateway import gateway
from tests.support.links import HttpLink
from tests.support.peer import Peer, connected
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-7")]

SLOTS = 5
QUOTA = 4
"""Of the slots, and of the queue."""
SUBSCRIPTIONS, PAGE = 20, 10
"""The quota, and how many of them one stream has."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def tokens() -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, tokens: dict[str, str]) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("quotas")
    servers = {
        "five": heard(folder, "five", "--modern", max_concurrency=SLOTS),
        "two": heard(folder, "two", max_concurrency=2),
        "notes": heard(folder, "notes"),
    }
    limits = {"per_principal": {"subscriptions": SUBSCRIPTIONS}}
    with gateway(folder / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers, "limits": limits}) as running:
        running.wait_for(*servers)
        for name in ("greedy", "modest"):
            tokens[name] = running.post("/tokens", {"name": name}).json()["token"]
        yield Target(running, folder, servers)


@asynccontextmanager
async def agent(target: Target, token: str, era: str, door: str, server: str) -> AsyncIterator[Peer]:
    link = HttpLink(f"{target.running.url}{path_of(door, server)}", token=token)
    async with connected(link, era, declines) as peer:
        yield peer


@ERAS
@DOORS
async def test_who_takes_all_slots_of_a_server_and_its_queue_leaves_some_for_others(
    target: Target, tokens: dict[str, str], door: str, era: str
) -> None:
    greedy, beyond = [Later() for _ in range(2 * QUOTA)], list[Outcome]()
    async with (
        agent(target, tokens["greedy"], era, door, "five") as flood,
        agent(target, tokens["modest"], era, door, "five") as other,
        anyio.create_task_group() as tasks,
    ):
        with latch(target.folder) as file:
            for number, later in enumerate(greedy, 1):
                asked = params(door, "five", "look", fresh(), until=str(file))
                tasks.start_soon(later.run, flood, asked)
                await target.has_calls("five", number)
            for _ in range(3):
                with anyio.fail_after(30):
                    beyond.append(await ask(flood, params(door, "five", "look", fresh())))
            for _ in range(3):
                with anyio.fail_after(30):
                    served = await ask(other, params(door, "five", "look", fresh()))
                assert served.ok, served
            release(file)
        assert all([(await each.outcome()).ok for each in greedy])
    assert {(each.ok, each.code) for each in beyond} == {(False, "OVERLOADED")}, beyond
    assert all("agent:greedy" in each.words and "quota" in each.words for each in beyond), beyond


@ERAS
async def test_a_slot_that_becomes_free_goes_to_the_one_who_has_none(
    target: Target, tokens: dict[str, str], era: str
) -> None:
    """With so few slots none is kept back, but nobody has to wait for all that another one has in the queue."""
    marks = [fresh() for _ in range(4)]
    mine, log = fresh(), target.log("two")
    async with (
        agent(target, tokens["greedy"], era, "gate", "two") as flood,
        agent(target, tokens["modest"], era, "gate", "two") as other,
        anyio.create_task_group() as tasks,
    ):
        with latch(target.folder) as first, latch(target.folder) as rest:
            taken = [Later() for _ in marks]
            for number, (mark, later) in enumerate(zip(marks, taken, strict=True)):
                until = str(rest if number else first)
                tasks.start_soon(later.run, flood, params("gate", "two", "look", mark, until=until))
                await target.has_calls("two", number + 1)
            refused = await ask(flood, params("gate", "two", "look", fresh()))
            assert refused.code == "OVERLOADED" and "quota" in refused.words, refused
            waiting = Later()
            tasks.start_soon(waiting.run, other, params("gate", "two", "look", mine, until=str(rest)))
            await target.has_calls("two", len(marks) + 1)
            release(first)
            await log.wait_for(mine)
            assert not any(log.calls(mark) for mark in marks[2:]), "those come after"
            release(rest)
        assert all([(await each.outcome()).ok for each in (*taken, waiting)])


@ERAS
async def test_who_watches_all_that_it_may_leaves_subscriptions_for_others(
    target: Target, tokens: dict[str, str], era: str
) -> None:
    async with agent(target, tokens["greedy"], MODERN, "passthrough", "notes") as flood:
        for page in range(SUBSCRIPTIONS // PAGE):
            uris = [f"note://{era}/{page}/{number}" for number in range(PAGE)]
            await flood.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
            await flood.hear("notifications/subscriptions/acknowledged", times=page + 1)
        more = {"notifications": {"resourceSubscriptions": [f"note://{era}/more"]}}
        await flood.begin("subscriptions/listen", more)
        await flood.hear("notifications/subscriptions/acknowledged", times=SUBSCRIPTIONS // PAGE + 1)
        acknowledged = [each for each in flood.heard if each["method"] == "notifications/subscriptions/acknowledged"]
        assert "resourceSubscriptions" not in acknowledged[-1]["params"]["notifications"], (
            "what is too much is left out"
        )
        async with agent(target, tokens["greedy"], HANDSHAKE, "passthrough", "notes") as again:
            refused = await ask(again, {"uri": f"note://{era}/more"}, "resources/subscribe")
            assert not refused.ok and "limits.per_principal.subscriptions" in refused.words, refused
        async with agent(target, tokens["modest"], era, "passthrough", "notes") as other:
            await other.watch(f"note://{era}/other")
    assert not target.log("notes").has(f"note://{era}/more"), "nothing of it was sent"


@ERAS
async def test_what_a_client_watched_is_given_back_when_it_leaves(
    target: Target, tokens: dict[str, str], era: str
) -> None:
    uris = [f"note://{era}/left/{number}" for number in range(SUBSCRIPTIONS)]
    for times in range(1, 4):
        async with agent(target, tokens["modest"], era, "passthrough", "notes") as peer:
            if peer.modern:
                await peer.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
                await peer.hear("notifications/subscriptions/acknowledged")
            else:
                for uri in uris:
                    await peer.request("resources/subscribe", {"uri": uri})
                for uri in uris:
                    await peer.request("resources/unsubscribe", {"uri": uri})

        def given_back(times: int = times) -> bool:
            ended = target.log("notes").of("resources/unsubscribe")
            return sum(each["params"]["uri"] in uris for each in ended) == times * len(uris)

        await eventually(given_back, "the end of its subscriptions")
