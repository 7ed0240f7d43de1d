"""The commands a person uses, against a gateway that runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import SERVERS, Running, clean_environment, gateway, python_server, until
from tests.support.wire import Wire


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = {"//": "kept", "mcpServers": {"s": python_server("plain.py")}}
    with gateway(tmp_path_factory.mktemp("commands") / "data", config) as running:
        yield running


def command(running: Running, *args: str, status: int = 0) -> str:
    """Run it and give what it printed; JSON where that was asked for is for the caller to read."""
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *args],
        env=clean_environment(MCPPROXY_DATA_DIR=str(running.data_dir)), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def as_json(running: Running, *args: str) -> Any:
    return json.loads(command(running, *args, "-o", "json"))


@pytest.mark.proves("CLI-2", "UP-1", "API-1", "CONF-1", "ACT-1")
def test_a_server_is_added_used_disabled_and_removed_while_the_gateway_runs(running: Running) -> None:
    wire = Wire(running.mcp)
    command(running, "upstream", "add", "later", "--", sys.executable, str(SERVERS / "plain.py"))
    running.wait_for("later")
    assert not wire.via("write", "later:echo", {}).get("isError")
    written = json.loads((running.data_dir / "mcp_config.json").read_text())
    assert written["//"] == "kept"
    assert "later" in written["mcpServers"]

    command(running, "upstream", "disable", "later")
    assert wire.via("write", "later:echo", {})["structuredContent"]["code"] == "TOOL_UNAVAILABLE"
    command(running, "upstream", "enable", "later")
    running.wait_for("later")
    command(running, "upstream", "restart", "later")
    running.wait_for("later")
    assert not wire.via("write", "later:echo", {}).get("isError")

    command(running, "upstream", "remove", "later", status=2)
    command(running, "upstream", "remove", "later", "--yes")
    assert wire.via("write", "later:echo", {})["structuredContent"]["code"] == "TOOL_NOT_FOUND"
    done = [row["tool"] for row in reversed(running.activities(type="config_change"))]
    assert done == ["add_server", "disable_server", "enable_server", "restart_server", "remove_server"]


@pytest.mark.proves("CLI-2", "FIND-1")
def test_tools_are_searched_and_listed(running: Running) -> None:
    found = as_json(running, "tools", "search", "echo", "--limit", "3")
    assert found["tools"][0]["name"] == "s:echo"
    assert running.activities(type="tool_search", limit=1)[0]["source"] == "cli"
    listed = as_json(running, "tools", "list", "--server", "s")
    assert {row["name"] for row in listed["tools"]} >= {"s:echo", "s:draft"}


@pytest.mark.proves("CLI-2", "OPS-1")
def test_what_a_server_says_on_stderr_is_in_its_log(running: Running) -> None:
    command(running, "upstream", "logs", "s")
    assert (running.data_dir / "logs" / "s.log").stat().st_mode & 0o077 == 0


@pytest.mark.proves("API-2", "CLI-2")
def test_a_rotated_key_opens_and_the_old_one_does_not(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {}}) as own:
        old = own.key
        assert command(own, "key", "show").strip() == old
        command(own, "key", "rotate", "--yes")
        assert own.client.get("/api/v1/status").status_code == 401
        new = command(own, "key", "show").strip()
        assert new != old
        assert own.client.get("/api/v1/status", headers={"X-API-Key": new}).status_code == 200


@pytest.mark.proves("ACT-4", "CLI-2")
def test_activity_is_listed_shown_summed_up_and_exported(running: Running, tmp_path: Path) -> None:
    Wire(running.mcp).read("s:hint_t_f", {"mark": "=cmd()"})
    running.catch_up()
    row = as_json(running, "activity", "list", "--tool", "hint_t_f", "--limit", "1")["activities"][0]
    assert as_json(running, "activity", "show", row["id"])["id"] == row["id"]
    assert as_json(running, "activity", "summary")
    out = tmp_path / "all.csv"
    command(running, "activity", "export", "--format", "csv", "--out", str(out))
    assert row["id"] in out.read_text()
    assert command(running, "activity", "list", "--intent-type", "sideways", status=2) == ""


@pytest.mark.proves("UP-8")
def test_an_edit_of_the_file_takes_effect_between_two_calls_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    config: dict[str, Any] = {"mcpServers": {"s": python_server("plain.py")}}
    with gateway(tmp_path / "data", config) as own:
        path, wire = own.data_dir / "mcp_config.json", Wire(own.mcp)
        assert wire.read("s:hint_f_t")["structuredContent"]["code"] == "SERVER_MISMATCH"

        path.write_text("{ broken")
        until(lambda: own.get("/status")["config_error"], what="the report of a bad edit")
        assert wire.read("s:hint_f_t")["structuredContent"]["code"] == "SERVER_MISMATCH"

        config["intent_declaration"] = {"strict_server_validation": False}
        config["mcpServers"]["s"]["tools"] = {"hint_n_n": "read"}
        config["mcpServers"]["new"] = python_server("plain.py")
        path.write_text(json.dumps(config))
        own.wait_for("new", "s")
        assert "mcpproxy/warning" in wire.read("s:hint_f_t")["_meta"]
        assert own.get("/status")["config_error"] is None
        row = own.activities(type="config_change", limit=1)[0]
        assert row["tool"] == "change_config"
        assert len(row["arguments"]["loosens"]) == 2
        restarts = {server["name"]: server["restarts"] for server in own.get("/servers")["servers"]}
        assert restarts["s"] == 0, "a server whose connection did not change was not touched"

        del config["mcpServers"]["new"]
        path.write_text(json.dumps(config))
        until(lambda: {row["name"] for row in own.get("/servers")["servers"]} == {"catalog", "s"}, what="its removal")


@pytest.mark.proves("UP-8", "API-1", "ACT-1")
def test_what_several_people_change_at_once_all_takes_effect_and_passes_for_no_edit_by_hand(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(40)]
    with gateway(tmp_path / "data", {"mcpServers": {}}) as own, ThreadPoolExecutor(8) as people:

        def add(name: str) -> int:
            entry = {"name": name, "config": {"url": "http://127.0.0.1:9/mcp", "enabled": False}}
            return own.post("/servers", entry).status_code

        assert {*people.map(add, names)} == {201}
        assert {row["name"] for row in own.get("/servers")["servers"]} == {*names, "catalog"}
        assert json.loads((own.data_dir / "mcp_config.json").read_text())["mcpServers"].keys() == {*names}
        assert [row["tool"] for row in own.activities(type="config_change")] == ["add_server"] * len(names)
