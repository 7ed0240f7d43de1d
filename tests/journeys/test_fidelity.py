"""What a server says of itself and what it answers comes through whole (UP-6).

Every comparison is of JSON values, between a client straight at the server and the same client at the
passthrough surface in front of it: tools with fields that no specification knows, results with unknown
content, numbers beyond 64 bits, errors with code and data, questions with whatever is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.journeys.cells import STRAIGHT, Cell, World
from tests.support.everything import over_http, over_stdio
from tests.support.gateway import gateway
from tests.support.links import HttpLink
from tests.support.peer import Peer, connected
from tests.support.wire import HANDSHAKE, MODERN, RpcError

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-6", "SURF-3")]

SAME_ERA = pytest.mark.parametrize("cell", STRAIGHT, ids=lambda cell: cell.name)
READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "test://static-binary"}),
    ("resources/read", {"uri": "test://template/7/data"}),
    ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "test_simple_prompt"}, "argument": {"name": "x", "value": "par"}},
    ),
    ("tools/call", {"name": "oddities"}),
    ("tools/call", {"name": "test_multiple_content_types", "arguments": {}}),
    ("tools/call", {"name": "test_error_handling", "arguments": {}}),
)
REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/call", {"name": "protocol_error", "arguments": {"code": -32099}}),
    ("tools/call", {"name": "protocol_error", "arguments": {"code": 7}}),
    ("resources/read", {"uri": "test://nowhere"}),
    ("prompts/get", {"name": "nowhere"}),
    ("nobody/knows", {}),
)
ASKS = ("test_elicitation_sep1330_enums", "test_elicitation_sep1034_defaults")


def through(cell: Cell) -> Cell:
    return Cell(cell.client, cell.upstream, cell.transport, "passthrough")


async def both(cell: Cell, servers: World, behind: World, look: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """What the same look finds straight at the server, and through the gateway."""
    async with cell.peer(servers, **options) as peer:
        expected = await look(peer)
    async with through(cell).peer(behind, **options) as peer:
        return expected, await look(peer)


@SAME_ERA
async def test_lists_contents_and_results_come_through_whole(servers: World, behind: World, cell: Cell) -> None:
    async def look(peer: Peer) -> list[Any]:
        return [await peer.request(method, params) for method, params in READS]

    expected, found = await both(cell, servers, behind, look)
    for (method, params), straight, relayed in zip(READS, expected, found, strict=True):
        assert relayed == straight, (method, params)
    assert found[8]["structuredContent"]["large"] == 2**70


@SAME_ERA
async def test_errors_keep_their_code_message_and_data(servers: World, behind: World, cell: Cell) -> None:
    async def look(peer: Peer) -> list[Any]:
        return [await error_of(peer, method, params) for method, params in REFUSED]

    expected, found = await both(cell, servers, behind, look)
    assert found == expected


async def error_of(peer: Peer, method: str, params: Mapping[str, Any]) -> tuple[int, str, Any]:
    with pytest.raises(RpcError) as caught:
        await peer.request(method, params)
    return caught.value.code, str(caught.value), caught.value.data


@SAME_ERA
async def test_the_server_introduces_itself_as_itself(servers: World, behind: World, cell: Cell) -> None:
    async def look(peer: Peer) -> list[Any]:
        said = await peer.request("server/discover") if peer.modern else peer.welcome
        return [said.get(key) for key in ("capabilities", "serverInfo", "instructions", "_meta")]

    expected, found = await both(cell, servers, behind, look)
    assert found == expected


@SAME_ERA
async def test_questions_come_through_whole(servers: World, behind: World, cell: Cell) -> None:
    async def decline(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": "decline"}

    async def look(peer: Peer) -> list[Any]:
        results = [await peer.call(name) for name in ASKS]
        return [results, peer.asked]

    expected, found = await both(cell, servers, behind, look, answer=decline)
    assert found == expected


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
async def test_every_page_of_a_long_list_comes_through_in_order(tmp_path_factory: Any, era: str) -> None:
    data = tmp_path_factory.mktemp("pages") / "data"
    config = {"surfaces": ["passthrough"], "mcpServers": {"paged": over_stdio("--page", "4")}}
    with over_http("--page", "4") as url, gateway(data, config) as running:
        async with connected(HttpLink(url), era) as peer:
            expected = await pages(peer)
        async with connected(HttpLink(f"{running.mcp}/s/paged"), era) as peer:
            assert await pages(peer) == expected
    assert len(expected) > 20


async def pages(peer: Peer) -> list[str]:
    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await peer.request("tools/list", cursor)
        names += [tool["name"] for tool in page["tools"]]
        if "nextCursor" not in page:
            return names
        cursor = {"cursor": page["nextCursor"]}
