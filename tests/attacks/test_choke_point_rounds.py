"""Later rounds of a call: a state is spent once, and what is said in a round is on record before a server hears it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    DOORS,
    ERAS,
    Log,
    Outcome,
    Target,
    accepts,
    ask,
    fresh,
    heard,
    heard_over_http,
    params,
    path_of,
    retry,
    turn,
)
from tests.support.gateway import gateway
from tests.support.links import HttpLink
from tests.support.peer import Message, Peer, connected
from tests.support.postgres import own_server
from tests.support.replicas import TOKEN, documented, replicas
from tests.support.wire import MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-14", "GATE-15")]
SERVERS = pytest.mark.parametrize("server", ["modern", "modern-http", "handshake", "handshake-http"])
STATELESS = pytest.mark.parametrize("server", ["modern", "modern-http"])
"""Those that keep nothing between rounds, and believe whatever state they are sent."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("rounds")
    with ExitStack() as stack:
        servers = {
            "modern": heard(folder, "modern", "--modern"),
            "handshake": heard(folder, "handshake"),
            "modern-http": stack.enter_context(heard_over_http(folder, "modern-http", "--modern")),
            "handshake-http": stack.enter_context(heard_over_http(folder, "handshake-http")),
        }
        config = {"surfaces": ALL_SURFACES, "mcpServers": servers}
        yield Target(stack.enter_context(gateway(folder / "data", config)), folder, servers)


def refused_but_one(outcomes: list[Outcome]) -> None:
    assert [each.ok for each in outcomes].count(True) == 1, outcomes
    for each in outcomes:
        assert each.ok or ("requestState" in each.words or "round" in each.words), each


# H1: a state is good for one use.


@DOORS
@STATELESS
async def test_a_state_that_comes_five_times_reaches_the_server_once(target: Target, door: str, server: str) -> None:
    mark, log = fresh(), target.log(server)
    first = params(door, server, "wipe_ask", mark)
    async with target.client(door, server, MODERN) as peer:
        again = retry(first, await turn(peer, first), mark)
        outcomes = [await turn(peer, again) for _ in range(5)]
    await target.marker(door, server, MODERN)
    assert len(log.later_rounds(mark)) == 1
    assert outcomes[0].ok
    refused_but_one(outcomes)
    rows = target.ended(mark)
    assert [row["status"] for row in rows] == ["success", *["blocked"] * 4], "every later use is on record"
    assert {row["error"]["code"] for row in rows[1:]} == {"INVALID_ARGUMENTS"}


@DOORS
@STATELESS
async def test_a_state_that_comes_five_times_at_once_reaches_the_server_once(
    target: Target, door: str, server: str
) -> None:
    mark, log = fresh(), target.log(server)
    first = params(door, server, "wipe_ask", mark)
    async with target.client(door, server, MODERN) as peer:
        again = retry(first, await turn(peer, first), mark)
        outcomes = await at_once([(peer, again)] * 5)
    await target.marker(door, server, MODERN)
    assert len(log.later_rounds(mark)) == 1
    refused_but_one(outcomes)


async def at_once(asks: list[tuple[Peer, Message]]) -> list[Outcome]:
    outcomes: list[Outcome] = []

    async def one(peer: Peer, asked: Message) -> None:
        outcomes.append(await turn(peer, asked))

    async with anyio.create_task_group() as tasks:
        for peer, asked in asks:
            tasks.start_soon(one, peer, asked)
    return outcomes


@DOORS
async def test_the_state_of_an_earlier_round_is_not_good_in_a_later_one(target: Target, door: str) -> None:
    mark, log = fresh(), target.log("modern")
    first = params(door, "modern", "wipe_ask", mark, rounds=2)
    async with target.client(door, "modern", MODERN) as peer:
        second = retry(first, await turn(peer, first), mark)
        third = retry(first, await turn(peer, second), mark)
        assert not (await turn(peer, second)).ok
        assert (await turn(peer, third)).ok
        assert not (await turn(peer, third)).ok
        assert not (await turn(peer, second)).ok
    assert [params["requestState"] for params in log.later_rounds(mark)] == ["asked-1", "asked-2"]


