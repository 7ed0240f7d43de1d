"""Requests at a passthrough surface that are no tool calls: decided, confirmed and recorded like those.

The server does whatever it is asked and knows no method that it would refuse, so only the gateway can.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.target import ALL_SURFACES, ERAS, Target, accepts, ask, fresh, heard
from tests.support.gateway import gateway
from tests.support.wire import MODERN, Wire, messages

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-14", "GATE-15")]
SPELLINGS = ["Tools/Call", "TOOLS/CALL", "tools/Call", " tools/call", "tools/call ", "tools/call\t", "tools//call",
             "tools/call/", "/tools/call", "tools/call\n", "tools\\call", "tools.call"]  # fmt: skip
NOT_OURS = ["x/delete_everything", "tools/delete", "resources/write", "vendor.example/run", "notify"]
LISTS = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
SERVERS = pytest.mark.parametrize("server", ["denying", "denying-handshake"])
CONFIRMING = pytest.mark.parametrize("server", ["confirming", "confirming-handshake"])
FREE = pytest.mark.parametrize("server", ["free", "free-handshake"])
YES = {"action": "accept", "content": {"allow": True}}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("relays")
    denied = {"deny_tools": ["wipe", "wipe_ask"]}
    servers = {
        "free": heard(folder, "free", "--modern"),
        "free-handshake": heard(folder, "free-handshake"),
        "denying": heard(folder, "denying", "--modern", **denied),
        "denying-handshake": heard(folder, "denying-handshake", **denied),
        "confirming": heard(folder, "confirming", "--modern", confirm="write", confirm_by="client"),
        "confirming-handshake": heard(folder, "confirming-handshake", confirm="write", confirm_by="client"),
    }
    with gateway(folder / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers}) as running:
        yield Target(running, folder, servers)


def raw(target: Target, server: str, era: str) -> Wire:
    """A client that says whatever it likes, in the body; what a header cannot hold stays out of it."""
    return Wire(f"{target.running.url}/mcp/s/{server}", era, name=fresh("client"))


def said(wire: Wire, method: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The whole message that answers a request for this method, which is named in the header as it can be."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": wire.info,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    envelope = {"_meta": meta} if wire.era == MODERN else {}
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**asked, **envelope}}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": method.strip()} if wire.era == MODERN else {}
    if wire.era == MODERN and "name" in asked:
        headers["mcp-name"] = asked["name"]
    return messages(wire.post(body, **headers))[-1]


# M6: names of methods.


@ERAS
@SERVERS
@pytest.mark.parametrize("method", SPELLINGS)
async def test_another_spelling_of_a_call_does_not_reach_a_denied_tool(
    target: Target, era: str, server: str, method: str
) -> None:
    mark = fresh()
    answer = said(raw(target, server, era), method, {"name": "wipe", "arguments": {"mark": mark}})
    await target.marker("passthrough", server, era)
    assert not target.log(server).has(mark)
    assert "error" in answer or answer["result"].get("isError"), answer


@ERAS
@CONFIRMING
@pytest.mark.parametrize("method", [*SPELLINGS, *NOT_OURS])
async def test_no_method_gets_past_the_confirmation(target: Target, era: str, server: str, method: str) -> None:
    """Of a client that cannot be asked, so that there is nobody to say yes."""
    mark = fresh()
    answer = said(raw(target, server, era), method, {"name": "wipe", "arguments": {"mark": mark}})
    await target.marker("passthrough", server, era)
    assert not target.log(server).has(mark)
    assert "error" in answer or answer["result"].get("isError"), answer


@ERAS
@CONFIRMING
async def test_a_person_is_asked_about_a_method_that_nobody_knows(target: Target, era: str, server: str) -> None:
    no, yes, log = fresh(), fresh(), target.log(server)
    async with target.client("passthrough", server, era) as peer:
        refused = await ask(peer, {"mark": no}, "x/delete_everything")
        asked = list(peer.asked)
    assert not refused.ok
    assert len(asked) == 1, "the person was asked"
    assert "x/delete_everything" in asked[0][1]["message"] and no in asked[0][1]["message"], "about exactly this"
    async with target.client("passthrough", server, era, accepts("", allow=True)) as peer:
        assert (await ask(peer, {"mark": yes}, "x/delete_everything")).ok
        assert len(peer.asked) == 1
    assert not log.has(no)
    assert [
        each["params"].get("mark") for each in log.of("x/delete_everything") if each["params"].get("mark") == yes
    ] == [yes]
    (row,) = target.ended(no)
    assert (row["status"], row["error"]["code"]) == ("blocked", "NOT_CONFIRMED")


@ERAS
@CONFIRMING
async def test_nobody_is_asked_about_reading(target: Target, era: str, server: str) -> None:
    async with target.client("passthrough", server, era) as peer:
        assert (await ask(peer, {"uri": "note://1"}, "resources/read")).ok
        assert (await ask(peer, {"name": "hello"}, "prompts/get")).ok
        assert (await ask(peer, {}, "resources/list")).ok
        assert peer.asked == []


@ERAS
@FREE
@pytest.mark.parametrize("method", NOT_OURS)
async def test_a_method_that_nobody_knows_counts_as_a_write(target: Target, era: str, server: str, method: str) -> None:
    before, frozen = fresh(), fresh()
    async with target.client("passthrough", server, era) as peer:
        assert (await ask(peer, {"mark": before}, method)).ok
        with target.frozen():
            refused = await ask(peer, {"mark": frozen}, method)
    await target.marker("passthrough", server, era)
    assert target.log(server).has(before)
    assert not target.log(server).has(frozen)
    assert "frozen" in refused.words
    (row,) = target.ended(frozen)
    assert (row["status"], row["error"]["code"]) == ("blocked", "FROZEN")


@ERAS
@FREE
async def test_a_method_that_nobody_knows_is_not_sent_without_its_record(target: Target, era: str, server: str) -> None:
    mark = fresh()
    async with target.client("passthrough", server, era) as peer:
        with target.unwritable():
            assert not (await ask(peer, {"mark": mark}, "x/delete_everything")).ok
    await target.marker("passthrough", server, era)
    assert not target.log(server).has(mark)


@ERAS
@FREE
@pytest.mark.parametrize("method", ["tools/call", "x/delete_everything", "notifications/x", "notifications/tools/call"])
async def test_what_comes_without_an_id_asks_nothing_of_a_server(
    target: Target, era: str, server: str, method: str
) -> None:
    mark, wire = fresh(), raw(target, server, era)
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": wire.info,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    asked: dict[str, Any] = {"name": "wipe", "arguments": {"mark": mark}}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": "wipe"} if era == MODERN else {}
    wire.post(
        {"jsonrpc": "2.0", "method": method, "params": {**asked, **({"_meta": meta} if headers else {})}}, **headers
    )
    await target.marker("passthrough", server, era)
    assert not target.log(server).has(mark)


# M14: lists.


@ERAS
@FREE
@pytest.mark.parametrize("method", list(LISTS))
async def test_of_a_list_only_the_cursor_is_sent_on(target: Target, era: str, server: str, method: str) -> None:
    mark, cursor = fresh("smuggled"), fresh("page")
    asked = {
        "cursor": cursor,
        "name": "wipe",
        "arguments": {"mark": mark},
        "uri": f"note://{mark}",
        mark: True,
        "_meta": {"evil.example/x": mark},
    }
    async with target.client("passthrough", server, era) as peer:
        found = await ask(peer, asked, method)
    assert found.ok and LISTS[method] in found.result
    log = target.log(server)
    sent = [each["params"] for each in log.of(method) if (each.get("params") or {}).get("cursor") == cursor]
    assert [set(each) - {"_meta"} for each in sent] == [{"cursor"}]
    assert not log.has(mark)


@ERAS
@FREE
@pytest.mark.parametrize("method", list(LISTS))
@pytest.mark.parametrize("kind", [dict, list, int, bool])
async def test_a_cursor_is_a_string(target: Target, era: str, server: str, method: str, kind: type) -> None:
    mark = fresh("smuggled")
    cursor = {dict: {"mark": mark}, list: [mark], int: 98_765_432_101, bool: True}[kind]
    log, before = target.log(server), len(target.log(server).of(method))
    async with target.client("passthrough", server, era) as peer:
        await ask(peer, {"cursor": cursor}, method)
    await target.marker("passthrough", server, era)
    sent = [(each.get("params") or {}).get("cursor") for each in log.of(method)[before:]]
    assert [each for each in sent if each is not None] == []


@ERAS
@FREE
@pytest.mark.parametrize("method", list(LISTS))
async def test_each_list_is_on_record_and_goes_on_while_frozen(
    target: Target, era: str, server: str, method: str
) -> None:
    name = fresh("lister")
    async with target.client("passthrough", server, era, name=name) as peer:
        assert (await ask(peer, {}, method)).ok
        with target.frozen():
            assert (await ask(peer, {}, method)).ok, "looking is reading"
    rows = [row for row in target.running.activities() if row["client"]["name"] == name]
    listed = [row for row in rows if row["metadata"].get("method") == method]
    assert [row["status"] for row in listed] == ["success", "success"]
    assert {row["server"] for row in listed} == {server}


@ERAS
@FREE
async def test_a_disabled_server_is_not_asked_for_its_lists(tmp_path: Path, era: str, server: str) -> None:
    flags = ["--modern"] if server == "free" else []
    servers = {server: heard(tmp_path, server, *flags)}
    with gateway(tmp_path / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers}) as running:
        target = Target(running, tmp_path, servers)
        async with target.client("passthrough", server, era) as peer:
            target.disable(server)
            for method in LISTS:
                assert not (await ask(peer, {"cursor": fresh("page")}, method)).ok
        assert not any(target.log(server).of(method) for method in LISTS)
