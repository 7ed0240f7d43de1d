"""Clients and upstreams of both eras, crossed: what an upstream asks, reports and announces reaches whom it is for.

Every journey runs straight first, a client at a server of its own era: so that what fails through the
gateway is the gateway's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.journeys.cells import STRAIGHT, Cell, World, through
from tests.support.peer import WAIT, Peer
from tests.support.wire import RpcError, text

pytestmark = pytest.mark.anyio

WATCHED = "test://watched-resource"
PIPED = through("piped", transports=["http"])
EVERY_DOOR = (*STRAIGHT, *through("passthrough", "direct", "gate"), *PIPED)
LISTING_DOORS = (*STRAIGHT, *through("passthrough", "direct"), *PIPED)
OWN_NAMES = (*STRAIGHT, *through("passthrough"), *PIPED)


def in_cells(*cells: Cell) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cell", cells, ids=str)


class Person:
    """Answers forms with what it was given, one after the other, and may be made to wait."""

    def __init__(self, *answers: str, action: str = "accept", held: bool = False) -> None:
        self.answers = list(answers)
        self.action = action
        self.may_answer = anyio.Event()
        if not held:
            self.may_answer.set()

    async def __call__(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert method == "elicitation/create"
        await self.may_answer.wait()
        if self.action != "accept" or params.get("mode") == "url":
            return {"action": self.action}
        return {"action": "accept", "content": {"answer": self.answers.pop(0)}}


async def model(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Says what it was asked, backwards."""
    assert method == "sampling/createMessage"
    said = params["messages"][0]["content"]["text"][::-1]
    return {"role": "assistant", "model": "mirror", "content": {"type": "text", "text": said}, "stopReason": "endTurn"}


def no_strays(*peers: Peer) -> None:
    assert [stray for peer in peers for stray in peer.strays] == []


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*EVERY_DOOR)
async def test_a_question_in_mid_call_reaches_the_person_and_the_answer_the_call(world: World, cell: Cell) -> None:
    async with cell.peer(world, Person("blue")) as peer:
        assert text(await cell.call(peer, "ask", {"who": "ada"})) == "ada says blue"
        (_, params) = peer.asked[0]
        assert params["message"] == "What says ada?"
        assert params["requestedSchema"]["required"] == ["answer"]
        no_strays(peer)


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*EVERY_DOOR)
async def test_a_person_who_declines_is_heard_too(world: World, cell: Cell) -> None:
    async with cell.peer(world, Person(action="decline")) as peer:
        result = await cell.call(peer, "ask", {"who": "ada"})
        assert result["isError"] and text(result) == "ada would not say: decline"


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*OWN_NAMES)
async def test_a_question_may_be_a_web_page(world: World, cell: Cell) -> None:
    async with cell.peer(world, Person()) as peer:
        assert text(await cell.call(peer, "ask_by_url", {"who": "ada"})) == "ada: accept"
        (_, params) = peer.asked[0]
        assert (params["mode"], params["url"]) == ("url", "https://example.com/go")


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*EVERY_DOOR)
async def test_a_second_question_may_depend_on_the_first_answer(world: World, cell: Cell) -> None:
    async with cell.peer(world, Person("grace", "green")) as peer:
        assert text(await cell.call(peer, "interview", {"who": "ada"})) == "ada, grace, green"
        assert [params["message"] for _, params in peer.asked] == [
            "Which name? (ada)",
            "grace, which colour? (ada)",
        ]


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*EVERY_DOOR)
async def test_the_model_of_the_client_is_asked(world: World, cell: Cell) -> None:
    async with cell.peer(world, model) as peer:
        assert text(await cell.call(peer, "sampled", {"prompt": "stressed"})) == "mirror: desserts"
        assert peer.asked[0][1]["maxTokens"] == 100


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*EVERY_DOOR)
async def test_the_roots_of_the_client_are_listed(world: World, cell: Cell) -> None:
    async def roots(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert method == "roots/list"
        return {"roots": [{"uri": "file:///home/ada", "name": "home"}]}

    async with cell.peer(world, roots) as peer:
        assert text(await cell.call(peer, "list_roots")) == "file:///home/ada"


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*EVERY_DOOR)
async def test_a_client_that_cannot_be_asked_gets_an_error_and_no_question(world: World, cell: Cell) -> None:
    async with cell.peer(world, capabilities={}) as peer:
        with anyio.fail_after(WAIT):
            try:
                assert (await cell.call(peer, "ask", {"who": "ada"}))["isError"]
            except RpcError as error:
                assert "elicitation" in f"{error} {error.data}"
        assert peer.asked == []


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*EVERY_DOOR)
async def test_two_clients_are_asked_at_once_and_nothing_crosses_over(world: World, cell: Cell) -> None:
    ada, bob = Person("blue", held=True), Person("red", held=True)
    results: dict[str, str] = {}
    bob_is_done = anyio.Event()
    async with cell.peer(world, ada, name="ada") as first, cell.peer(world, bob, name="bob") as second:

        async def ask(peer: Peer, who: str) -> None:
            results[who] = text(await cell.call(peer, "ask", {"who": who}))
            if who == "bob":
                bob_is_done.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, first, "ada")
            await first.hear_question()
            tasks.start_soon(ask, second, "bob")
            await second.hear_question()
            bob.may_answer.set()
            with anyio.fail_after(WAIT):
                await bob_is_done.wait()
            assert results == {"bob": "bob says red"}
            ada.may_answer.set()
        assert results == {"ada": "ada says blue", "bob": "bob says red"}
        assert [params["message"] for _, params in first.asked] == ["What says ada?"]
        assert [params["message"] for _, params in second.asked] == ["What says bob?"]
        no_strays(first, second)


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*EVERY_DOOR)
async def test_progress_comes_under_the_clients_own_token_and_goes_to_nobody_else(world: World, cell: Cell) -> None:
    async with cell.peer(world, name="ada") as first, cell.peer(world, name="bob") as second:

        async def go(peer: Peer, who: str, count: int, token: str | int) -> None:
            result = await cell.call(peer, "steps", {"who": who, "count": count}, progressToken=token)
            assert text(result) == f"{who} took {count} steps"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go, first, "ada", 5, "same")
            tasks.start_soon(go, second, "bob", 7, "same")
            tasks.start_soon(go, second, "eve", 3, 7)
        for peer, who, count, token in ((first, "ada", 5, "same"), (second, "bob", 7, "same"), (second, "eve", 3, 7)):
            steps = peer.progress(token)
            assert [step["progress"] for step in steps] == list(range(1, count + 1))
            assert [step["message"] for step in steps] == [f"{who} {step}" for step in range(1, count + 1)]
            assert {step["total"] for step in steps} == {count}
        assert len(first.heard) == 5


