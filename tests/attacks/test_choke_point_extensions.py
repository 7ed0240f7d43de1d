"""A server hears only of those extensions of a client that the surface can serve to the end (SURF-10).

The gate has no `tasks/get`, and it shows no app: a server that hears of them there may answer in a way that leads
nowhere, while the record says that all went well. What direct makes of apps and skills is in `test_apps_and_skills.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.attacks.target import ALL_SURFACES, ERAS, Target, ask, fresh, heard, heard_over_http, params
from tests.support.gateway import gateway
from tests.support.links import HttpLink
from tests.support.peer import CAPABILITIES, META, Message, connected
from tests.support.wire import MODERN, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SURF-10")]
DEAD_ENDS = pytest.mark.parametrize("door", ["gate", "direct"])
"""Surfaces without `tasks/get`. When direct learns to serve it, it moves over to passthrough's tests."""
SERVERS = pytest.mark.parametrize("server", ["modern", "modern-http"])
EXTENSIONS: Message = {
    f"{META}tasks": {},
    f"{META}ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
    "example.com/made-up": {"deep": {"value": [1]}},
}
ABLE = {**CAPABILITIES, "extensions": EXTENSIONS}
TOLD: Message = {"gate": {}, "direct": {f"{META}ui": EXTENSIONS[f"{META}ui"]}}
"""What a server hears of them, by the surface."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("extensions")
    with ExitStack() as stack:
        servers = {
            "modern": heard(folder, "modern", "--modern"),
            "modern-http": stack.enter_context(heard_over_http(folder, "modern-http", "--modern")),
            "own": heard(folder, "own", sessions="per_client"),
        }
        config = {"surfaces": ALL_SURFACES, "mcpServers": servers}
        yield Target(stack.enter_context(gateway(folder / "data", config)), folder, servers)


def declared(sent: Message) -> Message:
    return (sent.get("_meta") or {}).get(f"{META}clientCapabilities") or {}


@ERAS
@DEAD_ENDS
@SERVERS
async def test_where_nothing_could_come_of_it_a_server_never_hears_of_an_extension(
    target: Target, era: str, door: str, server: str
) -> None:
    mark = fresh()
    async with target.client(door, server, era, capabilities=ABLE) as peer:
        assert (await ask(peer, params(door, server, "look", mark))).ok
    (sent,) = target.log(server).calls(mark)
    assert declared(sent).get("extensions", {}) == TOLD[door]
    assert "example.com" not in json.dumps(sent)
    if era == MODERN:
        assert {"elicitation", "sampling", "roots"} <= declared(sent).keys(), "what can be served is still said"


@ERAS
@pytest.mark.parametrize("door", ["gate"])
async def test_nor_does_one_with_which_a_client_has_a_session_of_its_own(target: Target, era: str, door: str) -> None:
    mark, log = fresh(), target.log("own")
    async with target.client(door, "own", era, capabilities=ABLE, name=fresh("client")) as peer:
        assert (await ask(peer, params(door, "own", "look", mark))).ok
    assert log.calls(mark)
    assert not log.has("extensions")
    assert not log.has("example.com")


@SERVERS
async def test_a_passthrough_relays_those_of_the_protocol(target: Target, server: str) -> None:
    mark = fresh()
    async with target.client("passthrough", server, MODERN, capabilities=ABLE) as peer:
        assert (await ask(peer, params("passthrough", server, "look", mark))).ok
    (sent,) = target.log(server).calls(mark)
    assert declared(sent)["extensions"] == {key: EXTENSIONS[key] for key in EXTENSIONS if key.startswith(META)}
    assert not target.log(server).has("made-up"), "what somebody else defined is free text"


@ERAS
@DEAD_ENDS
@SERVERS
async def test_a_task_that_nobody_could_fetch_is_an_error_and_no_success(
    target: Target, era: str, door: str, server: str
) -> None:
    """A server that begins one all the same, although it was told of no client that could follow it."""
    mark = fresh()
    async with target.client(door, server, era, capabilities=ABLE) as peer:
        found = await ask(peer, params(door, server, "begin", mark))
    assert not found.ok, "the agent must not take it for a result"
    assert "task" in found.words.lower(), found
    assert found.result.get("resultType") != "task"
    (row,) = target.ended(mark)
    assert row["status"] == "error", "what the server goes on doing is no success"
    assert "task" in row["error"]["message"].lower()


async def test_nor_over_rest(target: Target) -> None:
    mark = fresh()
    body: dict[str, Any] = {"variant": "read", "name": "modern:begin", "args": {"mark": mark}}
    answer = target.running.post("/call", {**body, "intent": {"operation_type": "read"}})
    (row,) = target.ended(mark)
    assert row["status"] == "error"
    said = answer.json()
    assert answer.status_code != 200 or said["result"].get("isError"), said
    assert "task" in (said["error"]["message"] if "error" in said else text(said["result"])).lower()


@SERVERS
async def test_at_a_passthrough_a_task_is_relayed_and_can_be_fetched(target: Target, server: str) -> None:
    mark = fresh()
    async with target.client("passthrough", server, MODERN, capabilities=ABLE) as peer:
        found = await ask(peer, params("passthrough", server, "begin", mark))
        assert found.ok and found.result["resultType"] == "task"
        assert found.result["task"]["taskId"] == "task-1"
    link = HttpLink(f"{target.running.url}/mcp/s/{server}", **{"mcp-name": "task-1"})
    async with connected(link, MODERN, capabilities=ABLE) as peer:
        assert (await ask(peer, {"taskId": "task-1"}, "tasks/get")).ok
    assert any(each["params"].get("taskId") == "task-1" for each in target.log(server).of("tasks/get"))
    (row,) = target.rows(mark)
    assert row["status"] != "error"
