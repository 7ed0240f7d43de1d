"""One principal wants everything: each keeps its share, and the others go on.

Over HTTP all agents of this gateway are one principal, `agent`, by their token; whoever attaches to the private socket
is `local`, and the REST interface is for `admin`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
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
    heard,
    latch,
    outcome,
    over_rest,
    params,
    path_of,
    release,
)
from tests.support.gateway import Running, gateway
from tests.support.links import HttpLink, StdioLink
from tests.support.peer import Answer, Peer, connected
from tests.support.wire import ACCEPT, HANDSHAKE, MODERN, Wire

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-7")]

TOKEN = "agent-token-0123456789-abcdef"
IN_FLIGHT, QUESTIONS, SESSIONS, STREAMS = 3, 4, 6, 2
MB = 1 << 20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def config(folder: Path, **per_principal: Any) -> dict[str, Any]:
    servers = {
        "plain": heard(folder, "plain", "--modern"),
        "asking": heard(folder, "asking"),
        "confirming": heard(folder, "confirming", "--modern", confirm="write"),
    }
    return {"surfaces": ALL_SURFACES, "mcpServers": servers, "limits": {"per_principal": per_principal}}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("shares")
    shares = {"in_flight": IN_FLIGHT, "questions": QUESTIONS, "sessions": SESSIONS, "streams": STREAMS}
    with gateway(folder / "data", config(folder, **shares), env={"MCPPROXY_MCP_TOKEN": TOKEN}) as running:
        yield Target(running, folder)


async def waits_for_ever(method: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    await anyio.sleep_forever()
    raise AssertionError


@asynccontextmanager
async def agent(
    target: Target, era: str, answer: Answer = waits_for_ever, door: str = "gate", server: str = "plain"
) -> AsyncIterator[Peer]:
    link = HttpLink(f"{target.running.url}{path_of(door, server)}", token=TOKEN)
    async with connected(link, era, answer) as peer:
        yield peer


@asynccontextmanager
async def local(target: Target, answer: Answer = waits_for_ever) -> AsyncIterator[Peer]:
    command = [sys.executable, "-m", "mcpproxy_py", "stdio", "--data-dir", str(target.running.data_dir)]
    async with connected(StdioLink(command), HANDSHAKE, answer) as peer:
        yield peer


def told(target: Target, share: str, principal: str = "agent") -> list[dict[str, Any]]:
    """What is on record of a share that was used up."""
    found = target.running.activities()
    return [
        row for row in found if row["tool"] == share and row["principal"] == principal and row["source"] == "internal"
    ]


def refused_for(target: Target, share: str) -> int:
    lines = target.running.client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith(f'mcpproxy_share_refusals_total{{share="{share}"}}')]
    return int(float(found[0].split(" ")[-1])) if found else 0


# Calls in flight.


@ERAS
async def test_who_has_its_share_of_calls_in_flight_is_refused_and_others_are_served(target: Target, era: str) -> None:
    marks = [fresh() for _ in range(IN_FLIGHT)]
    before, beyond = refused_for(target, "in_flight"), [fresh() for _ in range(20)]
    async with agent(target, era) as peer, anyio.create_task_group() as tasks:
        with latch(target.folder) as file:
            waiting = [Later() for _ in marks]
            for mark, later in zip(marks, waiting, strict=True):
                tasks.start_soon(later.run, peer, params("gate", "plain", "look", mark, until=str(file)))
                await target.log("plain").wait_for(mark)
            for number, mark in enumerate(beyond):
                tool = ("look", "put", "wipe")[number % 3]
                said = await ask(peer, params("gate", "plain", tool, mark))
                assert said.code == "OVERLOADED" and "its share" in said.words, said
            mark = fresh()
            served = await anyio.to_thread.run_sync(over_rest, target.running, "plain", "put", mark)
            assert served.status_code == 200
            async with local(target) as other:
                assert (await ask(other, params("gate", "plain", "look", fresh()))).ok
            release(file)
            assert all([(await later.outcome()).ok for later in waiting])
        assert (await ask(peer, params("gate", "plain", "look", fresh()))).ok
    assert not any(target.log("plain").has(mark) for mark in beyond)
    assert refused_for(target, "in_flight") == before + len(beyond)
    rows = await anyio.to_thread.run_sync(told, target, "in_flight")
    assert len(rows) == 1 and rows[0]["status"] == "blocked" and "OVERLOADED" in json.dumps(rows[0])
    assert not any(target.rows(mark) for mark in beyond), "each of them on record would be a way to fill the disk"


async def test_the_door_of_a_call_makes_no_difference_to_its_share(target: Target) -> None:
    waiting: list[Later] = []
    async with AsyncExitStack() as stack:
        for door, era in (("gate", MODERN), ("direct", HANDSHAKE), ("passthrough", MODERN)):
            peer = await stack.enter_async_context(agent(target, era, door=door))
            file = stack.enter_context(latch(target.folder))
            mark, later = fresh(), Later()
            waiting.append(later)
            peer.tasks.start_soon(later.run, peer, params(door, "plain", "look", mark, until=str(file)))
            await target.log("plain").wait_for(mark)
            stack.push_async_callback(later.outcome)
            stack.callback(release, file)
        for door, era in (("gate", HANDSHAKE), ("direct", MODERN), ("passthrough", HANDSHAKE)):
            async with agent(target, era, door=door) as peer:
                assert (await ask(peer, params(door, "plain", "look", fresh()))).code == "OVERLOADED"
    assert all([(await later.outcome()).ok for later in waiting])


# Questions.


@pytest.fixture
def fresh_target(tmp_path: Path) -> Iterator[Target]:
    """On which no question is open from another test: clients of the modern era leave without a word."""
    shares = {"questions": QUESTIONS}
    with gateway(tmp_path / "data", config(tmp_path, **shares), env={"MCPPROXY_MCP_TOKEN": TOKEN}) as running:
        yield Target(running, tmp_path)


async def begin_unanswered(peer: Peer, server: str, tool: str, many: int) -> list[str]:
    """That many questions on this client's screen."""
    marks = [fresh() for _ in range(many)]
    for number, mark in enumerate(marks, 1):
        pending = await peer.begin("tools/call", params("gate", server, tool, mark))
        if peer.modern:
            round_ = await outcome(pending.result())
            assert round_.result.get("resultType") == "input_required", round_
        else:
            await peer.hear_question(number)
    return marks


