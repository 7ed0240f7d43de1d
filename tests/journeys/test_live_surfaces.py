"""What an edit of the configuration file changes for those who are connected, while the gateway runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.links import HttpLink, StdioLink
from tests.support.peer import WAIT, Peer, connected
from tests.support.wire import HANDSHAKE, MODERN, Wire, messages, text

CHANGED = "notifications/tools/list_changed"
ALL = ["gate", "direct", "passthrough"]


class Live:
    """A gateway, and the hand that edits its file."""

    def __init__(self, running: Running, config: dict[str, Any]) -> None:
        self.running = running
        self.config = config

    def edit(self, **changes: Any) -> None:
        """As an editor does: a new file in the place of the old one. `None` takes a key out."""
        merged = {**self.config, **changes}
        self.config = {key: value for key, value in merged.items() if value is not None}
        fresh = self.running.data_dir / "fresh.json"
        fresh.write_text(json.dumps(self.config))
        os.replace(fresh, self.running.data_dir / "mcp_config.json")

    def serve(self, **servers: Any) -> None:
        kept = {**self.config["mcpServers"], **servers}
        self.edit(mcpServers={name: entry for name, entry in kept.items() if entry is not None})

    def loosened(self) -> list[str]:
        rows = self.running.activities(type="config_change", tool="change_config")
        return [sentence for row in rows for sentence in row["arguments"]["loosens"]]

    def wire(self, path: str, era: str = MODERN) -> Wire:
        return Wire(f"{self.running.url}{path}", era)

    def link(self, path: str) -> HttpLink:
        return HttpLink(f"{self.running.url}{path}")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    config: dict[str, Any] = {
        "surfaces": ["gate"],
        "mcpServers": {"s": python_server("plain.py", "--pid-file", str(tmp_path / "pids"))},
    }
    with gateway(tmp_path / "data", config) as running:
        running.wait_for("catalog")
        yield Live(running, config)


def is_open(live: Live, path: str) -> bool:
    return Wire(f"{live.running.url}{path}").post(b"{}").status_code != 404


@pytest.mark.proves("SURF-4", "UP-8")
def test_surfaces_appear_and_go_with_the_file_and_opening_one_is_on_record(live: Live) -> None:
    assert [is_open(live, path) for path in ("/mcp", "/mcp/direct", "/mcp/s/s", "/mcp/s/catalog")] == [1, 0, 0, 1]
    live.edit(surfaces=ALL)
    until(lambda: is_open(live, "/mcp/direct") and is_open(live, "/mcp/s/s"))
    assert not is_open(live, "/mcp/s/nobody")
    assert sorted(live.loosened()) == ["surface direct was opened", "surface passthrough was opened"]
    assert text(live.wire("/mcp/s/s").call("echo", {"text": "through"})) == '{"text": "through"}'
    live.edit(surfaces=["direct"])
    until(lambda: not is_open(live, "/mcp") and not is_open(live, "/mcp/s/s"))
    assert is_open(live, "/mcp/s/catalog"), "it is always there"
    assert "s__echo" in {tool["name"] for tool in live.wire("/mcp/direct").request("tools/list")["tools"]}
    assert len(live.loosened()) == 2, "closing loosens nothing"


@pytest.mark.anyio
@pytest.mark.proves("SURF-4", "UP-8")
async def test_a_surface_that_goes_takes_its_sessions_and_streams_with_it(live: Live) -> None:
    live.edit(surfaces=["gate", "direct"])
    until(lambda: is_open(live, "/mcp/direct"))
    staying, going = live.wire("/mcp", HANDSHAKE), live.wire("/mcp/direct", HANDSHAKE)
    async with (
        httpx.AsyncClient(timeout=WAIT, trust_env=False) as http,
        http.stream("GET", going.url, headers=going.headers) as stream,
    ):
        live.edit(surfaces=["gate"])
        with anyio.fail_after(WAIT):
            assert await stream.aread() is not None, "the stream comes to its end"
    assert going.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status_code == 404
    assert staying.request("ping") == {}
    live.edit(surfaces=["gate", "direct"])
    until(lambda: is_open(live, "/mcp/direct"))
    answer = going.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert answer.status_code == 404, "the id of a session that ended stays ended"
    assert "initialize again" in messages(answer)[0]["error"]["message"]


@pytest.mark.anyio
@pytest.mark.proves("SURF-4", "SURF-5", "UP-8")
async def test_it_takes_those_with_it_who_listen_or_came_over_a_pipe(live: Live) -> None:
    live.edit(surfaces=["gate", "direct"])
    until(lambda: is_open(live, "/mcp/direct"))
    command = [sys.executable, "-m", "mcpproxy_py", "stdio", "--data-dir", str(live.running.data_dir)]
    going = StdioLink([*command, "--surface", "direct"], env=clean_environment())
    staying = StdioLink(command, env=clean_environment())
    listening = live.link("/mcp/direct")
    async with connected(going) as gone, connected(staying) as stays, connected(listening) as listener:
        await listener.watch()
        assert not (await gone.call("s__echo", {"text": "before"})).get("isError")
        live.edit(surfaces=["gate"])
        with anyio.fail_after(WAIT):
            await going.process.wait()
            while listening.exchanges:  # noqa: ASYNC110 (nobody tells when an exchange is over)
                await anyio.sleep(0.02)
        assert (await stays.request("tools/list"))["tools"]


@pytest.mark.proves("SURF-4", "SEC-5")
def test_a_session_id_is_good_on_its_own_path_only(live: Live) -> None:
    live.edit(surfaces=ALL)
    paths = ["/mcp", "/mcp/direct", "/mcp/s/s", "/mcp/s/catalog"]
    until(lambda: all(is_open(live, path) for path in paths))
    clients = {path: live.wire(path, HANDSHAKE) for path in paths}
    ping = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping"})
    for path, client in clients.items():
        for other in set(paths) - {path}:
            for method, content in (("POST", ping), ("GET", None), ("DELETE", None)):
                url = f"{live.running.url}{other}"
                found = client.http.request(method, url, content=content, headers=client.headers)
                assert found.status_code == 404, (method, path, other)
    for client in clients.values():
        assert client.request("ping") == {}, "and nobody ended it from elsewhere"


@pytest.mark.proves("UP-8", "GATE-8")
def test_the_mode_and_an_override_take_effect_between_two_calls_of_one_session(live: Live, tmp_path: Path) -> None:
    client = live.wire("/mcp", HANDSHAKE)

    def code(variant: str, tool: str) -> str | None:
        return client.via(variant, f"s:{tool}", {}).get("structuredContent", {}).get("code")

    assert code("read", "write_note") == "SERVER_MISMATCH"
    live.edit(intent_declaration={"strict_server_validation": False})
    until(lambda: code("read", "write_note") is None)
    warned = client.via("read", "s:write_note", {})
    assert "use call_tool_write" in warned["_meta"]["mcpproxy/warning"]
    live.edit(intent_declaration=None)
    until(lambda: code("read", "write_note") == "SERVER_MISMATCH")
    entry = live.config["mcpServers"]["s"]
    live.serve(s={**entry, "tools": {"echo": "destructive", "write_note": "read"}})
    until(lambda: code("read", "write_note") is None)
    assert code("read", "echo") == "SERVER_MISMATCH"
    live.serve(s=entry)
    until(lambda: code("read", "write_note") == "SERVER_MISMATCH")
    assert code("read", "echo") is None
    assert any("strict_server_validation is off" in sentence for sentence in live.loosened())
    assert "s: the override of write_note can class it read, before as its server says" in live.loosened()
    assert len((tmp_path / "pids").read_text().split()) == 1, "its server was not restarted for any of it"


@pytest.mark.proves("UP-8")
def test_what_an_edit_loosens_is_on_record_whatever_key_it_is_of(live: Live) -> None:
    narrow, wide = ({"properties": {"text": {"pattern": each}}, "required": ["text"]} for each in ("^a$", "^[ab]$"))
    entry = live.config["mcpServers"]["s"]

    def overridden(*entries: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "tools": {"echo": list(entries)}}

    steps: list[tuple[dict[str, Any], str | None]] = [
        ({"activity": {"max_payload_bytes": 0}}, "activity.max_payload_bytes went from 65536 to 0"),
        ({"activity": {"max_payload_bytes": 0, "on_failure": "allow"}},
         "activity.on_failure went from refuse to allow"),
        ({"mcpServers": {"s": {**entry, "tools": {"echo": "destructive"}}}}, None),
        ({"mcpServers": {"s": overridden({"when": narrow, "class": "read"}, {"class": "destructive"})}},
         "s: the override of echo can class it read, before destructive"),
        ({"mcpServers": {"s": overridden({"when": wide, "class": "read"}, {"class": "destructive"})}},
         "s: the override of echo can class it read, before destructive"),
        ({"mcpServers": {"s": {**entry, "args": [*entry["args"], "--pid-file", "/dev/null"]}}},
         "s: another server is started: args changed"),
    ]  # fmt: skip
    for number, (change, said) in enumerate(steps, start=1):
        live.edit(**change)
        until(lambda: len(live.running.activities(type="config_change", tool="change_config")) == number)  # noqa: B023
        newest = live.running.activities(type="config_change", tool="change_config")[0]
        loosens = newest["arguments"]["loosens"]
        assert (said in loosens) if said else loosens == [], (change, loosens)


async def told(peer: Peer, times: int) -> None:
    """It has heard of a change that often, and not once more."""
    await peer.hear(CHANGED, times=times)
    assert len([message for message in peer.heard if message["method"] == CHANGED]) == times


@pytest.mark.anyio
@pytest.mark.proves("UP-4", "UP-8", "SURF-2")
async def test_each_change_of_the_list_reaches_whom_it_concerns_once(live: Live, tmp_path: Path) -> None:
    live.edit(surfaces=ALL)
    until(lambda: is_open(live, "/mcp/direct") and is_open(live, "/mcp/s/s"))
    entry = live.config["mcpServers"]["s"]
    steps: list[tuple[dict[str, Any], str | None, str | None]] = [
        ({"added": python_server("plain.py")}, "added__echo", None),
        ({"s": {**entry, "deny_tools": ["echo"]}}, None, "s__echo"),
        ({"s": entry}, "s__echo", None),
        ({"added": None}, None, "added__echo"),
    ]
    async with (
        connected(live.link("/mcp/direct"), HANDSHAKE) as old,
        connected(live.link("/mcp/direct"), MODERN) as new,
        connected(live.link("/mcp/s/s"), MODERN) as of_s,
        connected(live.link("/mcp"), HANDSHAKE) as at_gate,
    ):
        await new.watch()
        await of_s.watch()
        for number, (servers, there, gone) in enumerate(steps, 1):
            live.serve(**servers)
            for peer in (old, new):
                await told(peer, number)
            names = {tool["name"] for tool in (await new.request("tools/list"))["tools"]}
            assert there is None or there in names
            assert gone is None or gone not in names
        await told(of_s, 2)
        live.edit(request_capability_description="Say what is missing.")
        await told(at_gate, 3)  # the servers in reach changed twice
        for peer in (old, new):
            await told(peer, len(steps) + 1)


@pytest.mark.anyio
@pytest.mark.proves("UP-4", "UP-8", "MISS-1")
async def test_who_listens_at_the_gate_hears_when_its_own_tools_change_and_of_nothing_else(live: Live) -> None:
    async with (
        connected(live.link("/mcp"), HANDSHAKE) as old,
        connected(live.link("/mcp"), MODERN) as new,
    ):
        await new.watch()
        live.serve(added=python_server("plain.py"))
        with anyio.fail_after(WAIT):
            await anyio.to_thread.run_sync(live.running.wait_for, "added")
        for peer in (old, new):
            await told(peer, 1)
        live.serve(added=python_server("plain.py", deny_tools=["echo"]))
        for number, changes in enumerate(
            (
                {"capture_missing_capabilities": False},
                {"capture_missing_capabilities": True},
                {"request_capability_description": "Say what is missing."},
                {"intent_declaration": {"schema": "flat"}},
            ),
            2,
        ):
            live.edit(**changes)
            for peer in (old, new):
                await told(peer, number)
            names = [tool["name"] for tool in (await old.request("tools/list"))["tools"]]
            assert ("request_capability" in names) == (number > 2)


@pytest.mark.proves("UP-8", "SURF-2")
def test_another_description_of_the_wish_is_shown_at_both_doors(live: Live) -> None:
    live.edit(surfaces=ALL, request_capability_description="Say what is missing.")
    until(lambda: is_open(live, "/mcp/direct"))

    def described(path: str) -> set[str]:
        tools = live.wire(path).request("tools/list")["tools"]
        return {tool["description"] for tool in tools if tool["name"] == "request_capability"}

    assert described("/mcp") == described("/mcp/direct") == {"Say what is missing."}
    live.edit(request_capability_description="Say it again.")
    until(lambda: described("/mcp") == {"Say it again."})
    assert described("/mcp/direct") == {"Say it again."}


@pytest.mark.anyio
@pytest.mark.proves("SURF-11", "UP-4")
async def test_agents_are_told_which_servers_are_in_reach_and_hear_when_that_changes(live: Live) -> None:
    command = [sys.executable, "-m", "mcpproxy_py", "stdio", "--data-dir", str(live.running.data_dir)]
    links = (live.link("/mcp"), live.link("/mcp"), StdioLink(command, env=clean_environment()))
    async with (
        connected(links[0], HANDSHAKE) as old,
        connected(links[1], MODERN) as new,
        connected(links[2], HANDSHAKE) as piped,
    ):
        await new.watch()
        for number, (entries, line) in enumerate(
            (
                ({}, "Servers: s."),
                ({"gone": {"command": "/nowhere/at/all"}, "a": python_server("dies.py")}, "Servers: a gone s."),
                ({"a": {**python_server("dies.py"), "enabled": False}}, "Servers: gone s."),
                ({"s": None, "gone": None}, ""),
            )
        ):
            if entries:
                live.serve(**entries)
            for peer in (old, new, piped):
                if number:
                    await told(peer, number)
                tools = {tool["name"]: tool for tool in (await peer.request("tools/list"))["tools"]}
                assert tools["retrieve_tools"]["description"].endswith(f"Start here. {line}".strip())
                assert tools["retrieve_tools"]["_meta"]["anthropic/alwaysLoad"] is True
            said = (await new.request("server/discover"))["instructions"]
            assert said.endswith(f"request_capability. {line}".strip())
        said = live.wire("/mcp", HANDSHAKE).welcome["instructions"]
        assert said.endswith("request_capability.")


@pytest.mark.anyio
@pytest.mark.proves("SURF-11", "SURF-2", "UP-8")
async def test_hosts_ask_their_user_before_destructive_calls_where_that_is_set(live: Live) -> None:
    key = "anthropic/requiresUserInteraction"
    live.serve(s={**live.config["mcpServers"]["s"], "tools": {"echo": "destructive"}})
    live.edit(surfaces=ALL)
    until(lambda: is_open(live, "/mcp/direct"))

    async def asking(peer: Peer) -> set[str]:
        tools = (await peer.request("tools/list"))["tools"]
        return {tool["name"] for tool in tools if tool.get("_meta", {}).get(key) is True}

    async with connected(live.link("/mcp"), MODERN) as gate, connected(live.link("/mcp/direct"), HANDSHAKE) as direct:
        await gate.watch()
        assert await asking(gate) == await asking(direct) == set()
        live.edit(intent_declaration={"host_confirm": "destructive"})
        for peer in (gate, direct):
            await told(peer, 1)
        assert await asking(gate) == {"call_tool_destructive"}
        assert "s__echo" in await asking(direct)
        assert "s__write_note" not in await asking(direct)
        assert live.loosened() == ["surface direct was opened", "surface passthrough was opened"]
        live.edit(intent_declaration=None)
        await told(gate, 2)
        assert await asking(gate) == set()
        assert "intent_declaration.host_confirm went from destructive to never" in live.loosened()
