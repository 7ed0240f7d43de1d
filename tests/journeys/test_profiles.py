"""A profile narrows and tightens what there is, over HTTP in both eras and through changes of it (SURF-12)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.journeys.test_live_surfaces import CHANGED, Live
from tests.support.gateway import gateway, python_server, until
from tests.support.peer import connected
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire, text

pytestmark = pytest.mark.proves("SURF-12")
REFUSAL = "mcpproxy/refusal"
ERAS = (MODERN, HANDSHAKE)
PROFILES: dict[str, Any] = {
    "frontend": {"servers": ["a"]},
    "notes": {"servers": ["a", "b"], "tools": ["a:*_note", "echo"]},
    "reading": {"servers": ["a", "b"], "operations": ["read"]},
    "careful": {
        "servers": ["b"],
        "unannotated": "destructive",
        "strict": True,
        "confirm": "destructive",
        "confirm_by": "client",
    },
    "later": {"servers": ["gone"]},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    config: dict[str, Any] = {
        "surfaces": ["gate", "direct"],
        "intent_declaration": {"strict_server_validation": False},
        "profiles": PROFILES,
        "mcpServers": {name: python_server("plain.py") for name in "ab"},
    }
    with gateway(tmp_path_factory.mktemp("profiles") / "data", config) as running:
        running.wait_for("catalog")
        yield Live(running, config)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    config: dict[str, Any] = {
        "profiles": {"frontend": {"servers": ["a"]}, "other": {"servers": ["a", "b"]}},
        "mcpServers": {name: python_server("plain.py") for name in "ab"},
    }
    with gateway(tmp_path / "data", config) as running:
        running.wait_for("catalog")
        yield Live(running, config)


def code(result: dict[str, Any]) -> str | None:
    return result["_meta"][REFUSAL]["code"] if result.get("isError") else None


def found(wire: Wire, query: str = "note text") -> set[str]:
    result = wire.call("retrieve_tools", {"query": query, "limit": 50})
    return {tool["name"] for tool in result["structuredContent"]["tools"]}


def servers_found(wire: Wire) -> set[str]:
    return {name.partition(":")[0] for name in found(wire)}


@pytest.mark.parametrize("era", ERAS)
def test_there_is_nothing_but_what_is_in_it(shared: Live, era: str) -> None:
    wire = shared.wire("/mcp/p/frontend", era)
    assert text(wire.read("a:echo", {"text": "x"})) == '{"text": "x"}'
    assert servers_found(wire) == {"a"}
    outside = wire.read("b:echo", {"text": "x"})
    assert code(outside) == "TOOL_NOT_FOUND"
    nobody = wire.read("q:echo", {"text": "x"})
    assert text(outside).replace("b:", "q:").replace("'b'", "'q'") == text(nobody), "like one that does not exist"
    assert servers_found(shared.wire("/mcp", era)) >= {"a", "b"}


@pytest.mark.parametrize("era", ERAS)
def test_of_its_servers_only_the_tools_that_it_names(shared: Live, era: str) -> None:
    wire = shared.wire("/mcp/p/notes", era)
    assert found(wire) == {"a:write_note", "a:delete_note", "a:echo", "b:echo"}
    assert code(wire.via("write", "b:write_note", {"text": "x"})) == "TOOL_NOT_FOUND"
    assert code(wire.via("write", "a:write_note", {"text": "x"})) is None


@pytest.mark.parametrize("era", ERAS)
def test_its_ceiling_holds_where_the_gateway_is_permissive(shared: Live, era: str) -> None:
    assert code(shared.wire("/mcp", era).read("a:write_note", {"text": "x"})) is None, "only a warning"
    wire = shared.wire("/mcp/p/reading", era)
    assert code(wire.read("a:echo", {"text": "x"})) is None
    assert code(wire.read("a:write_note", {"text": "x"})) == "TOOL_NOT_FOUND"
    for variant in ("write", "destructive"):
        with pytest.raises(RpcError, match=f"Unknown tool: call_tool_{variant}"):
            wire.via(variant, "a:write_note", {"text": "x"})
    names = {tool["name"] for tool in wire.request("tools/list")["tools"]}
    assert names & {"call_tool_read", "call_tool_write", "call_tool_destructive"} == {"call_tool_read"}
    assert not {"a:write_note", "a:delete_note"} & found(wire)


def test_it_is_stricter_than_the_gateway_and_never_less(shared: Live) -> None:
    everything, careful = shared.wire("/mcp"), shared.wire("/mcp/p/careful")
    assert code(everything.read("b:delete_note", {"text": "x"})) is None
    assert code(careful.read("b:delete_note", {"text": "x"})) == "SERVER_MISMATCH"
    assert code(everything.via("write", "b:hint_n_n")) is None
    assert code(careful.via("write", "b:hint_n_n")) == "SERVER_MISMATCH"
    assert code(careful.via("destructive", "b:delete_note", {"text": "x"})) == "NOT_CONFIRMED"


def test_the_direct_surface_is_there_in_it_too(shared: Live) -> None:
    wire = shared.wire("/mcp/p/frontend/direct")
    names = {tool["name"] for tool in wire.request("tools/list")["tools"]}
    assert "a__echo" in names
    assert not any(name.startswith("b__") for name in names)
    assert text(wire.call("a__echo", {"text": "x"})) == '{"text": "x"}'


def test_one_that_there_is_not_is_answered_like_any_unknown_path(shared: Live) -> None:
    answers = {path: Wire(f"{shared.running.url}{path}").post(b"{}") for path in
               ("/mcp/p/nobody", "/mcp/p/", "/mcp/p/frontend/s/a", "/mcp/zzz")}  # fmt: skip
    said = {(answer.status_code, answer.text.replace(path.rstrip("/"), "X")) for path, answer in answers.items()}
    assert len(said) <= 2
    assert {status for status, _ in said} == {404}


def test_a_session_is_good_on_the_path_of_its_profile_only(shared: Live) -> None:
    inside = shared.wire("/mcp/p/frontend", HANDSHAKE)
    for path in ("/mcp", "/mcp/p/notes", "/mcp/p/frontend/direct"):
        inside.url = f"{shared.running.url}{path}"
        assert inside.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status_code == 404
    inside.url = f"{shared.running.url}/mcp/p/frontend"
    assert inside.request("ping") == {}


def test_one_whose_servers_are_all_gone_has_nothing_and_says_so(shared: Live) -> None:
    wire = shared.wire("/mcp/p/later")
    assert found(wire) == set()
    assert code(wire.read("a:echo", {"text": "x"})) == "TOOL_NOT_FOUND"


# While the configuration changes.


@pytest.mark.proves("UP-8")
def test_a_change_is_in_force_at_once_and_what_it_widens_is_on_record(live: Live) -> None:
    wires = [live.wire("/mcp/p/other", era) for era in ERAS]
    for wire in wires:
        assert code(wire.read("b:echo", {"text": "x"})) is None
    live.edit(profiles={**live.config["profiles"], "other": {"servers": ["a"]}})
    for wire in wires:
        until(lambda wire=wire: code(wire.read("b:echo", {"text": "x"})) == "TOOL_NOT_FOUND")
        assert code(wire.read("a:echo", {"text": "x"})) is None, "the session goes on"
    assert live.loosened() == []
    live.edit(profiles={**live.config["profiles"], "other": {"servers": ["a", "b"]}})
    for wire in wires:
        until(lambda wire=wire: code(wire.read("b:echo", {"text": "x"})) is None)
    assert live.loosened() == ["profile other: b is in it now"]


@pytest.mark.anyio
async def test_one_that_goes_ends_its_sessions_and_streams(live: Live) -> None:
    going, staying = live.wire("/mcp/p/other", HANDSHAKE), live.wire("/mcp/p/frontend", HANDSHAKE)
    async with (
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
        http.stream("GET", going.url, headers=going.headers) as stream,
    ):
        live.edit(profiles={"frontend": live.config["profiles"]["frontend"]})
        with anyio.fail_after(60):
            assert await stream.aread() is not None, "the stream comes to its end"
    assert going.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status_code == 404
    assert staying.request("ping") == {}


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_who_is_in_one_hears_when_it_changes_and_nobody_else_does(live: Live, era: str) -> None:
    async with (
        connected(live.link("/mcp/p/other"), era) as inside,
        connected(live.link("/mcp/p/frontend"), era) as beside,
        connected(live.link("/mcp"), era) as outside,
    ):
        for peer in (inside, beside, outside):
            await peer.watch()
        live.edit(profiles={**live.config["profiles"], "other": {"servers": ["a"]}})
        await inside.hear(CHANGED)
        assert CHANGED not in {each["method"] for peer in (beside, outside) for each in peer.heard}


def test_a_wrong_edit_changes_nothing_and_is_told(live: Live) -> None:
    live.edit(profiles={"frontend": {"servers": []}})
    until(lambda: live.running.get("/status")["config_error"])
    assert "profiles.frontend.servers: expected at least one name" in live.running.get("/status")["config_error"]
    assert code(live.wire("/mcp/p/other").read("b:echo", {"text": "x"})) is None
