"""Every method of the protocol on every surface, by somebody who has no business with what it names.

What should come of each is read from `docs/reference/methods.md`, which is printed from the table that surfaces use.
The server does whatever it is asked, and says that it has tasks, so only the gateway can refuse (GATE-14, SURF-10).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.agents import HANDSHAKE, MODERN, Came, RawAgent, agent
from tests.attacks.target import ALL_SURFACES, DOORS, ERAS, Target, fresh, latch, params, path_of, release
from tests.support.gateway import gateway, python_server

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-14", "SURF-10")]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "methods.md"
SERVERS = pytest.mark.parametrize("server", ["stateless", "session"])
AGENTS = ("amber", "birch", "nobody")
"""`nobody` comes without a token, as any process of this machine may."""
TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
ABLE = {CAPABILITIES: {"extensions": {TASKS: {}}, "elicitation": {}}}
REACHES = {"request", "shared"}
"""Checks that let a server hear of something that nobody has begun and nothing has named."""


def table(era: str) -> list[dict[str, str]]:
    """The rows of the page for this kind of revision."""
    title = "The stateless revision" if era == MODERN else "Session-based revisions"
    lines = PAGE.read_text("utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0].splitlines()
    head, _, *rows = [re.sub("`", "", line).strip("| ").split(" | ") for line in lines if line.startswith("|")]
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("methods")
    servers = {
        name: python_server("tasks.py", "--log", str(folder / f"{name}.heard"), *flags)
        for name, flags in {"stateless": ["--modern"], "session": []}.items()
    }
    with gateway(folder / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers}) as running:
        yield Target(running, folder, servers)


@pytest.fixture(scope="module")
def tokens(target: Target) -> dict[str, str | None]:
    terms = {"servers": [*target.servers], "operations": ["read", "write", "destructive"]}
    made = {name: target.running.post("/tokens", {"name": name, **terms}) for name in AGENTS[:2]}
    assert all(each.status_code == 201 for each in made.values()), [each.text for each in made.values()]
    return {"nobody": None, **{name: each.json()["token"] for name, each in made.items()}}


@asynccontextmanager
async def both(target: Target, tokens: dict[str, str | None], era: str, *names: str) -> AsyncIterator[list[RawAgent]]:
    url = target.running.url
    async with agent(url, tokens[names[0]], era) as first, agent(url, tokens[names[1]], era) as second:
        yield [first, second]


def answer(came: Came) -> dict[str, Any]:
    return json.loads(came.texts[-1])


def about(mark: str) -> dict[str, Any]:
    """Parameters that every method finds what it needs in."""
    return {
        "name": mark, "uri": f"note://{mark}", "taskId": mark, "level": "info", "mark": mark, "inputResponses": {},
        "ref": {"type": "ref/prompt", "name": mark}, "argument": {"name": mark, "value": ""}, "requestId": mark,
    }  # fmt: skip


async def asked(client: RawAgent, path: str, method: str, mark: str) -> Came:
    if not method.startswith("notifications/"):
        return await client.ask(path, method, about(mark), **(ABLE if client.era == MODERN else {}))
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": about(mark)}).encode()
    if client.era == MODERN:
        return await client.http("POST", path, body, mcp_protocol_version=MODERN, mcp_method=method)
    await client.ask(path, "ping")
    return await client.http("POST", path, body, mcp_session_id=client.sessions[path], mcp_protocol_version=HANDSHAKE)


@DOORS
@ERAS
@SERVERS
async def test_a_server_hears_of_a_method_only_where_the_table_lets_it(
    target: Target, tokens: dict[str, str | None], door: str, era: str, server: str
) -> None:
    path, rows = path_of(door, server), table(era)
    refused = {each["method"] for each in table(HANDSHAKE) + table(MODERN)} - {each["method"] for each in rows}
    checks = {**dict.fromkeys(refused, "refused"), **{each["method"]: each[door] for each in rows}}
    own = {"initialize", "subscriptions/listen", "tools/call"}  # a session, a stream, and what other tests are about
    marks = {method: fresh("method") for method in checks if method not in own or checks[method] == "refused"}
    marks.pop("initialize", None)  # which begins a session-based conversation whatever the client said before
    async with agent(target.running.url, tokens["birch"], era) as birch:
        came = {method: await asked(birch, path, method, mark) for method, mark in marks.items()}
        await birch.ask(path, "tools/call", params(door, server, "look", end := fresh("end")))
        await target.log(server).wait_for(end)
    for method, mark in marks.items():
        check = checks[method]
        reached = target.log(server).has(mark)
        if method != "logging/setLevel":  # which has no room for a mark
            assert not reached or check in REACHES, (method, check)
        if method.startswith("notifications/"):
            assert came[method].status == 202, (method, came[method])
        elif check == "refused":
            assert answer(came[method])["error"]["code"] == -32601, (method, came[method])
        elif check in ("named", "task"):
            assert "error" in answer(came[method]), (method, came[method])
    assert door != "passthrough" or any(target.log(server).has(mark) for mark in marks.values()), "so it would be seen"


async def begun(client: RawAgent, path: str, door: str, server: str, own: str) -> dict[str, Any]:
    asked = params(door, server, "look_task", own, how="done", id=own)
    return answer(await client.ask(path, "tools/call", asked, **(ABLE if client.era == MODERN else {})))["result"]


@DOORS
@ERAS
@SERVERS
@pytest.mark.parametrize(("owner", "other"), [("amber", "birch"), ("amber", "nobody"), ("nobody", "amber")])
async def test_another_agents_task_is_neither_read_nor_listed_nor_ended(
    target: Target, tokens: dict[str, str | None], door: str, era: str, server: str, owner: str, other: str
) -> None:
    own = f"task-{fresh()}"
    async with both(target, tokens, era, owner, other) as (first, second):
        path = path_of(door, server)
        result = await begun(first, path, door, server, own)
        handles = {own, result.get("taskId", own)}
        came = [
            await second.ask(at, f"tasks/{what}", {"taskId": handle, "inputResponses": {}},
                             **(ABLE if era == MODERN else {}), )
            for what in ("get", "result", "list", "cancel", "update")
            for handle in handles
            for at in {path, *map(path_of, ALL_SURFACES, [server] * 3)}
        ]  # fmt: skip
        assert all("error" in answer(each) for each in came), came
        assert not any(f"came of {own}" in each.body for each in came)
        await second.ask(path, "tools/call", params(door, server, "look", end := fresh("end")))
        await target.log(server).wait_for(end)
    heard = [each for each in target.log(server).messages() if str(each.get("method")).startswith("tasks/")]
    # Where its own client does not follow it, the gateway does, with `tasks/get`; more it has no reason to say.
    after = [each["method"] for each in heard if each["params"].get("taskId") == own]
    assert {*after} <= ({"tasks/get"} if result.get("resultType") != "task" else set())
    assert not [each for each in heard if each["method"] in ("tasks/list", "tasks/result")]


# What belongs to a session of another agent.


@asynccontextmanager
async def with_open_call(target: Target, amber: RawAgent, path: str, door: str) -> AsyncIterator[tuple[Any, str]]:
    """A call of amber's that its server holds, and the mark of it."""
    await amber.ask(path, "ping")
    with latch(target.folder) as file:
        mark = fresh()
        asked = params(door, "session", "look", mark, until=str(file))
        going = asyncio.create_task(amber.ask(path, "tools/call", asked, progressToken="same"))
        await target.log("session").wait_for(mark)
        yield going, mark
        release(file)
        assert "did" in (await going).body, "it went on"


