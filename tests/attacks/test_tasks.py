"""Tasks whose ids somebody has no business with, and servers that say of their tasks whatever they like (SURF-10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    ERAS,
    Later,
    Outcome,
    Target,
    accepts,
    ask,
    eventually,
    fresh,
    latch,
    params,
    path_of,
    release,
    turn,
)
from tests.support.gateway import gateway, python_server, until
from tests.support.links import HttpLink
from tests.support.peer import CAPABILITIES, META, Message, Peer, connected
from tests.support.wire import MODERN, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SURF-10")]
ABLE = {**CAPABILITIES, "extensions": {f"{META}tasks": {}}}
HELD = pytest.mark.parametrize("door", ["direct", "passthrough"])
FOLLOWED = pytest.mark.parametrize("door", ["gate", "direct"])
UNKNOWN = (-32602, "There is no such task here")


def tasks(folder: Path, name: str, **extra: Any) -> dict[str, Any]:
    return python_server("tasks.py", "--log", str(folder / f"{name}.heard"), "--modern", **extra)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("tasks")
    with ExitStack() as stack:
        servers = {
            "works": tasks(folder, "works", timeout=30),
            "short": tasks(folder, "short", timeout=1),
            "rival": tasks(folder, "rival"),
        }
        config = {"surfaces": ALL_SURFACES, "mcpServers": servers}
        yield Target(stack.enter_context(gateway(folder / "data", config)), folder, servers)


@pytest.fixture(scope="module")
def agents(target: Target) -> dict[str, str]:
    """Tokens of two agents that may both do everything."""
    terms = {"servers": ["works", "rival"], "operations": ["read", "write", "destructive"]}
    made = {name: target.running.post("/tokens", {"name": name, **terms}) for name in ("amber", "birch")}
    assert all(each.status_code in (200, 201) for each in made.values()), [each.text for each in made.values()]
    return {name: each.json()["token"] for name, each in made.items()}


def agent(target: Target, token: str, door: str, server: str = "works", **options: Any) -> Any:
    link = HttpLink(f"{target.running.url}{path_of(door, server)}", token=token)
    return connected(link, MODERN, capabilities=ABLE, **options)


async def begun(peer: Peer, door: str, tool: str = "look_task", mark: str = "", **args: Any) -> str:
    server = args.pop("server", "works")
    found = await ask(peer, params(door, server, tool, mark or fresh(), **args))
    assert found.ok and found.result["resultType"] == "task", found
    return found.result["taskId"]


async def about(peer: Peer, task_id: Any, method: str = "tasks/get", **more: Any) -> Outcome:
    return await ask(peer, {"taskId": task_id, **more}, method)


def unknown(found: Outcome) -> bool:
    return (found.code, found.words) == (str(UNKNOWN[0]), UNKNOWN[1])


def heard_of(target: Target, server: str, method: str, task_id: str) -> list[Message]:
    return [each for each in target.log(server).of(method) if each["params"].get("taskId") == task_id]


# Ids.


@HELD
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_task_of_somebody_else_is_as_unknown_as_one_that_never_was(
    target: Target, agents: dict[str, str], door: str, method: str
) -> None:
    own = f"task-{fresh()}"
    more = {"inputResponses": {}} if method == "tasks/update" else {}
    async with agent(target, agents["amber"], door) as amber, agent(target, agents["birch"], door) as birch:
        task_id = await begun(amber, door, how="never", id=own)
        theirs = await about(birch, task_id, method, **more)
        never_was = await about(birch, f"{task_id[:-1]}{'0' if task_id[-1] != '0' else '1'}", method, **more)
        assert unknown(theirs) and unknown(never_was)
        assert not heard_of(target, "works", method, own), "the server heard nothing of it"
        assert (await about(amber, task_id, method, **more)).ok


@HELD
@pytest.mark.parametrize(
    "forged", ["", "x", "task-1", "A" * 6000, "e30.00", "W10=.zz", "ü.ü", "a.b.c", 7, None, {"a": 1}]
)
async def test_what_somebody_made_up_is_no_task(target: Target, door: str, forged: Any) -> None:
    async with target.client(door, "works", MODERN, capabilities=ABLE) as peer:
        pending = await peer.begin("tasks/get", {"taskId": forged}) if isinstance(forged, str) else None
        if pending is None:
            return
        found = await outcome_of(pending)
        assert not found.ok and found.code in ("-32602", "-32020"), found
    assert target.running.get("/status"), "the gateway goes on"


async def outcome_of(pending: Any) -> Outcome:
    from tests.attacks.target import outcome

    return await outcome(pending.result())


async def test_the_id_of_one_servers_task_is_nothing_at_another(target: Target) -> None:
    own = f"task-{fresh()}"
    async with target.client("passthrough", "works", MODERN, capabilities=ABLE) as peer:
        await begun(peer, "passthrough", how="never", id=own)
    async with target.client("passthrough", "rival", MODERN, capabilities=ABLE) as peer:
        assert unknown(await about(peer, own))
    async with target.client("direct", "rival", MODERN, capabilities=ABLE) as peer:
        assert unknown(await about(peer, own)), "nor is a server's own id one of ours"
    assert not heard_of(target, "rival", "tasks/get", own)


async def test_an_id_that_a_server_gives_to_two_does_not_change_hands(target: Target, agents: dict[str, str]) -> None:
    own = f"task-{fresh()}"
    async with (
        agent(target, agents["amber"], "passthrough") as amber,
        agent(target, agents["birch"], "passthrough") as birch,
    ):
        await begun(amber, "passthrough", how="never", id=own)
        second = await ask(birch, params("passthrough", "works", "look_task", fresh(), how="never", id=own))
        assert not second.ok and "somebody else" in second.words
        assert unknown(await about(birch, own))
        assert (await about(amber, own)).ok


@HELD
async def test_a_task_that_its_server_has_forgotten_is_unknown(target: Target, door: str) -> None:
    async with target.client(door, "works", MODERN, capabilities=ABLE) as peer:
        found = await about(peer, await begun(peer, door, how="forgotten"))
        assert not found.ok and found.code == "-32602"
        assert door == "passthrough" or unknown(found)


@HELD
async def test_who_does_not_declare_the_extension_may_not_ask(target: Target, door: str) -> None:
    async with target.client(door, "works", MODERN, capabilities=ABLE) as peer:
        task_id = await begun(peer, door, how="never")
    async with target.client("direct", "works", MODERN) as peer:
        found = await about(peer, task_id)
        assert not found.ok and found.code in ("-32021", "-32602")


@pytest.mark.parametrize("id_", ["x" * 1025, "", "a\nb", 7])
@HELD
async def test_a_task_whose_id_cannot_be_passed_on_is_an_error(target: Target, door: str, id_: Any) -> None:
    mark = fresh()
    async with target.client(door, "works", MODERN, capabilities=ABLE) as peer:
        found = await ask(peer, params(door, "works", "look_task", mark, how="done", id=id_))
    assert found.ok is (id_ == ""), "an empty one has the server make one up"
    assert id_ == "" or target.ended(mark)[0]["status"] == "error"


# Servers.


@FOLLOWED
@pytest.mark.parametrize("how", ["garbage", "other", "type", "inner", "status", "empty"])
async def test_what_is_no_state_of_a_task_ends_the_call_and_the_task(target: Target, door: str, how: str) -> None:
    mark, own = fresh(), f"task-{fresh()}"
    async with target.client(door, "works", MODERN) as peer:
        found = await ask(peer, params(door, "works", "look_task", mark, how=how, id=own))
    assert not found.ok and found.code == "UPSTREAM_ERROR", found
    (row,) = target.ended(mark)
    assert row["status"] == "error"
    await eventually(lambda: heard_of(target, "works", "tasks/cancel", own), "the cancelling")


@FOLLOWED
@pytest.mark.parametrize("how", ["never", "silent"])
@ERAS
async def test_a_task_that_never_ends_takes_as_long_as_a_call_may(
    target: Target, door: str, how: str, era: str
) -> None:
    mark, own = fresh(), f"task-{fresh()}"
    async with target.client(door, "short", era) as peer:
        found = await ask(peer, params(door, "short", "put_task", mark, how=how, id=own))
    assert not found.ok and found.code == "TIMEOUT", found
    assert "as long as a call may take" in found.words
    (row,) = target.ended(mark)
    assert row["status"] == "timeout"
    await eventually(lambda: heard_of(target, "short", "tasks/cancel", own), "the cancelling")


@pytest.mark.parametrize("poll", [0, -5, 1e300, "soon", None, 10**9])
async def test_how_often_it_is_asked_about_is_not_for_its_server_alone(target: Target, poll: Any) -> None:
    own = f"task-{fresh()}"
    async with target.client("gate", "short", MODERN) as peer:
        await ask(peer, params("gate", "short", "look_task", fresh(), how="never", id=own, poll=poll))
    assert 1 <= len(heard_of(target, "short", "tasks/get", own)) <= 30


@FOLLOWED
async def test_a_message_and_a_result_of_a_megabyte_pass_in_measure(target: Target, door: str) -> None:
    async with target.client(door, "works", MODERN) as peer:
        found = await ask(peer, params(door, "works", "look_task", fresh(), how="megabyte"), progressToken=1)
        assert found.ok, found
        assert all(len(said["message"]) < 1000 for said in peer.progress(1))
    assert "y" * 1000 in text(found.result)


@FOLLOWED
async def test_a_task_that_fails_is_the_error_that_it_would_have_been(target: Target, door: str) -> None:
    mark = fresh()
    async with target.client(door, "works", MODERN) as peer:
        found = await ask(peer, params(door, "works", "look_task", mark, how="fails"))
    assert not found.ok and "it broke down" in found.words
    assert target.ended(mark)[0]["status"] == "error"


@HELD
@pytest.mark.parametrize("how", ["garbage", "other", "type"])
async def test_what_is_no_state_of_a_task_is_none_to_a_client_either(target: Target, door: str, how: str) -> None:
    mark = fresh()
    async with target.client(door, "works", MODERN, capabilities=ABLE) as peer:
        task_id = await begun(peer, door, mark=mark, how=how)
        found = await turn(peer, {"taskId": task_id}, "tasks/get")
        assert door == "passthrough" or not found.ok
    assert [row["status"] for row in target.rows(mark)] == ["pending"], "nobody has seen it end"


# In the middle.


@FOLLOWED
@ERAS
async def test_a_freeze_ends_what_is_followed_and_may_act(target: Target, door: str, era: str) -> None:
    mark, read, acts, looks = fresh(), fresh(), f"task-{fresh()}", f"task-{fresh()}"
    with latch(target.folder) as file:
        async with (
            target.client(door, "works", era) as peer,
            target.client(door, "works", era) as reader,
            anyio.create_task_group() as group,
        ):
            later, reading = Later(), Later()
            # It would be asked about again in a minute: the freeze does not wait for that.
            asked = params(door, "works", "put_task", mark, how="never", id=acts, poll=60_000)
            group.start_soon(later.run, peer, asked)
            asked = params(door, "works", "look_task", read, how="until", id=looks, until=str(file))
            group.start_soon(reading.run, reader, asked)
            await target.log("works").wait_for(mark)
            await eventually(lambda: heard_of(target, "works", "tasks/get", looks), "the read to be followed")
            await anyio.to_thread.run_sync(target.freeze)
            try:
                found = await later.outcome()
                assert not found.ok and found.code == "FROZEN", found
                await eventually(lambda: heard_of(target, "works", "tasks/cancel", acts), "the cancelling")
                assert not heard_of(target, "works", "tasks/get", acts), "nothing of it left any more"
                release(file)
                assert (await reading.outcome()).ok, "reads go on"
                assert not heard_of(target, "works", "tasks/cancel", looks)
            finally:
                await anyio.to_thread.run_sync(target.thaw)
    assert target.ended(mark)[0]["error"]["code"] == "FROZEN"


@HELD
async def test_a_freeze_ends_what_a_client_follows_and_may_act(target: Target, door: str) -> None:
    mark, acts, looks = fresh(), f"task-{fresh()}", f"task-{fresh()}"
    async with target.client(door, "works", MODERN, capabilities=ABLE) as peer:
        acting = await begun(peer, door, "wipe_task", mark, how="never", id=acts)
        looking = await begun(peer, door, "look_task", how="never", id=looks)
        asking = await begun(peer, door, "put_task", how="ask")
        await anyio.to_thread.run_sync(target.freeze)
        try:
            await eventually(lambda: heard_of(target, "works", "tasks/cancel", acts), "the cancelling")
            assert (await about(peer, acting)).result["status"] == "cancelled", "looking at it is a read"
            assert (await about(peer, looking)).result["status"] == "working"
            refused = await about(peer, asking, "tasks/update", inputResponses={"one": {"action": "accept"}})
            assert not refused.ok and refused.code == "FROZEN", refused
            assert (await about(peer, acting, "tasks/cancel")).ok, "what may act may always be told to end"
        finally:
            await anyio.to_thread.run_sync(target.thaw)
        assert (await about(peer, looking, "tasks/cancel")).ok
    (row,) = target.ended(mark)
    assert row["status"] == "cancelled"


@FOLLOWED
@ERAS
async def test_a_client_that_goes_takes_its_task_with_it(target: Target, door: str, era: str) -> None:
    mark, own = fresh(), f"task-{fresh()}"
    async with target.client(door, "works", era) as peer:
        pending = await peer.begin("tools/call", params(door, "works", "put_task", mark, how="never", id=own))
        await eventually(lambda: heard_of(target, "works", "tasks/get", own), "the task to be followed")
        await peer.cancel(pending)
        await eventually(lambda: heard_of(target, "works", "tasks/cancel", own), "the cancelling")
    assert target.ended(mark)[0]["status"] == "cancelled"


@FOLLOWED
async def test_what_was_forbidden_meanwhile_ends(target: Target, door: str) -> None:
    mark, own = fresh(), f"task-{fresh()}"
    async with target.client(door, "rival", MODERN) as peer, anyio.create_task_group() as group:
        later = Later()
        group.start_soon(later.run, peer, params(door, "rival", "put_task", mark, how="never", id=own))
        await eventually(lambda: heard_of(target, "rival", "tasks/get", own), "the task to be followed")
        await anyio.to_thread.run_sync(lambda: target.configure("rival", deny_tools=["put_task"]))
        try:
            found = await later.outcome()
            assert not found.ok and found.code == "TOOL_UNAVAILABLE", found
            await eventually(lambda: heard_of(target, "rival", "tasks/cancel", own), "the cancelling")
        finally:
            await anyio.to_thread.run_sync(lambda: target.configure("rival"))


@FOLLOWED
@ERAS
async def test_what_a_task_asks_is_answered_by_its_client_once(target: Target, door: str, era: str) -> None:
    mark, own = fresh(), f"task-{fresh()}"
    async with target.client(door, "works", era, accepts("a word")) as peer:
        found = await ask(peer, params(door, "works", "put_task", mark, how="ask", id=own))
        assert found.ok and "a word" in text(found.result), found
        assert len(peer.asked) == 1
    assert len(heard_of(target, "works", "tasks/update", own)) == 1
    assert "answered" in target.journal()
    assert until(lambda: target.rows(mark)[0]["status"] == "success", what="its end on record")