async def noted(world: World, cell: Cell, *lines: str) -> None:
    """Until the upstream has noted all of these."""
    with anyio.fail_after(WAIT):
        while not set(lines) <= set(world.notes_of(cell.name)):  # noqa: ASYNC110 (a file tells nobody that it changed)
            await anyio.sleep(0.02)


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*OWN_NAMES)
async def test_logs_reach_the_client_that_asked_for_them_at_its_level(world: World, cell: Cell) -> None:
    async with cell.peer(world, name="ada") as listening, cell.peer(world, name="bob") as other:
        await listening.want_logs("info")
        await cell.call(listening, "say", {"line": "for ada", "level": "warning"})
        said = await listening.hear("notifications/message", data="for ada")
        assert said["params"]["level"] == "warning"
        if other.modern:
            await cell.call(other, "say", {"line": "for bob", "level": "warning"})
            assert [message for message in other.heard if message["method"] == "notifications/message"] == []
        no_strays(listening, other)


@pytest.mark.proves("SURF-6", "UP-4")
@in_cells(*LISTING_DOORS)
async def test_a_changed_tool_list_is_announced_to_those_who_listen(world: World, cell: Cell) -> None:
    name = f"new_{cell}".replace("-", "_")
    shown = f"{cell.name}__{name}" if cell.door == "direct" else name
    async with cell.peer(world) as peer:
        await peer.watch()
        await cell.call(peer, "grow", {"name": name})
        await peer.hear("notifications/tools/list_changed")
        try:
            await until_listed(peer, shown, lambda: world.approve_pins(cell.name))
        finally:
            await cell.call(peer, "shrink", {"name": name})


async def until_listed(peer: Peer, name: str, approve: Callable[[], None]) -> None:
    with anyio.fail_after(WAIT):
        while name not in {tool["name"] for tool in (await peer.request("tools/list"))["tools"]}:
            await anyio.to_thread.run_sync(approve)


@pytest.mark.proves("SURF-6", "UP-4")
@in_cells(*OWN_NAMES)
async def test_a_resource_that_is_watched_is_announced_when_it_changes(world: World, cell: Cell) -> None:
    async with cell.peer(world) as peer:
        await peer.watch(WATCHED)
        await cell.call(peer, "touch", {"words": str(cell)})
        await peer.hear("notifications/resources/updated", uri=WATCHED)
        found = await peer.request("resources/read", {"uri": WATCHED})
        assert found["contents"][0]["text"]


@pytest.mark.proves("SURF-6")
@in_cells(*OWN_NAMES)
async def test_prompts_may_ask_too(world: World, cell: Cell) -> None:
    async def context(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": "accept", "content": {"context": "ships"}}

    async with cell.peer(world, context) as peer:
        found = await peer.request("prompts/get", {"name": "test_input_required_result_prompt"})
        assert found["messages"][0]["content"]["text"] == "In the context of ships"


@pytest.mark.proves("UP-5")
@in_cells(*(cell for cell in EVERY_DOOR if cell.upstream == "handshake"))
async def test_a_question_outside_the_stream_of_its_call_is_attributed_or_refused_never_guessed(
    world: World, cell: Cell
) -> None:
    """The first one may be refused, since nobody can tell whose it is; from then on there is one call a session."""
    person = Person("blue", "blue", "blue")
    async with cell.peer(world, person) as peer, cell.peer(world, name="bystander") as bystander:
        tries = [text(await cell.call(peer, "ask", {"who": "ada", "aside": True})) for _ in range(3)]
        assert tries[-1] == "ada says blue"
        assert bystander.asked == []
        no_strays(peer, bystander)


# The last of this module: a server need not answer what was cancelled, and while it has not, what it says outside of a
# call's own stream is for nobody (UP-11).


@pytest.mark.proves("SURF-6", "UP-5")
@in_cells(*EVERY_DOOR)
async def test_a_call_that_is_cancelled_is_cancelled_at_the_upstream_and_no_other(world: World, cell: Cell) -> None:
    who, other = f"{cell}-gone", f"{cell}-stays"
    async with cell.peer(world) as peer, cell.peer(world, name="other") as bystander:
        pending = await peer.begin("tools/call", cell.params("hang", {"who": who}))
        staying = await bystander.begin("tools/call", cell.params("hang", {"who": other}))
        await noted(world, cell, f"started {who}", f"started {other}")
        await peer.cancel(pending)
        await noted(world, cell, f"cancelled {who}")
        assert f"cancelled {other}" not in world.notes_of(cell.name)
        assert text(await cell.call(peer, "say", {"line": "still here"})) == "said"
        assert not staying.done.is_set()
        await bystander.cancel(staying)
        await noted(world, cell, f"cancelled {other}")