@DOORS
async def test_the_session_of_another_agent_is_not_ended_resumed_or_cancelled_in(
    target: Target, tokens: dict[str, str | None], door: str
) -> None:
    path = path_of(door, "session")
    for name in ("birch", "nobody"):
        async with both(target, tokens, HANDSHAKE, "amber", name) as (amber, other):
            await other.ask(path, "ping")
            async with with_open_call(target, amber, path, door) as (_, mark):
                theirs: dict[str, str] = {"mcp_session_id": amber.sessions[path], "mcp_protocol_version": HANDSHAKE}
                own: dict[str, str] = {**theirs, "mcp_session_id": other.sessions[path]}
                cancel = {"requestId": amber.asked, "reason": "x"}
                said = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}
                assert (await other.http("DELETE", path, b"", **theirs)).status == 404
                assert (await other.http("POST", path, json.dumps(said).encode(), **theirs)).status == 404
                assert (await other.http("POST", path, json.dumps(said).encode(), **own)).status == 202
                for event in ("s-1", "r1-0", "r1-1", "s-0"):
                    resumed = await other.http("GET", path, b"", **theirs, last_event_id=event)
                    assert resumed.status == 404, "nor are its events"
                foreign = await other.http("GET", path, b"", **own, last_event_id="r1-0")
                assert foreign.status == 404 and mark not in foreign.body, "nor in the own session"
                assert not target.log("session").given_up(mark)


