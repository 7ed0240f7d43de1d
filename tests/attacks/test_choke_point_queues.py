"""Calls that wait for their turn: what was forbidden meanwhile is not sent when the turn comes.

A call may wait for a place at its server, for a session, for a connection, for a pipe that is full, or for a person.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    DOORS,
    ERAS,
    Later,
    Target,
    accepts,
    ask,
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
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-14")]

NARROW = ["narrow", "narrow-http", "narrow-handshake"]
Tighten = Callable[[Target, str], object]
TIGHTENED: dict[str, tuple[Tighten, set[str]]] = {
    "freeze": (lambda target, server: target.freeze(), {"FROZEN"}),
    "deny": (
        lambda target, server: target.configure(server, deny_tools=["put", "wipe", "put_ask", "wipe_ask"]),
        {"TOOL_UNAVAILABLE"},
    ),
    "allow": (lambda target, server: target.configure(server, allow_tools=["look"]), {"TOOL_UNAVAILABLE"}),
    "confirm": (lambda target, server: target.configure(server, confirm="write"), {"NOT_CONFIRMED"}),
    "disable": (
        lambda target, server: target.disable(server),
        {"TOOL_UNAVAILABLE", "SERVER_UNAVAILABLE"},
    ),
    "remove": (
        lambda target, server: target.remove(server),
        {"TOOL_NOT_FOUND", "SERVER_UNAVAILABLE"},
    ),
}
"""What somebody does while a call waits, and with which code it is refused then."""
TIGHTER = pytest.mark.parametrize("how", list(TIGHTENED))
LISTED = pytest.mark.parametrize("how", ["freeze", "deny", "allow", "confirm"])
"""Those after which the server is still there, so that a later read can show that nothing came."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("queues")
    with ExitStack() as stack:
        servers = {
            "narrow": heard(folder, "narrow", "--modern", max_concurrency=1),
            "narrow-handshake": heard(folder, "narrow-handshake", max_concurrency=1, sessions="shared"),
            "narrow-http": stack.enter_context(heard_over_http(folder, "narrow-http", "--modern", max_concurrency=1)),
            "modern": heard(folder, "modern", "--modern"),
            "handshake": heard(folder, "handshake"),
            "handshake-http": stack.enter_context(heard_over_http(folder, "handshake-http")),
            "piped": heard(folder, "piped", "--modern"),
        }
        config = {"surfaces": ALL_SURFACES, "mcpServers": servers}
        yield Target(stack.enter_context(gateway(folder / "data", config)), folder, servers)


@pytest.fixture(autouse=True)
def as_it_was(target: Target) -> Iterator[None]:
    """What one test forbids is permitted again in the next."""
    yield
    target.thaw()
    for server in [*target.changed]:
        target.configure(server)
    target.changed.clear()
    target.running.wait_for(*target.servers)


async def occupied(target: Target, tasks: Any, server: str, until: Path) -> None:
    """The only place at this server is taken, by a read that is answered when this file is there."""
    mark = fresh("occupying")
    over = functools.partial(over_rest, target.running, server, "look", mark, until=str(until))
    tasks.start_soon(functools.partial(anyio.to_thread.run_sync, over, abandon_on_cancel=True))
    await target.log(server).wait_for(mark)


@TIGHTER
@ERAS
@pytest.mark.parametrize("server", NARROW)
async def test_what_was_forbidden_while_a_call_waited_for_a_place_is_not_sent(
    target: Target, era: str, server: str, how: str
) -> None:
    mark, log = fresh(), target.log(server)
    tighten, codes = TIGHTENED[how]
    with latch(target.folder) as file:
        async with target.client("gate", server, era) as peer, anyio.create_task_group() as tasks:
            await occupied(target, tasks, server, file)
            waiting = Later()
            tasks.start_soon(waiting.run, peer, params("gate", server, "wipe", mark))
            await target.has_calls(server, 2)
            await anyio.to_thread.run_sync(tighten, target, server)
            release(file)
            found = await waiting.outcome()
    assert not log.calls(mark)
    assert found.code in codes, found
    (row,) = target.ended(mark)
    assert (row["status"], row["error"]["code"]) == ("blocked", found.code)
    if how in ("freeze", "deny", "allow", "confirm"):
        await target.marker("gate", server, era)
        assert not log.calls(mark)


@ERAS
@pytest.mark.parametrize("door", ["direct", "passthrough"])
@LISTED
async def test_it_holds_at_every_door(target: Target, era: str, door: str, how: str) -> None:
    mark, log, server = fresh(), target.log("narrow"), "narrow"
    tighten, codes = TIGHTENED[how]
    with latch(target.folder) as file:
        async with target.client(door, server, era) as peer, anyio.create_task_group() as tasks:
            await occupied(target, tasks, server, file)
            waiting = Later()
            tasks.start_soon(waiting.run, peer, params(door, server, "wipe", mark))
            await target.has_calls(server, 2)
            await anyio.to_thread.run_sync(tighten, target, server)
            release(file)
            found = await waiting.outcome()
    await target.marker(door, server, era)
    assert not log.calls(mark)
    assert found.code in codes, found


