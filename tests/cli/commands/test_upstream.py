from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path

import pytest

ENTRY = {"command": "uvx", "args": ["mcp-server-time", "--x"], "env": {"TZ": "UTC"}, "transport": "stdio",
         "enabled": True, "lazy": False, "timeout": 60.0}  # fmt: skip


@pytest.fixture
def no_gateway(data_dir: Path) -> Path:
    """The data directory of a gateway that is gone; nothing listens where its configuration says."""
    (data_dir / "gateway.json").unlink()
    (data_dir / "mcp_config.json").write_text('{"//": "kept", "listen": "127.0.0.1:1", "mcpServers": {}}')
    return data_dir


def config_in(data_dir: Path) -> dict:
    return json.loads((data_dir / "mcp_config.json").read_text())


def test_upstream_list_shows_state_and_error(run, gateway) -> None:
    servers = [
        {"name": "time", "state": "connected", "transport": "stdio", "tool_count": 3, "error": None,
         "tools_by_class": {"read": 2, "write": 0, "destructive": 0, "unknown": 1}, "session_mode": "shared"},
        {"name": "gone", "state": "failed", "transport": "http", "tool_count": 0, "error": "connection\nrefused"},
    ]  # fmt: skip
    gateway.answer("GET", "/servers", {"servers": servers})
    assert run("upstream", "list").out.splitlines() == [
        "NAME  STATE      TRANSPORT  TOOLS  CLASSES  NO HINTS  SESSIONS  ERROR",
        "time  connected  stdio      3      2r       1         shared    -",
        "gone  failed     http       0      -        -         -         connection refused",
    ]


def test_upstream_add_sends_the_entry_as_it_would_stand_in_the_file(run, gateway) -> None:
    gateway.answer("POST", "/servers", {"server": {"name": "time"}}, status=201)
    ran = run("upstream", "add", "time", "--env", "A=b=c", "--lazy", "--timeout", "5", "--replace",
              "--", "uvx", "mcp-server-time", "--env", "x", "-o", "json")  # fmt: skip
    assert (ran.status, ran.out) == (0, "Added time.\n")
    assert gateway.seen[-1].body == {
        "name": "time",
        "config": {"command": "uvx", "args": ["mcp-server-time", "--env", "x", "-o", "json"], "env": {"A": "b=c"},
                   "lazy": True, "timeout": 5.0},
        "replace": True,
    }  # fmt: skip


def test_upstream_add_url_is_the_address_of_the_upstream_not_of_the_gateway(run, gateway) -> None:
    gateway.answer("POST", "/servers", {"server": {}}, status=201)
    ran = run("upstream", "add", "web", "--url", "https://example.com/mcp", "--header", "Authorization=Bearer ${env:T}",
              "--transport", "sse")  # fmt: skip
    assert ran.status == 0
    assert gateway.seen[-1].body["config"] == {
        "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${env:T}"}, "transport": "sse",
    }  # fmt: skip


@pytest.mark.proves("CLI-2")
@pytest.mark.parametrize(
    "arguments",
    [
        "add x",
        "add x --url http://h -- cmd",
        "add x --env hunter2 -- cmd",
        "add x --json []",
        "remove x",
        "logs x -n 0",
    ],
)
def test_wrong_usage_changes_nothing_and_exits_2(run, gateway, arguments) -> None:
    gateway.answer("GET", "/config", {"mcpServers": {"x": ENTRY}})
    ran = run("upstream", *arguments.split())
    assert (ran.status, "hunter2" in ran.err) == (2, False)
    assert all(seen.method == "GET" for seen in gateway.seen)


def test_upstream_remove_prints_the_line_that_would_undo_it(run, gateway) -> None:
    gateway.answer("GET", "/config", {"mcpServers": {"time": {**ENTRY, "env": {}, "confirm": "write"}}})
    gateway.answer("DELETE", "/servers/time", {"removed": "time"})
    ran = run("upstream", "remove", "time", "--yes")
    assert (ran.status, ran.out) == (0, "Removed time.\n")
    undo = shlex.split(ran.err.removeprefix("To undo: "))
    assert undo[:5] == ["mcpproxy", "upstream", "add", "time", "--json"]
    assert json.loads(undo[5]) == {"command": "uvx", "args": ["mcp-server-time", "--x"], "confirm": "write"}
    gateway.answer("POST", "/servers", {"server": {}}, status=201)
    assert run(*undo[1:]).status == 0
    assert gateway.seen[-1].body == {"name": "time", "config": json.loads(undo[5])}