@DOORS
async def test_a_question_to_one_agent_is_not_answered_by_another(
    target: Target, tokens: dict[str, str | None], door: str
) -> None:
    """Who guesses the id of an open question says something in a session of its own, where nobody waits for it."""
    path, mark = path_of(door, "session"), fresh()
    async with both(target, tokens, HANDSHAKE, "amber", "birch") as (amber, birch):
        await birch.ask(path, "ping")
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {"elicitation": {}}, "clientInfo": {"name": "raw"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        came = await amber.http("POST", path, json.dumps(body).encode())
        own = {"mcp_session_id": came.headers["mcp-session-id"], "mcp_protocol_version": HANDSHAKE}
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params(door, "session", "look_ask", mark)}
        amber.send("POST", path, json.dumps(call).encode(), **own)
        _, seen = await amber.head()
        question, rest = None, ""
        async for part in amber._parts(seen):  # pyright: ignore[reportPrivateUsage]
            rest += part.decode()
            asked = [
                json.loads(line[5:]) for line in rest.splitlines() if line.startswith("data:") and line[5:].strip()
            ]
            if question is None and (found := [each for each in asked if "method" in each and "id" in each]):
                question = found[0]["id"]
                yes = {"jsonrpc": "2.0", "id": question, "result": {"action": "accept", "content": {"answer": "birch"}}}
                theirs = {"mcp_session_id": birch.sessions[path], "mcp_protocol_version": HANDSHAKE}
                assert (await birch.http("POST", path, json.dumps(yes).encode(), **theirs)).status == 202
                assert (await birch.http("POST", path, json.dumps(yes).encode(), **own)).status == 404
                async with agent(target.running.url, tokens["amber"], HANDSHAKE) as again:
                    no = {"jsonrpc": "2.0", "id": question, "result": {"action": "decline"}}
                    assert (await again.http("POST", path, json.dumps(no).encode(), **own)).status == 202
        assert question is not None and "nobody said yes" in rest, rest


@SERVERS
async def test_what_one_agent_watches_goes_on_when_another_leaves_it(
    target: Target, tokens: dict[str, str | None], server: str
) -> None:
    path, uri = path_of("passthrough", server), f"note://{fresh()}"
    async with both(target, tokens, HANDSHAKE, "amber", "birch") as (amber, birch):
        assert "result" in answer(await amber.ask(path, "resources/subscribe", {"uri": uri}))
        assert "result" in answer(await birch.ask(path, "resources/unsubscribe", {"uri": uri})), "it never looked"
        assert "result" in answer(await birch.ask(path, "resources/subscribe", {"uri": uri}))
        assert "result" in answer(await birch.ask(path, "resources/unsubscribe", {"uri": uri}))
        await birch.ask(path, "tools/call", params("passthrough", server, "look", end := fresh("end")))
        await target.log(server).wait_for(end)
    assert not [each for each in target.log(server).of("resources/unsubscribe") if each["params"]["uri"] == uri]


async def test_a_passthrough_does_not_announce_tasks_that_cannot_begin(
    target: Target, tokens: dict[str, str | None], tmp_path: Path
) -> None:
    """A server of 2025-11-25 that has the experimental tasks; the call below begins none."""
    path = path_of("passthrough", "session")
    async with agent(target.running.url, tokens["amber"], HANDSHAKE) as amber:
        await amber.ask(path, "ping")
        assert "tasks" not in answer(amber.welcomes[path])["result"]["capabilities"]
        asked = {**params("passthrough", "session", "look", mark := fresh()), "task": {"ttl": 60_000}}
        assert "result" in answer(await amber.ask(path, "tools/call", asked))
    assert all("task" not in each for each in target.log("session").calls(mark))
