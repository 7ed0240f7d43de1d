"""A server that names what is another's: the first to name a resource keeps it, and none is crowded out (SURF-8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.target import ERAS, Target, ask, fresh
from tests.support.gateway import gateway, python_server
from tests.support.peer import Peer
from tests.support.wire import RpcError

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SURF-8")]

OWN_DOORS = pytest.mark.parametrize("door", ["gate", "direct"])
ALL_KINDS = pytest.mark.parametrize("kind", ["link", "embedded"])
FLOOD = 10_050


def scripted(folder: Path, name: str, listed: tuple[str, ...] = (), *flags: str) -> dict[str, Any]:
    answers = folder / f"{name}.answers"
    rows = [{"uri": uri, "name": f"of {name}"} for uri in listed]
    answers.write_text(json.dumps({"resources/list": json.dumps({"resultType": "complete", "resources": rows})}))
    log = str(folder / f"{name}.heard")
    return python_server("scripted.py", "--log", log, "--name", name, "--answers", str(answers), *flags)


@contextmanager
def attacked(folder: Path, servers: dict[str, Any]) -> Iterator[Target]:
    config = {"surfaces": ["gate", "direct", "passthrough"], "mcpServers": servers}
    with gateway(folder / "data", config) as running:
        yield Target(running, folder, servers)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """`second` comes first in the configuration, which must not matter."""
    folder = tmp_path_factory.mktemp("owners")
    servers = {"second": scripted(folder, "second", (), "--modern"), "first": scripted(folder, "first")}
    with attacked(folder, servers) as target:
        yield target


async def names(peer: Peer, door: str, server: str, *uris: str, kind: str = "link") -> None:
    """Have this server name these resources in the result of a tool."""
    if kind == "link":
        content = [{"type": "resource_link", "uri": uri, "name": "x"} for uri in uris]
    else:
        content = [{"type": "resource", "resource": {"uri": uri, "text": "x"}} for uri in uris]
    said = {"jsonrpc": "2.0", "id": "$id", "result": {"resultType": "complete", "content": content}}
    arguments = {"mark": fresh(), "steps": [{"own": json.dumps(said).replace('"$id"', "$id")}]}
    asked: dict[str, Any] = {"name": f"{server}__play", "arguments": arguments}
    if door == "gate":
        inner = {"name": f"{server}:play", "args": arguments, "intent": {"operation_type": "read"}}
        asked = {"name": "call_tool_read", "arguments": inner}
    found = await ask(peer, asked)
    assert found.ok, found


async def read(peer: Peer, uri: str) -> str:
    """Whose resource it is that is read."""
    return (await peer.request("resources/read", {"uri": uri}))["contents"][0]["text"]


def reads(target: Target, server: str, uri: str) -> int:
    return sum(each["params"]["uri"] == uri for each in target.log(server).of("resources/read"))


@ERAS
@OWN_DOORS
@ALL_KINDS
async def test_a_server_that_names_a_resource_of_anothers_does_not_get_it(
    target: Target, era: str, door: str, kind: str
) -> None:
    uri = f"note://{fresh()}"
    async with target.client(door, "first", era) as peer:
        await names(peer, door, "first", uri)
        for _ in range(3):
            await names(peer, door, "second", uri, kind=kind)
        assert await read(peer, uri) == "of first"
        await names(peer, door, "second", uri, kind=kind)
        assert await read(peer, uri) == "of first"
    assert (reads(target, "first", uri), reads(target, "second", uri)) == (2, 0)


@ERAS
@pytest.mark.parametrize(
    ("named", "spelled"),
    [
        ("HTTP://Notes.example", "http://notes.example/"),
        ("file:///a/./b c", "file:///a/b%20c"),
        ("https://notes.example:443/x", "https://Notes.Example/x"),
    ],
)
async def test_nor_by_another_spelling_that_a_client_may_make_of_it(
    target: Target, era: str, named: str, spelled: str
) -> None:
    """Many clients read a URI as it looks after their library has parsed it."""
    tail = f"?{fresh()}"
    async with target.client("gate", "first", era) as peer:
        await names(peer, "gate", "first", named + tail)
        await names(peer, "gate", "second", spelled + tail)
        assert await read(peer, spelled + tail) == "of first"
        assert await read(peer, named + tail) == "of first"


@OWN_DOORS
async def test_what_one_server_names_takes_no_room_from_another(target: Target, door: str) -> None:
    kept, flood = f"note://{fresh()}", fresh()
    async with target.client(door, "first", "2025-11-25") as peer:
        await names(peer, door, "first", kept)
        await names(peer, door, "second", *(f"note://{flood}/{number}" for number in range(FLOOD)))
        await names(peer, door, "second", *(f"note://{flood}/{'long' * 1500}/{number}" for number in range(600)))
        assert await read(peer, kept) == "of first"


@ERAS
async def test_reading_a_resource_does_not_give_it_away(target: Target, era: str) -> None:
    """The contents that a server gives name a resource too."""
    mine, yours = f"note://{fresh()}", f"note://{fresh()}"
    async with target.client("gate", "first", era) as peer:
        await names(peer, "gate", "first", mine)
        await names(peer, "gate", "second", yours)
        assert await read(peer, yours) == "of second"
        await names(peer, "gate", "second", mine)
        assert await read(peer, mine) == "of first"
        with pytest.raises(RpcError):
            await read(peer, f"note://{fresh()}")


@ERAS
@pytest.mark.parametrize("owner", ["first", "second"])
async def test_where_one_mentioned_it_and_another_lists_it_neither_is_asked(
    tmp_path: Path, era: str, owner: str
) -> None:
    """Either may be the one that lies: who took it from a list of its own, or who named it before that was read."""
    uri, other = "note://contested", {"first": "second", "second": "first"}[owner]
    servers = {name: scripted(tmp_path, name, (uri,) if name == other else ()) for name in ("second", "first")}
    with attacked(tmp_path, servers) as target:
        async with target.client("direct", "first", era) as peer:
            await names(peer, "direct", owner, uri)
            assert await read(peer, uri) == f"of {owner}"
            await peer.request("resources/list")
            with pytest.raises(RpcError) as caught:
                await read(peer, uri)
            for name in ("first", "second"):
                assert f"/mcp/s/{name}" in str(caught.value)
            assert caught.value.data["_meta"]["mcpproxy/refusal"]["rule"] == "resource_owner"
            async with target.client("passthrough", other, era) as there:
                assert await read(there, uri) == f"of {other}"
        assert (reads(target, owner, uri), reads(target, other, uri)) == (1, 1)
        (row,) = [row for row in target.running.activities() if row["status"] == "blocked"]
        assert row["metadata"]["refused_by"] == "resource_owner"


@ERAS
async def test_of_two_that_list_it_the_first_keeps_it_and_it_is_shown_once(tmp_path: Path, era: str) -> None:
    uri = "note://both"
    with attacked(tmp_path, {name: scripted(tmp_path, name, (uri,)) for name in ("first", "second")}) as target:
        async with target.client("direct", "first", era) as peer:
            listed = (await peer.request("resources/list"))["resources"]
            assert [row["name"] for row in listed if row["uri"] == uri] == ["of first"]
            await names(peer, "direct", "second", uri)
            assert await read(peer, uri) == "of first"


async def test_what_a_server_named_that_was_removed_is_anybodys_again(tmp_path: Path) -> None:
    uri = "note://left"
    with attacked(tmp_path, {name: scripted(tmp_path, name) for name in ("first", "second")}) as target:
        async with target.client("gate", "first", "2025-11-25") as peer:
            await names(peer, "gate", "first", uri)
            target.remove("first")
            with pytest.raises(RpcError):
                await read(peer, uri)
            await names(peer, "gate", "second", uri)
            assert await read(peer, uri) == "of second"