async def a_person_is_asked_and_it_acts(target: Target, server: str, tool: str) -> None:
    mark = fresh()
    async with local(target, accepts("yes", allow=True)) as other:
        assert (await ask(other, params("gate", server, tool, mark))).ok
        assert other.asked
    assert len(target.log(server).calls(mark)) == 1


@ERAS
async def test_who_answers_no_question_ends_confirmation_for_nobody_else(fresh_target: Target, era: str) -> None:
    target = fresh_target
    async with agent(target, era) as peer:
        marks = await begin_unanswered(peer, "confirming", "put", QUESTIONS)
        for _ in range(30):
            mark = fresh()
            said = await ask(peer, params("gate", "confirming", "wipe", mark))
            assert said.code == "OVERLOADED" and "its share" in said.words, said
            assert not target.log("confirming").has(mark)
        assert len(peer.asked) == (0 if peer.modern else QUESTIONS)
        assert refused_for(target, "questions") == 30
        await a_person_is_asked_and_it_acts(target, "confirming", "put")
        assert (await ask(peer, params("gate", "plain", "look", fresh()))).ok, "what asks nobody goes on"
    rows = await anyio.to_thread.run_sync(told, target, "questions")
    assert len(rows) == 1
    on_record = target.running.activities(server="confirming")
    assert len(on_record) == QUESTIONS + 1, "those that were asked, and the one that was answered"
    assert not any(target.log("confirming").calls(mark) for mark in marks)


@ERAS
async def test_a_servers_own_questions_count_too(fresh_target: Target, era: str) -> None:
    target = fresh_target
    async with agent(target, era) as peer:
        await begin_unanswered(peer, "asking", "look_ask", QUESTIONS)
        said = await ask(peer, params("gate", "confirming", "put", fresh()))
        assert said.code == "OVERLOADED", said
        await a_person_is_asked_and_it_acts(target, "asking", "look_ask")
        await a_person_is_asked_and_it_acts(target, "confirming", "put")


async def test_of_rounds_that_nobody_continues_only_ones_own_oldest_are_given_up(fresh_target: Target) -> None:
    """A modern server keeps its own state, so that nothing waits here but the end of a record."""
    target = fresh_target
    async with agent(target, MODERN) as peer:
        marks = await begin_unanswered(peer, "plain", "look_ask", QUESTIONS + 3)

    def given_up() -> bool:
        return [target.rows(mark)[0]["status"] for mark in marks] == ["timeout"] * 3 + ["pending"] * QUESTIONS

    await eventually(given_up, "the end of the oldest")


# Sessions and streams.


def initialize(running: Running) -> httpx.Response:
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "many", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    headers = {**ACCEPT, "authorization": f"Bearer {TOKEN}"}
    return httpx.post(running.mcp, json=body, headers=headers, timeout=60, trust_env=False, verify=False)


def test_new_sessions_take_the_place_of_ones_own_that_are_idle(target: Target) -> None:
    ids = [initialize(target.running).headers["mcp-session-id"] for _ in range(SESSIONS * 3)]
    wire = Wire(target.running.mcp, MODERN, token=TOKEN)
    alive: list[str] = []
    for each in ids:
        headers = {"mcp-session-id": each, "mcp-protocol-version": HANDSHAKE}
        answer = wire.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, **headers)
        assert answer.status_code in (200, 404)
        alive += [each] * (answer.status_code == 200)
    assert alive == ids[-SESSIONS:]