@LISTED
async def test_it_holds_over_rest(target: Target, how: str) -> None:
    mark, log, server = fresh(), target.log("narrow"), "narrow"
    tighten, codes = TIGHTENED[how]
    answers: list[Any] = []

    def call() -> None:
        answers.append(over_rest(target.running, server, "wipe", mark))

    with latch(target.folder) as file:
        async with anyio.create_task_group() as tasks:
            await occupied(target, tasks, server, file)
            tasks.start_soon(anyio.to_thread.run_sync, call)
            await target.has_calls(server, 2)
            await anyio.to_thread.run_sync(tighten, target, server)
            release(file)
    await target.marker("gate", server, MODERN)
    assert not log.calls(mark)
    assert answers[0].json()["error"]["code"] in codes


@ERAS
@pytest.mark.parametrize(
    ("door", "changes"),
    [
        ("gate", {"tools": {"put": "destructive"}}),
        ("direct", {"tools": {"put": "destructive"}, "confirm": "destructive"}),
        ("passthrough", {"tools": {"put": "destructive"}, "confirm": "destructive"}),
    ],
)
async def test_a_tool_that_was_classed_higher_while_its_call_waited(
    target: Target, era: str, door: str, changes: dict[str, Any]
) -> None:
    """At the gate it was declared as less than it is now, elsewhere a person has to be asked now."""
    mark, log, server = fresh(), target.log("narrow"), "narrow"
    with latch(target.folder) as file:
        async with target.client(door, server, era) as peer, anyio.create_task_group() as tasks:
            await occupied(target, tasks, server, file)
            waiting = Later()
            tasks.start_soon(waiting.run, peer, params(door, server, "put", mark))
            await target.has_calls(server, 2)
            await anyio.to_thread.run_sync(functools.partial(target.configure, server, **changes))
            release(file)
            found = await waiting.outcome()
    await target.marker(door, server, era)
    assert not log.calls(mark)
    assert found.code in ("SERVER_MISMATCH", "NOT_CONFIRMED"), found


@ERAS
async def test_reads_that_waited_go_on_when_the_gateway_is_frozen(target: Target, era: str) -> None:
    mark = fresh()
    with latch(target.folder) as file:
        async with target.client("gate", "narrow", era) as peer, anyio.create_task_group() as tasks:
            await occupied(target, tasks, "narrow", file)
            waiting = Later()
            tasks.start_soon(waiting.run, peer, params("gate", "narrow", "look", mark))
            await target.has_calls("narrow", 2)
            await anyio.to_thread.run_sync(target.freeze)
            release(file)
            assert (await waiting.outcome()).ok
    assert len(target.log("narrow").calls(mark)) == 1


@ERAS
@LISTED
async def test_what_was_forbidden_while_a_session_was_being_opened_is_not_sent(
    tmp_path: Path, era: str, how: str
) -> None:
    """With `exclusive` sessions a second call opens one of its own, and this server is slow to greet."""
    hello = tmp_path / "hello"
    hello.touch()
    servers = {"s": heard(tmp_path, "s", "--hello", str(hello), sessions="exclusive")}
    with gateway(tmp_path / "data", {"mcpServers": servers}) as running, latch(tmp_path) as file:
        target, mark = Target(running, tmp_path, servers), fresh()
        log, (tighten, codes) = target.log("s"), TIGHTENED[how]
        async with target.client("gate", "s", era) as peer, anyio.create_task_group() as tasks:
            await occupied(target, tasks, "s", file)
            hello.unlink()
            greeted = len(log.messages())
            waiting = Later()
            tasks.start_soon(waiting.run, peer, params("gate", "s", "wipe", mark))
            await target.recorded(mark)
            await eventually(lambda: len(log.messages()) > greeted, "the greeting of another session")
            await anyio.to_thread.run_sync(tighten, target, "s")
            hello.touch()
            found = await waiting.outcome()
            await target.marker("gate", "s", era)
            release(file)
    assert not log.calls(mark)
    assert found.code in codes, found


@ERAS
@LISTED
async def test_what_was_forbidden_while_the_server_connected_is_not_sent(tmp_path: Path, era: str, how: str) -> None:
    hello = tmp_path / "hello"
    servers = {"s": heard(tmp_path, "s", "--modern", "--hello", str(hello), connect_timeout=60)}
    with gateway(tmp_path / "data", {"mcpServers": servers}, wait=False) as running:
        target, mark = Target(running, tmp_path, servers), fresh()
        log, (tighten, codes) = target.log("s"), TIGHTENED[how]
        await eventually(log.messages, "the server to be asked what it speaks")
        async with target.client("gate", "s", era) as peer, anyio.create_task_group() as tasks:
            waiting = Later()
            tasks.start_soon(waiting.run, peer, params("gate", "s", "wipe", mark))
            await peer.request("tools/list")  # behind it, so the call is there by now
            await anyio.to_thread.run_sync(tighten, target, "s")
            hello.touch()
            found = await waiting.outcome()
        await eventually(lambda: running.wait_for("s") is None, "the server")
        await target.marker("gate", "s", era)
        assert not log.calls(mark)
    assert found.code in codes, found