@pytest.mark.parametrize(("method", "key", "value"), [("prompts/get", "name", "ask"), ("resources/read", "uri", "")])
async def test_it_holds_for_whatever_takes_rounds(target: Target, method: str, key: str, value: str) -> None:
    value = value or f"note://{fresh()}/ask"
    log, before = target.log("modern"), len(target.log("modern").of(method))
    async with target.client("passthrough", "modern", MODERN) as peer:
        first = {key: value}
        again = retry(first, await turn(peer, first, method), "blue")
        outcomes = [await turn(peer, again, method) for _ in range(3)]
    await target.marker("passthrough", "modern", MODERN)
    refused_but_one(outcomes)
    assert len(log.of(method)) - before == 2, "each round once"


async def test_a_state_is_spent_for_all_replicas(tmp_path: Path) -> None:
    """Two gateways over one PostgreSQL, one after the other and both at once."""
    log = Log(tmp_path / "modern.heard")
    config = documented(mcpServers={"modern": heard(tmp_path, "modern", "--modern")}, surfaces=ALL_SURFACES)
    with own_server() as database, replicas(tmp_path, database.database(), config) as gateways:
        links = [HttpLink(each.url + path_of("gate", "modern"), token=TOKEN) for each in gateways]
        async with connected(links[0]) as one, connected(links[1]) as other:
            for here, there in ((one, other), (other, one)):
                mark = fresh()
                first = params("gate", "modern", "wipe_ask", mark)
                again = retry(first, await turn(here, first), mark)
                assert (await turn(there, again)).ok, "a round may land anywhere"
                refused = [await turn(peer, again) for peer in (here, there, here, there)]
                assert not any(each.ok for each in refused), refused
                assert len(log.later_rounds(mark)) == 1
            for _ in range(5):
                mark = fresh()
                first = params("gate", "modern", "wipe_ask", mark)
                again = retry(first, await turn(one, first), mark)
                refused_but_one(await at_once([(one, again), (other, again)] * 2))
                assert len(log.later_rounds(mark)) == 1


# What is said in a round is on record, masked.


@ERAS
@DOORS
@SERVERS
async def test_the_answer_of_each_round_is_on_record_and_its_secrets_are_not(
    target: Target, era: str, door: str, server: str
) -> None:
    mark, word, secret = fresh(), fresh("said"), fresh("hunter2")
    async with target.client(door, server, era, accepts(word, password=secret)) as peer:
        assert (await ask(peer, params(door, server, "wipe_ask", mark, rounds=2))).ok
    assert target.log(server).has(word) and target.log(server).has(secret), "the server is told what the person said"
    (row,) = target.ended(mark)
    kept = target.journal() + json.dumps(target.running.get(f"/activity/{row['id']}"))
    assert kept.count(word) >= 2, "once for each round"
    assert secret not in kept
    assert target.running.get("/activity/verify")["findings"] == []


# H2: what cannot be recorded is not sent.


@ERAS
@DOORS
@SERVERS
@pytest.mark.parametrize("tool", ["put_ask", "wipe_ask"])
async def test_a_later_round_that_cannot_be_recorded_is_not_sent(
    target: Target, era: str, door: str, server: str, tool: str
) -> None:
    mark, word, log = fresh(), fresh("said"), target.log(server)
    with ExitStack() as stack:

        def nothing_is_written() -> None:
            stack.enter_context(target.unwritable())

        async with target.client(door, server, era, accepts(word, nothing_is_written)) as peer:
            found = await ask(peer, params(door, server, tool, mark))
    assert not found.ok, found
    if server.startswith("modern"):
        assert found.code == "STORE_UNAVAILABLE"
    await target.marker(door, server, era)
    assert len(log.calls(mark)) == 1
    assert not log.has(word)


@ERAS
@DOORS
async def test_reads_go_on_while_nothing_can_be_recorded_and_nothing_else_does(
    target: Target, era: str, door: str
) -> None:
    marks, log = [fresh(), fresh(), fresh()], target.log("modern")
    async with target.client(door, "modern", era) as peer:
        with target.unwritable():
            look, put, wipe = [
                await ask(peer, params(door, "modern", tool, mark))
                for tool, mark in zip(("look", "put", "wipe"), marks, strict=True)
            ]
    assert look.ok
    assert (put.code, wipe.code) == ("STORE_UNAVAILABLE", "STORE_UNAVAILABLE")
    await target.marker(door, "modern", era)
    assert [len(log.calls(mark)) for mark in marks] == [1, 0, 0]