def test_the_undo_line_says_where_secrets_have_to_be_filled_in(run, gateway) -> None:
    gateway.answer("GET", "/config", {"mcpServers": {"time": {**ENTRY, "env": {"TOKEN": "***"}}}})
    gateway.answer("DELETE", "/servers/time", {"removed": "time"})
    assert run("upstream", "remove", "time", "-y").err.endswith("(with its secrets in place of ***)\n")


@pytest.mark.parametrize(("verb", "said"), [("enable", "Enabled"), ("disable", "Disabled"), ("restart", "Restarted")])
def test_an_upstream_is_switched_by_its_verb(run, gateway, verb, said) -> None:
    gateway.answer("POST", f"/servers/time/{verb}", {"server": {"name": "time"}})
    assert run("upstream", verb, "time").out == f"{said} time.\n"
    assert run("upstream", verb, "time", "-o", "json").json == {"server": {"name": "time"}}


def test_an_unknown_upstream_is_a_failure(run, gateway) -> None:
    gateway.refuse("POST", "/servers/tme/enable", 404, "NOT_FOUND", "There is no server 'tme'; did you mean time?")
    ran = run("upstream", "enable", "tme")
    assert (ran.status, ran.err) == (
        1,
        "Error: There is no server 'tme'; did you mean time?\n  Check the name or id.\n",
    )


def test_logs_lose_their_colours(run, gateway) -> None:
    gateway.answer("GET", "/servers/time/logs", {"server": "time", "lines": ["\x1b[32mINFO\x1b[0m up", "two"]})
    assert run("upstream", "logs", "time", "-n", "2").out == "INFO up\ntwo\n"
    assert gateway.seen[-1].query == {"lines": "2"}


@pytest.mark.proves("CLI-2")
def test_following_a_log_prints_each_line_once_until_ctrl_c(command, gateway) -> None:
    first, second = [f"line {n}" for n in range(3)], [f"line {n}" for n in range(1, 5)]
    gateway.answer("GET", "/servers/time/logs", {"lines": first}, {"lines": second})
    process = command("upstream", "logs", "time", "--follow")
    lines = [process.stdout.readline().decode().strip() for _ in range(5)]
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert lines == [f"line {n}" for n in range(5)]
    assert (process.returncode, rest, errors) == (130, b"", b"")


def test_with_no_gateway_the_file_is_edited_and_it_says_so(run, no_gateway) -> None:
    ran = run("upstream", "add", "time", "--env", "TZ=UTC", "--", "uvx", "mcp-server-time")
    assert (ran.status, ran.out) == (0, "Added time.\n")
    assert str(no_gateway / "mcp_config.json") in ran.err
    entry = {"command": "uvx", "args": ["mcp-server-time"], "env": {"TZ": "UTC"}}
    assert config_in(no_gateway) == {"//": "kept", "listen": "127.0.0.1:1", "mcpServers": {"time": entry}}

    assert run("upstream", "disable", "time").out == "Disabled time.\n"
    assert config_in(no_gateway)["mcpServers"]["time"]["enabled"] is False
    assert run("upstream", "add", "time", "--", "other").status == 1
    assert run("upstream", "add", "time", "--replace", "--", "other").status == 0
    ran = run("upstream", "remove", "time", "--yes")
    assert ran.err.endswith("""To undo: mcpproxy upstream add time --json '{"command": "other"}'\n""")
    assert config_in(no_gateway)["mcpServers"] == {}
    assert run("upstream", "remove", "time", "--yes").status == 1


def test_with_no_gateway_an_entry_that_cannot_be_is_refused_and_the_file_stays(run, no_gateway) -> None:
    before = config_in(no_gateway)
    ran = run("upstream", "add", "catalog", "--", "x")
    assert ran.status == 2
    assert "catalog" in ran.err
    assert config_in(no_gateway) == before


@pytest.mark.proves("CLI-2")
def test_a_gateway_that_was_named_must_be_there(run, no_gateway) -> None:
    before = config_in(no_gateway)
    ran = run("upstream", "add", "time", "--listen", "127.0.0.1:1", "--", "x")
    assert (ran.status, ran.err.splitlines()[0]) == (
        4, "Error: No gateway at http://127.0.0.1:1; start one with `mcpproxy serve`",
    )  # fmt: skip
    assert config_in(no_gateway) == before