@ERAS
@LISTED
@pytest.mark.parametrize("door", ["gate", "passthrough"])
async def test_what_was_forbidden_while_it_waited_for_a_full_pipe_is_not_sent(
    target: Target, era: str, door: str, how: str
) -> None:
    """A server that reads nothing from its stdin for a while, and a message that fills the pipe to it."""
    mark, filling, log, server = fresh(), fresh("filling"), target.log("piped"), "piped"
    tighten, codes = TIGHTENED[how]
    with latch(target.folder) as file:
        async with target.client(door, server, era) as peer, anyio.create_task_group() as tasks:
            assert (await ask(peer, params(door, server, "deafen", fresh(), until=str(file)))).ok
            filler, waiting = Later(), Later()
            tasks.start_soon(filler.run, peer, params(door, server, "look", filling, text="x" * 2_000_000))
            await target.has_calls(server, 1)
            tasks.start_soon(waiting.run, peer, params(door, server, "wipe", mark))
            await target.has_calls(server, 2)
            await target.recorded(mark)
            await anyio.to_thread.run_sync(tighten, target, server)
            release(file)
            assert (await filler.outcome()).ok
            found = await waiting.outcome()
    await target.marker(door, server, era)
    assert not log.calls(mark)
    assert found.code in codes, found


# Later rounds, which wait for a person.


@ERAS
@DOORS
@LISTED
@pytest.mark.parametrize("server", ["modern", "handshake", "handshake-http"])
async def test_what_was_forbidden_while_a_person_thought_about_the_servers_question_is_not_sent(
    target: Target, era: str, door: str, server: str, how: str
) -> None:
    mark, word, log = fresh(), fresh("said"), target.log(server)
    tighten, codes = TIGHTENED[how]
    done: list[None] = []

    def tighten_once() -> None:
        if not done:  # with `confirm` the same person may be asked for a yes, and gives none
            done.append(None)
            tighten(target, server)

    async with target.client(door, server, era, accepts(word, tighten_once)) as peer:
        found = await ask(peer, params(door, server, "wipe_ask", mark))
    await target.marker(door, server, era)
    assert len(log.calls(mark)) == 1
    assert not log.has(word), "nor is the answer"
    assert not found.ok
    if server == "modern":
        assert found.code in codes, found


@DOORS
@LISTED
async def test_a_later_round_that_waits_for_a_place_is_not_sent_either(target: Target, door: str, how: str) -> None:
    mark, log, server = fresh(), target.log("narrow"), "narrow"
    tighten, codes = TIGHTENED[how]
    first = params(door, server, "wipe_ask", mark)
    with latch(target.folder) as file:
        async with target.client(door, server, MODERN) as peer, anyio.create_task_group() as tasks:
            again = retry(first, await turn(peer, first), fresh("said"))
            await occupied(target, tasks, server, file)
            waiting = Later()
            tasks.start_soon(waiting.run, peer, again)
            await target.has_calls(server, 2)
            await anyio.to_thread.run_sync(tighten, target, server)
            release(file)
            found = await waiting.outcome()
    await target.marker(door, server, MODERN)
    assert not log.later_rounds(mark)
    assert found.code in codes, found


@DOORS
@LISTED
async def test_nor_that_of_a_client_of_the_handshake_era(target: Target, door: str, how: str) -> None:
    """Its answer is given while the only place is taken by another call, and forbidden before that ends."""
    mark, word, log, server = fresh(), fresh("said"), target.log("narrow"), "narrow"
    tighten, codes = TIGHTENED[how]
    answered = anyio.Event()
    with latch(target.folder) as file:
        async with anyio.create_task_group() as tasks:

            async def person(method: str, asked: Any) -> Any:
                if answered.is_set():
                    return {"action": "decline"}
                await occupied(target, tasks, server, file)
                answered.set()
                return {"action": "accept", "content": {"answer": word}}

            async with target.client(door, server, HANDSHAKE, person) as peer:
                waiting = Later()
                tasks.start_soon(waiting.run, peer, params(door, server, "wipe_ask", mark))
                with anyio.fail_after(60):
                    await answered.wait()
                await target.has_calls(server, 2)
                await anyio.to_thread.run_sync(tighten, target, server)
                release(file)
                found = await waiting.outcome()
    await target.marker(door, server, HANDSHAKE)
    assert len(log.calls(mark)) == 1
    assert not log.has(word)
    assert found.code in codes, found
