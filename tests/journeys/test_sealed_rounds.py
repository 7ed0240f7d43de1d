"""The hard cell: a modern client, and an upstream that asks in the middle of a call it holds open.

Between the rounds the gateway gives away a sealed `requestState`. It is good for one answer to one call, with
the arguments of that call, as long as that call waits; everything else gets a clear error and reaches nobody.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.journeys.cells import Cell, World, through
from tests.support.everything import over_stdio
from tests.support.gateway import Running, gateway, start, until
from tests.support.peer import Message, Peer
from tests.support.wire import RpcError, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SURF-6", "UP-5")]

UPSTREAM = "handshake-stdio"
HARD = tuple(cell for cell in through("passthrough", "gate") if (cell.client, cell.name) == ("modern", UPSTREAM))
in_the_hard_cell = pytest.mark.parametrize("cell", HARD, ids=str)


def configuration(notes: Path, **extra: Any) -> Mapping[str, Any]:
    entry = over_stdio("--era", "handshake", "--notes", str(notes / UPSTREAM), **extra)
    return {"surfaces": ["gate", "passthrough"], "mcpServers": {UPSTREAM: entry}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("sealed")
    with gateway(path / "data", configuration(path)) as found:
        yield found


@pytest.fixture
def world(running: Running) -> World:
    return world_of(running)


def world_of(running: Running) -> World:
    return World({}, running.data_dir.parent, running.url, running.data_dir)


async def asked(peer: Peer, params: Message) -> Message:
    """The first round of a call: what the client is asked."""
    result = await (await peer.begin("tools/call", params)).result()
    assert result["resultType"] == "input_required", result
    assert isinstance(result["requestState"], str)
    return result


def answered(params: Message, round_: Message, answer: str, **changes: Any) -> Message:
    """The retry that brings the answer."""
    (key,) = round_["inputRequests"]
    responses = {key: {"action": "accept", "content": {"answer": answer}}}
    return {**params, "inputResponses": responses, "requestState": round_["requestState"], **changes}


async def finish(peer: Peer, params: Message) -> str:
    return text(await (await peer.begin("tools/call", params)).result())


async def refusal(peer: Peer, params: Message) -> str:
    """What a retry is told that must not get through."""
    try:
        result = await (await peer.begin("tools/call", params)).result()
    except RpcError as error:
        return str(error)
    assert result.get("isError") and result.get("resultType", "complete") == "complete", result
    return text(result)


@in_the_hard_cell
async def test_a_state_that_was_changed_is_refused_and_the_call_goes_on_waiting(world: World, cell: Cell) -> None:
    who = f"tess-{cell.door}"
    params = cell.params("ask", {"who": who})
    async with cell.peer(world) as peer:
        round_ = await asked(peer, params)
        state = round_["requestState"]
        for forged in (state[:-4] + ("AAAA" if state[-4:] != "AAAA" else "BBBB"), state + "x", "", "bm9uc2Vuc2U="):
            assert await refusal(peer, answered(params, round_, "forged", requestState=forged))
        assert await finish(peer, answered(params, round_, "blue")) == f"{who} says blue"
    assert world.notes_of(UPSTREAM).count(f"asked {who} accept") == 1


@in_the_hard_cell
async def test_a_state_is_good_for_one_answer(world: World, cell: Cell) -> None:
    params = cell.params("ask", {"who": "rita"})
    async with cell.peer(world) as peer:
        round_ = await asked(peer, params)
        assert await finish(peer, answered(params, round_, "blue")) == "rita says blue"
        assert await refusal(peer, answered(params, round_, "red"))


@in_the_hard_cell
async def test_a_state_from_another_call_is_refused(world: World, cell: Cell) -> None:
    mine, theirs = cell.params("ask", {"who": "mia"}), cell.params("ask", {"who": "tom"})
    async with cell.peer(world, name="mia") as first, cell.peer(world, name="tom") as second:
        round_of_mia, round_of_tom = await asked(first, mine), await asked(second, theirs)
        stolen = answered(mine, round_of_mia, "stolen", requestState=round_of_tom["requestState"])
        assert await refusal(first, stolen)
        assert await finish(second, answered(theirs, round_of_tom, "red")) == "tom says red"
        assert await finish(first, answered(mine, round_of_mia, "blue")) == "mia says blue"


@in_the_hard_cell
async def test_the_rounds_of_one_call_are_one_row_of_the_record(running: Running, world: World, cell: Cell) -> None:
    who = f"one-{cell.door}"
    params = cell.params("interview", {"who": who})
    async with cell.peer(world) as peer:
        first = await asked(peer, params)
        second = await (await peer.begin("tools/call", answered(params, first, "grace"))).result()
        assert second["requestState"] != first["requestState"]
        assert await finish(peer, answered(params, second, "green")) == f"{who}, grace, green"
    rows = [row for row in running.activities(tool="interview") if who in str(row["arguments"])]
    assert [row["status"] for row in rows] == ["success"]


@pytest.mark.proves("PROV-4")
@pytest.mark.parametrize("cell", [cell for cell in HARD if cell.door == "gate"], ids=str)
async def test_what_is_forbidden_between_two_rounds_ends_the_call_in_its_own_row(
    running: Running, world: World, cell: Cell
) -> None:
    who = f"frozen-{cell.door}"
    params = cell.params("ask", {"who": who})
    async with cell.peer(world) as peer:
        first = await asked(peer, params)
        try:
            assert running.post("/freeze").status_code == 200
            assert "frozen" in await refusal(peer, answered(params, first, "blue"))
        finally:
            assert running.post("/unfreeze").status_code == 200
        assert "no longer waits" in await refusal(peer, answered(params, first, "blue"))
    rows = [row for row in running.activities(tool="ask") if who in str(row["arguments"])]
    late, itself = rows  # coming back to a call that is over is an ask of its own
    assert (late["status"], late["error"]["code"]) == ("blocked", "INVALID_ARGUMENTS")
    assert (itself["status"], itself["error"]["code"]) == ("blocked", "FROZEN")
    assert f"asked {who} accept" not in world.notes_of(UPSTREAM)


@in_the_hard_cell
async def test_when_the_server_dies_between_rounds_the_retry_hears_it_and_nothing_is_recorded_twice(
    running: Running, world: World, cell: Cell
) -> None:
    who = f"orphan-{cell.door}"
    params = cell.params("ask", {"who": who})

    def statuses() -> list[str]:
        return [row["status"] for row in running.activities(tool="ask") if who in str(row["arguments"])]

    async with cell.peer(world) as peer:
        for ended in (True, False):
            round_ = await asked(peer, params)
            before = restarts(running)
            for process in psutil.Process(running.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):  # it ended while we looked
                    if "handshake" in process.cmdline():
                        process.kill()
            if ended:
                until(lambda: "pending" not in statuses(), what="the end of the call")
            assert "may have acted" in await refusal(peer, answered(params, round_, "blue"))
            until(lambda before=before: restarts(running) > before, what="another life of the server")
            running.wait_for(UPSTREAM)
    assert statuses() == ["error", "error"]
    assert f"asked {who} accept" not in world.notes_of(UPSTREAM)


def restarts(running: Running) -> int:
    (row,) = (row for row in running.get("/servers")["servers"] if row["name"] == UPSTREAM)
    return row["restarts"]


@in_the_hard_cell
async def test_a_retry_that_never_comes_times_out_and_cancels_the_upstream(tmp_path: Path, cell: Cell) -> None:
    with gateway(tmp_path / "data", {**configuration(tmp_path), "limits": {"input_timeout": 1.5}}) as running:
        world = world_of(running)
        params = cell.params("ask", {"who": "gone"})
        async with cell.peer(world) as peer:
            round_ = await asked(peer, params)
            until(lambda: "cancelled gone" in world.notes_of(UPSTREAM), what="the upstream to hear of it")
            assert await refusal(peer, answered(params, round_, "late"))
        # The call's own row is the oldest; the retry that was refused may have one beside it.
        until(lambda: running.activities(tool="ask")[-1]["status"] == "timeout", what="the end of the call on record")


@in_the_hard_cell
async def test_a_retry_after_a_restart_is_told_that_the_upstream_may_have_acted(tmp_path: Path, cell: Cell) -> None:
    config = configuration(tmp_path)
    params = cell.params("ask", {"who": "late"})
    before = start(tmp_path / "data", config)
    try:
        async with cell.peer(world_of(before)) as peer:
            round_ = await asked(peer, params)
            before.kill()
    finally:
        before.client.close()
        if before.process.poll() is None:
            before.kill()
    with gateway(tmp_path / "data", config) as after:
        async with cell.peer(world_of(after)) as peer:
            assert "may" in await refusal(peer, answered(params, round_, "blue"))
        assert "interrupted" in {row["status"] for row in after.activities(tool="ask")}
    assert "asked late accept" not in world_of(after).notes_of(UPSTREAM)