async def test_streams_have_a_share(target: Target) -> None:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, verify=False, timeout=60))
        streams = []
        for _ in range(STREAMS + 2):
            session = (await anyio.to_thread.run_sync(initialize, target.running)).headers["mcp-session-id"]
            headers = {"accept": "text/event-stream", "authorization": f"Bearer {TOKEN}", "mcp-session-id": session}
            streams.append(await stack.enter_async_context(http.stream("GET", target.running.mcp, headers=headers)))
        assert [each.status_code for each in streams] == [200] * STREAMS + [429, 429]
        assert "retry-after" in streams[-1].headers
        assert "its share" in json.loads(await streams[-1].aread())["error"]["message"]
        async with agent(target, MODERN) as peer:
            listening = await peer.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            said = await outcome(listening.result())
            assert not said.ok and "its share" in said.words
    assert refused_for(target, "streams") >= 3

    async with agent(target, MODERN) as peer:
        await peer.watch()  # those are gone


# The record.


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A quarter of a megabyte a minute."""
    folder = tmp_path_factory.mktemp("recording")
    with gateway(folder / "data", config(folder, record_mb=0.25), env={"MCPPROXY_MCP_TOKEN": TOKEN}) as running:
        yield Target(running, folder)


def on_disk(target: Target) -> int:
    """Of everything in the data directory."""
    return sum(each.stat().st_blocks * 512 for each in target.folder.rglob("*") if each.is_file())


FLOODS: dict[str, Any] = {
    "no such tool": lambda text: {"name": "nowhere:nothing", "args": {"x": text}, "intent": {"operation_type": "read"}},
    "no intent": lambda text: {"name": "plain:look", "args": {"x": text}},
    "a wrong intent": lambda text: {"name": "plain:wipe", "args": {"x": text}, "intent": {"operation_type": "read"}},
    "no arguments": lambda text: {"name": text, "args": [text]},
    "an intent that is none": lambda text: {"name": "plain:look", "intent": {"operation_type": text, "reason": text}},
}


@ERAS
@pytest.mark.parametrize("name", FLOODS)
async def test_refused_calls_do_not_fill_the_disk(recording: Target, name: str, era: str) -> None:
    text, before = "x" * 200_000, on_disk(recording)
    codes: set[str] = set()
    async with agent(recording, era) as peer:
        for _ in range(60):
            said = await ask(peer, {"name": "call_tool_read", "arguments": FLOODS[name](text)})
            assert not said.ok
            codes.add(said.code)
    assert len(codes) == 1 and codes != {"OVERLOADED"}, "it is told the same each time"
    assert on_disk(recording) - before < 8 * MB  # files grow a megabyte at a time
    assert refused_for(recording, "record_mb") > 0
    rows = await anyio.to_thread.run_sync(told, recording, "record_mb")
    assert rows and all(row["status"] == "blocked" for row in rows)
    mark = fresh()
    assert (await anyio.to_thread.run_sync(over_rest, recording.running, "plain", "put", mark)).status_code == 200
    assert len(recording.ended(mark)) == 1, "another principal has a share of its own"


@ERAS
async def test_nothing_above_read_runs_unrecorded_when_the_share_of_the_record_is_used_up(
    recording: Target, era: str
) -> None:
    """Allowed calls until they are refused for it: each that its server heard of is on record, first with its
    arguments, then without; and none of those that were refused was heard of."""
    filler, marks, said = "y" * 20_000, list[str](), list[Outcome]()
    async with agent(recording, era) as peer:
        while not (said and said[-1].code == "OVERLOADED"):
            assert len(said) < 3000, "the share is never used up"
            marks.append(fresh())
            said.append(await ask(peer, params("gate", "plain", "put", marks[-1], filler=filler)))
            assert said[-1].ok or said[-1].code == "OVERLOADED", said[-1]
        searching = await ask(peer, {"name": "retrieve_tools", "arguments": {"query": "look"}})
        assert searching.code == "OVERLOADED" or searching.ok  # a new minute may have begun
    heard_of = [mark for mark in marks if recording.log("plain").calls(mark)]
    assert heard_of == [mark for mark, each in zip(marks, said, strict=True) if each.ok]
    rows = await anyio.to_thread.run_sync(lambda: recording.running.activities(tool="put"))
    agents = [row for row in rows if row["principal"] == "agent"]
    whole = [row for row in agents if filler[:100] in json.dumps(row["arguments"])]
    short = [row for row in agents if "share of the record" in json.dumps(row["arguments"])]
    assert whole and short
    assert all(row["arguments_size"] > len(filler) for row in short), "the size is said all the same"
    assert len(agents) >= min(len(heard_of), 500)
