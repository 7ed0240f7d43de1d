"""A server that asks late, or outside any call: nobody is asked what belongs to a call that was cancelled.

Over a pipe, the oldest transport, or the stream of a GET, a question does not say which call it is of. While a call was
given up and its server has not answered it, the only call under way is not the only one there may be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    ERAS,
    Later,
    Target,
    eventually,
    fresh,
    latch,
    release,
    retry,
    turn,
)
from tests.support.gateway import SERVERS, gateway, python_server
from tests.support.listening import listening
from tests.support.peer import Peer
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-5", "UP-11")]

KINDS = ["auto", "shared", "exclusive", "per_client"]
TRANSPORTS = ["stdio", "http", "sse"]
EVERY = pytest.mark.parametrize("server", [f"{transport}-{kind}" for transport in TRANSPORTS for kind in KINDS])
OF_EACH = pytest.mark.parametrize("transport", TRANSPORTS)
DONE = '{"jsonrpc": "2.0", "id": $id, "result": {"resultType": "complete", "content": []}}'


def question(number: str, method: str = "elicitation/create") -> str:
    asked = {"message": f"Whose is {number}?", "requestedSchema": {"type": "object", "properties": {}}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": asked})


@contextmanager
def scripted_over_http(folder: Path, name: str, *flags: str) -> Iterator[str]:
    """The origin of one that runs as long as the block."""
    command = [sys.executable, str(SERVERS / "scripted.py"), "--log", str(folder / f"{name}.heard"), *flags]
    with listening(command) as origin:
        yield origin


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("late")
    answers = folder / "answers"
    answers.write_text(json.dumps({"before resources/list": question("for-a-list")}))
    servers: dict[str, Any] = {}
    with ExitStack() as stack:
        listing = "--answers", str(answers)
        for kind in KINDS:
            name = f"stdio-{kind}"
            servers[name] = python_server(
                "scripted.py", "--log", str(folder / f"{name}.heard"), sessions=kind, timeout=120
            )
            origin = stack.enter_context(scripted_over_http(folder, f"http-{kind}", "--http", "0", *listing))
            servers[f"http-{kind}"] = {"url": f"{origin}/mcp", "sessions": kind, "timeout": 120}
            origin = stack.enter_context(scripted_over_http(folder, f"sse-{kind}", "--sse", "0"))
            servers[f"sse-{kind}"] = {"url": f"{origin}/sse", "transport": "sse", "sessions": kind, "timeout": 120}
        config = {"surfaces": ALL_SURFACES, "mcpServers": servers}
        yield Target(stack.enter_context(gateway(folder / "data", config)), folder, servers)


@pytest.fixture(autouse=True)
def as_it_was(target: Target) -> Iterator[None]:
    """Each test meets servers that were asked nothing yet."""
    yield
    for name in list(target.changed):
        target.configure(name, sessions="per_client")
        target.configure(name)
        assert target.running.post(f"/servers/{name}/restart").status_code == 200
    target.running.wait_for(*target.changed)
    target.changed.clear()


def play(server: str, mark: str, *steps: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {"mark": mark, "steps": list(steps)}
    inner = {"name": f"{server}:play", "args": arguments, "intent": {"operation_type": "read"}}
    return {"name": "call_tool_read", "arguments": inner}


def said_to(target: Target, server: str, number: str) -> dict[str, Any] | None:
    """What the server was answered to this question."""
    found = [each for each in target.log(server).messages() if each.get("id") == number and "method" not in each]
    return found[0] if found else None


async def refused(target: Target, server: str, number: str) -> str:
    """The sentence with which the server was refused, once it was answered."""
    answer = await eventually(lambda: said_to(target, server, number), f"an answer to {number}")
    assert "result" not in answer, answer
    return answer["error"]["message"]


def session_of(target: Target, server: str, mark: str) -> str:
    return next(each["session"] for each in target.log(server).messages() if each.get("mark") == mark)


async def begun(target: Target, server: str, mark: str) -> str:
    """The session on which this call came, once the server has it and can ask there."""

    def there() -> str | None:
        said = target.log(server).messages()
        found = [each["session"] for each in said if each.get("mark") == mark]
        ready = not server.startswith("http") or (found and any(each.get("listens") == found[0] for each in said))
        return found[0] if found and ready else None

    return await eventually(there, f"{mark} at {server}")


async def given_up(target: Target, server: str, mark: str) -> None:
    await eventually(lambda: target.log(server).given_up(mark), f"{mark} cancelled at {server}")


def kind_in_force(target: Target, server: str) -> dict[str, Any]:
    return next(row for row in target.running.get("/servers")["servers"] if row["name"] == server)


def incidents(target: Target, server: str) -> list[dict[str, Any]]:
    """Questions of this server on record that belonged to nobody."""
    rows = target.running.activities(server=server)
    return [row for row in rows if (row["metadata"] or {}).get("refused_by") == "unattributed"]


async def cancelled_call(target: Target, server: str, peer: Peer, mark: str, *steps: Mapping[str, Any]) -> str:
    """A call that its client cancels once the server works on it; the session it was on."""
    pending = await peer.begin("tools/call", play(server, mark, *steps))
    session = await begun(target, server, mark)
    await peer.cancel(pending)
    await given_up(target, server, mark)
    return session


@ERAS
@EVERY
async def test_a_late_question_of_a_cancelled_call_is_put_to_nobody(target: Target, server: str, era: str) -> None:
    target.changed.add(server)
    mark, other, number = fresh("given-up"), fresh("only"), fresh("q")
    before = len(incidents(target, server))
    with latch(target.folder) as go, latch(target.folder) as over:
        async with (
            target.client("gate", server, era, name="bob") as bob,
            target.client("gate", server, era, name="ann") as ann,
            anyio.create_task_group() as tasks,
        ):
            steps = ({"wait": str(go)}, {"aside": question(number)})
            session = await cancelled_call(target, server, bob, mark, *steps)
            later = Later()
            tasks.start_soon(later.run, ann, play(server, other, {"wait": str(over)}, {"own": DONE}))
            another = await begun(target, server, other)
            release(go)
            why = await refused(target, server, number)
            release(over)
            assert (await later.outcome()).ok
            assert (ann.asked, bob.asked) == ([], [])
    assert "cancelled" in why
    assert len(incidents(target, server)) == before + 1
    assert (session == another) == (server.endswith(("-auto", "-shared")))
    if server.endswith("-auto"):  # it asked while a call was under way: from now on each has a session of its own
        assert kind_in_force(target, server)["sessions"] == "exclusive"


@OF_EACH
async def test_so_is_one_of_a_call_that_ran_out_of_time(target: Target, transport: str) -> None:
    server = f"{transport}-exclusive"
    target.configure(server, timeout=1)
    mark, other, number = fresh("timed-out"), fresh("only"), fresh("q")
    with latch(target.folder) as go, latch(target.folder) as over:
        async with target.client("gate", server, MODERN) as peer, anyio.create_task_group() as tasks:
            asked = play(server, mark, {"wait": str(go)}, {"aside": question(number)})
            assert (await turn(peer, asked)).code == "TIMEOUT"
            session = await begun(target, server, mark)
            target.configure(server)
            later = Later()
            tasks.start_soon(later.run, peer, play(server, other, {"wait": str(over)}, {"own": DONE}))
            assert await begun(target, server, other) != session
            release(go)
            assert "cancelled" in await refused(target, server, number)
            release(over)
            assert (await later.outcome()).ok
            assert peer.asked == []


async def test_so_is_one_of_a_call_that_was_cancelled_in_a_later_round(target: Target) -> None:
    server = "stdio-shared"
    target.changed.add(server)
    mark, other = fresh("second-round"), fresh("only")
    first, number = fresh("q"), fresh("q")
    with latch(target.folder) as go, latch(target.folder) as over:
        async with target.client("gate", server, MODERN) as bob, anyio.create_task_group() as tasks:
            asked = play(server, mark, {"aside": question(first)}, {"wait": str(go)}, {"aside": question(number)})
            round_ = await turn(bob, asked)
            pending = await bob.begin("tools/call", retry(asked, round_, "yes"))
            await eventually(lambda: said_to(target, server, first), f"an answer to {first}")
            await bob.cancel(pending)
            await given_up(target, server, mark)
            async with target.client("gate", server, HANDSHAKE) as ann:
                later = Later()
                tasks.start_soon(later.run, ann, play(server, other, {"wait": str(over)}, {"own": DONE}))
                await begun(target, server, other)
                release(go)
                assert "cancelled" in await refused(target, server, number)
                release(over)
                assert (await later.outcome()).ok
                assert ann.asked == []


async def test_a_clients_other_call_is_not_asked_either(target: Target) -> None:
    """What was to be answered for a call that was cancelled would be done under the name of another."""
    server = "stdio-per_client"
    target.changed.add(server)
    mark, other, number = fresh("given-up"), fresh("only"), fresh("q")
    with latch(target.folder) as go, latch(target.folder) as over:
        async with target.client("gate", server, HANDSHAKE) as peer, anyio.create_task_group() as tasks:
            steps = ({"wait": str(go)}, {"aside": question(number)})
            session = await cancelled_call(target, server, peer, mark, *steps)
            later = Later()
            tasks.start_soon(later.run, peer, play(server, other, {"wait": str(over)}, {"own": DONE}))
            assert await begun(target, server, other) == session  # what the server keeps for it is kept
            release(go)
            assert "cancelled" in await refused(target, server, number)
            release(over)
            assert (await later.outcome()).ok
            assert peer.asked == []


@ERAS
async def test_on_a_calls_own_stream_it_is_still_asked(target: Target, era: str) -> None:
    """Where it can be told, nothing is refused for what others cancelled."""
    server = "http-shared"
    target.changed.add(server)
    mark, other, number = fresh("given-up"), fresh("own"), fresh("q")
    with latch(target.folder) as go, latch(target.folder) as over:
        async with (
            target.client("gate", server, era, name="bob") as bob,
            target.client("gate", server, era, name="ann") as ann,
            anyio.create_task_group() as tasks,
        ):
            await cancelled_call(target, server, bob, mark, {"wait": str(go)})
            later, asked = Later(), {"own": question(number)}
            tasks.start_soon(later.run, ann, play(server, other, asked, {"wait": str(over)}, {"own": DONE}))
            await eventually(lambda: said_to(target, server, number), f"an answer to {number}")
            release(over)
            assert (await later.outcome()).ok
            assert [method for method, _ in ann.asked] == ["elicitation/create"]
            assert bob.asked == []
            assert "result" in (said_to(target, server, number) or {})


@pytest.mark.parametrize("transport", ["stdio", "sse"])  # over HTTP nobody would hear the answer
async def test_a_session_is_used_again_once_its_server_answered(target: Target, transport: str) -> None:
    server = f"{transport}-exclusive"
    target.changed.add(server)
    mark = fresh("given-up")
    with latch(target.folder) as go:
        async with target.client("gate", server, MODERN) as peer:
            session = await cancelled_call(target, server, peer, mark, {"wait": str(go)}, {"own": DONE})
            meanwhile = fresh()
            await peer.request("tools/call", play(server, meanwhile, {"own": DONE}))
            assert session_of(target, server, meanwhile) != session
            release(go)
            for _ in range(500):
                again = fresh()
                await peer.request("tools/call", play(server, again, {"own": DONE}))
                if session_of(target, server, again) == session:
                    return
    pytest.fail("the session was not used again")


@OF_EACH
async def test_what_is_asked_outside_any_call_changes_nothing_and_is_no_incident(
    target: Target, transport: str
) -> None:
    server = f"{transport}-auto"
    target.changed.add(server)
    mark, number, before = fresh("ended"), fresh("q"), len(incidents(target, server))
    with latch(target.folder) as go:
        async with target.client("gate", server, HANDSHAKE) as peer:
            pending = await peer.begin(
                "tools/call", play(server, mark, {"own": DONE}, {"wait": str(go)}, {"aside": question(number)})
            )
            session = await begun(target, server, mark)
            await pending.result()
            release(go)
            assert "no call is under way" in await refused(target, server, number)
            assert peer.asked == []
            shared = [fresh(), fresh()]
            with latch(target.folder) as over:
                async with anyio.create_task_group() as tasks:
                    both = [Later(), Later()]
                    for each, name in zip(both, shared, strict=True):
                        tasks.start_soon(each.run, peer, play(server, name, {"wait": str(over)}, {"own": DONE}))
                    assert {await begun(target, server, name) for name in shared} == {session}
                    release(over)
                    assert all([(await each.outcome()).ok for each in both])
    assert kind_in_force(target, server)["sessions"] == "auto"
    assert len(incidents(target, server)) == before


async def test_what_is_asked_on_a_stream_of_the_gateways_own_is_put_to_nobody(target: Target) -> None:
    """That is not outside every stream: it says itself that it is for no call."""
    server, other = "http-auto", fresh("only")
    target.changed.add(server)
    with latch(target.folder) as over:
        async with target.client("direct", server, HANDSHAKE) as peer, anyio.create_task_group() as tasks:
            later, arguments = Later(), {"mark": other, "steps": [{"wait": str(over)}, {"own": DONE}]}
            tasks.start_soon(later.run, peer, {"name": f"{server}__play", "arguments": arguments})
            await begun(target, server, other)
            await peer.request("resources/list")
            assert "no call is under way" in await refused(target, server, "for-a-list")
            release(over)
            assert (await later.outcome()).ok
            assert peer.asked == []
    assert kind_in_force(target, server)["sessions"] == "auto"


async def test_a_server_that_never_answers_what_was_cancelled_does_not_pile_up_sessions(target: Target) -> None:
    server = "http-exclusive"
    target.changed.add(server)
    seen: set[str] = set()
    async with target.client("gate", server, HANDSHAKE) as peer:
        for _ in range(30):
            mark = fresh("given-up")
            seen.add(await cancelled_call(target, server, peer, mark))
            assert kind_in_force(target, server)["extra_sessions"] <= 18
        last = fresh()
        await peer.request("tools/call", play(server, last, {"own": DONE}))
    assert len(seen) == 30  # each on one of its own
    assert session_of(target, server, last) not in seen


@pytest.mark.parametrize("server", ["stdio-exclusive", "sse-exclusive"])
async def test_what_a_cancelled_call_still_says_is_told_to_nobody(target: Target, server: str) -> None:
    target.changed.add(server)
    mark, word = fresh("given-up"), fresh("secret")
    told = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": word}})
    with latch(target.folder) as go:
        async with target.client("passthrough", server, HANDSHAKE) as peer:
            await peer.want_logs("debug")
            steps = [{"wait": str(go)}, {"aside": told}, {"aside": question(mark)}]
            pending = await peer.begin("tools/call", {"name": "play", "arguments": {"mark": mark, "steps": steps}})
            await begun(target, server, mark)
            await peer.cancel(pending)
            await given_up(target, server, mark)
            release(go)
            await refused(target, server, mark)  # it came after what was told
            await peer.request("ping")
            assert word not in json.dumps(peer.heard)
