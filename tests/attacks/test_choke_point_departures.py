"""Clients that go, at every step of a call: the server hears at most what was decided, and the record has an end."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    DOORS,
    ERAS,
    Later,
    Target,
    accepts,
    eventually,
    fresh,
    heard,
    heard_over_http,
    latch,
    over_rest,
    params,
    release,
    retry,
    turn,
)
from tests.support.gateway import gateway
from tests.support.peer import WAIT, Peer
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-14")]
SERVERS = pytest.mark.parametrize("server", ["modern", "modern-http", "handshake", "handshake-http"])
ENDED = {"cancelled", "timeout", "blocked", "error", "interrupted"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("departures")
    with ExitStack() as stack:
        servers = {
            "modern": heard(folder, "modern", "--modern"),
            "handshake": heard(folder, "handshake"),
            "modern-http": stack.enter_context(heard_over_http(folder, "modern-http", "--modern")),
            "handshake-http": stack.enter_context(heard_over_http(folder, "handshake-http")),
            "narrow": heard(folder, "narrow", "--modern", max_concurrency=1),
            "confirming": heard(folder, "confirming", "--modern", confirm="write"),
        }
        # Whoever is asked and does not come back has that long; a client that goes is not waited for.
        config = {"surfaces": ALL_SURFACES, "mcpServers": servers, "limits": {"input_timeout": 2}}
        yield Target(stack.enter_context(gateway(folder / "data", config)), folder, servers)


async def occupied(target: Target, tasks: Any, until: Path) -> None:
    mark = fresh("occupying")
    over = functools.partial(over_rest, target.running, "narrow", "look", mark, until=str(until))
    tasks.start_soon(functools.partial(anyio.to_thread.run_sync, over, abandon_on_cancel=True))
    await target.log("narrow").wait_for(mark)


def operator(target: Target) -> httpx.AsyncClient:
    """Somebody at REST who can hang up."""
    return httpx.AsyncClient(headers={"x-api-key": target.running.key}, trust_env=False)


async def ended(target: Target, mark: str) -> list[str]:
    rows = await anyio.to_thread.run_sync(target.ended, mark)
    return [row["status"] for row in rows]


async def begun(target: Target, peer: Peer, mark: str, asked: dict[str, Any], server: str) -> Any:
    pending = await peer.begin("tools/call", asked)
    await target.log(server).wait_for(mark)
    return pending


# While it waits for its turn.


@ERAS
@DOORS
async def test_a_call_whose_client_goes_while_it_waits_for_a_place_is_never_sent(
    target: Target, era: str, door: str
) -> None:
    mark, log = fresh(), target.log("narrow")
    with latch(target.folder) as file:
        async with target.client(door, "narrow", era) as peer, anyio.create_task_group() as tasks:
            await occupied(target, tasks, file)
            pending = await peer.begin("tools/call", params(door, "narrow", "wipe", mark))
            await target.has_calls("narrow", 2)
            await peer.cancel(pending)
            assert await ended(target, mark) == ["cancelled"]
            release(file)
    await target.marker(door, "narrow", era)
    assert not log.calls(mark)


async def test_nor_over_rest(target: Target) -> None:
    mark, log, url = fresh(), target.log("narrow"), f"{target.running.url}/api/v1/call"
    body = {"variant": "destructive", "name": "narrow:wipe", "args": {"mark": mark}}
    body["intent"] = {"operation_type": "destructive"}
    with latch(target.folder) as file:
        async with anyio.create_task_group() as tasks:
            await occupied(target, tasks, file)
            async with operator(target) as client, anyio.create_task_group() as inner:
                inner.start_soon(functools.partial(client.post, url, json=body, timeout=WAIT))
                await target.has_calls("narrow", 2)
                inner.cancel_scope.cancel()
            assert await ended(target, mark) == ["cancelled"]
            release(file)
    await target.marker("gate", "narrow", MODERN)
    assert not log.calls(mark)


@ERAS
async def test_a_session_that_ends_takes_its_waiting_calls_with_it(target: Target, era: str) -> None:
    """The client ends its session, or its connection breaks, instead of cancelling."""
    mark, log = fresh(), target.log("narrow")
    with latch(target.folder) as file:
        async with anyio.create_task_group() as tasks:
            await occupied(target, tasks, file)
            async with target.client("gate", "narrow", era) as peer:
                await peer.begin("tools/call", params("gate", "narrow", "wipe", mark))
                await target.has_calls("narrow", 2)
            assert await ended(target, mark) == ["cancelled"]
            release(file)
    await target.marker("gate", "narrow", era)
    assert not log.calls(mark)


# While a person is asked for a yes.


@ERAS
@DOORS
async def test_a_call_whose_client_goes_while_its_person_thinks_is_never_sent(
    target: Target, era: str, door: str
) -> None:
    mark, log = fresh(), target.log("confirming")
    asked, never = anyio.Event(), anyio.Event()

    async def person(method: str, question: Any) -> Any:
        asked.set()
        await never.wait()

    async with target.client(door, "confirming", era, person) as peer, anyio.create_task_group() as tasks:
        call = Later()
        tasks.start_soon(call.run, peer, params(door, "confirming", "wipe", mark))
        with anyio.fail_after(WAIT):
            await asked.wait()
        tasks.cancel_scope.cancel()
    (status,) = await ended(target, mark)
    assert status in ENDED
    await target.marker(door, "confirming", era)
    assert not log.calls(mark)


# While the server works.


@ERAS
@DOORS
@SERVERS
async def test_a_call_whose_client_goes_while_the_server_works_is_cancelled_there_too(
    target: Target, era: str, door: str, server: str
) -> None:
    mark, log = fresh(), target.log(server)
    with latch(target.folder) as file:
        async with target.client(door, server, era) as peer:
            asked = params(door, server, "wipe", mark, until=str(file))
            pending = await begun(target, peer, mark, asked, server)
            await peer.cancel(pending)
            await eventually(lambda: log.given_up(mark), "the cancellation at the server")
            assert await ended(target, mark) == ["cancelled"]
    assert len(log.calls(mark)) == 1


@SERVERS
async def test_over_rest_too(target: Target, server: str) -> None:
    mark, log, url = fresh(), target.log(server), f"{target.running.url}/api/v1/call"
    with latch(target.folder) as file:
        body = {"variant": "destructive", "name": f"{server}:wipe", "args": {"mark": mark, "until": str(file)}}
        body["intent"] = {"operation_type": "destructive"}
        async with operator(target) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(functools.partial(client.post, url, json=body, timeout=WAIT))
            await log.wait_for(mark)
            tasks.cancel_scope.cancel()
        await eventually(lambda: log.given_up(mark), "the cancellation at the server")
        assert await ended(target, mark) == ["cancelled"]
    assert len(log.calls(mark)) == 1


# Between two rounds.


@DOORS
@SERVERS
async def test_a_modern_client_that_never_comes_back_leaves_one_round_and_an_end(
    target: Target, door: str, server: str
) -> None:
    mark, word, log = fresh(), fresh("said"), target.log(server)
    first = params(door, server, "wipe_ask", mark)
    async with target.client(door, server, MODERN) as peer:
        again = retry(first, await turn(peer, first), word)
    (status,) = await ended(target, mark)
    assert status in ENDED
    async with target.client(door, server, MODERN) as peer:
        assert not (await turn(peer, again)).ok, "and it is too late then"
    await target.marker(door, server, MODERN)
    assert len(log.calls(mark)) == 1
    assert not log.has(word)
    if server == "handshake":
        assert log.given_up(mark)


@DOORS
@SERVERS
async def test_a_session_that_ends_while_its_person_answers_the_server(target: Target, door: str, server: str) -> None:
    mark, log = fresh(), target.log(server)
    asked, never = anyio.Event(), anyio.Event()

    async def person(method: str, question: Any) -> Any:
        asked.set()
        await never.wait()

    async with target.client(door, server, HANDSHAKE, person) as peer:
        await peer.begin("tools/call", params(door, server, "wipe_ask", mark))
        with anyio.fail_after(WAIT):
            await asked.wait()
    (status,) = await ended(target, mark)
    assert status in ENDED
    await target.marker(door, server, HANDSHAKE)
    assert len(log.calls(mark)) == 1


@DOORS
async def test_a_client_that_goes_in_its_second_round_cancels_that_round(target: Target, door: str) -> None:
    """It waits for a place; and it is not sent when that is free."""
    mark, log = fresh(), target.log("narrow")
    first = params(door, "narrow", "wipe_ask", mark)
    with latch(target.folder) as file:
        async with target.client(door, "narrow", MODERN) as peer, anyio.create_task_group() as tasks:
            again = retry(first, await turn(peer, first), fresh("said"))
            await occupied(target, tasks, file)
            pending = await peer.begin("tools/call", again)
            await target.has_calls("narrow", 2)
            await peer.cancel(pending)
            (status,) = await ended(target, mark)
            assert status in ENDED
            release(file)
    await target.marker(door, "narrow", MODERN)
    assert not log.later_rounds(mark)


@ERAS
async def test_one_that_says_yes_and_goes_is_sent_at_most_once_and_has_an_end(target: Target, era: str) -> None:
    """Whether the yes or the going is first is chance; what the record says and what the server heard agree."""
    log = target.log("confirming")
    for pauses in range(6):
        mark = fresh()
        asked = params("gate", "confirming", "wipe", mark)
        async with target.client("gate", "confirming", era, accepts("", allow=True)) as peer:
            if era == MODERN:
                pending = await peer.begin("tools/call", retry(asked, await turn(peer, asked), "", allow=True))
            else:
                pending = await peer.begin("tools/call", asked)
                await peer.hear_question()
            for _ in range(pauses * 3):
                await anyio.lowlevel.checkpoint()
            await peer.cancel(pending)
            (status,) = await ended(target, mark)
            await peer.request("tools/list")
        sent = len(log.calls(mark))
        assert sent <= 1
        assert sent == 1 or status in ENDED, (status, sent)
    await target.marker("gate", "confirming", era)
