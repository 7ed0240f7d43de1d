from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.support.terminal import on_terminal

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


def added_on_a_terminal(data_dir: Path, *answers: tuple[str, str]) -> tuple[int, str]:
    words = ["upstream", "add", "web", "--url", "https://example.com/mcp"]
    return on_terminal([sys.executable, "-m", "mcpproxy_py", *words],
                       {**os.environ, "MCPPROXY_DATA_DIR": str(data_dir)}, answers)  # fmt: skip


@pytest.mark.parametrize("refusal", ["NOT_FOUND", "INTERNAL", "hang up"])
def test_upstream_add_does_not_fail_because_nobody_can_tell_whether_a_login_is_needed(
    gateway, data_dir, clean_env, refusal
) -> None:
    gateway.answer("POST", "/servers", {"server": {}}, status=201)
    if refusal == "hang up":
        gateway.answer("GET", "/servers/web", refusal)
    else:
        gateway.refuse("GET", "/servers/web", 404 if refusal == "NOT_FOUND" else 500, refusal, "it cannot be told")
    status, shown = added_on_a_terminal(data_dir)
    assert (status, shown.strip()) == (0, "Added web.")
    assert gateway.seen[-1].path == "/api/v1/servers/web", "it was asked"


def test_upstream_add_offers_the_login_that_is_needed(gateway, data_dir, clean_env) -> None:
    gateway.answer("POST", "/servers", {"server": {}}, status=201)
    gateway.answer("GET", "/servers/web", {"server": {"name": "web", "state": "needs_login"}})
    status, shown = added_on_a_terminal(data_dir, ("Log in now?", "n\n"))
    assert (status, "web needs a login." in shown) == (1, True)
    assert not [seen for seen in gateway.seen if seen.path.endswith("/login")]


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


BROKEN: dict[str, str] = {
    "a key nobody knows": '{"mcpServers": {"ok": {"command": "x"}, "bad": {"command": "x", "comand": "y"}}}',
    "both ways": '{"mcpServers": {"ok": {"command": "x"}, "bad": {"command": "x", "url": "http://h"}}}',
    "neither way": '{"mcpServers": {"ok": {"command": "x"}, "bad": {}}}',
    "a secret that is missing": '{"mcpServers": {"ok": {"command": "x"}, "bad": {"url": "${env:NOT_SET_ANYWHERE}"}}}',
    "a kind of reference nobody knows": '{"mcpServers": {"ok": {"command": "x"}, "bad": {"command": "x", "env": '
    '{"A": "${vault:x}"}}}}',
    "a value that is none": '{"mcpServers": {"ok": {"command": "x"}, "bad": {"command": "x", "timeout": "soon"}}}',
    "twice the same key": '{"mcpServers": {"ok": {"command": "x"}, "bad": {"command": "x", "command": "y"}}}',
    "a list": '{"mcpServers": [{"name": "ok", "command": "x"}, {"name": "bad", "comand": "x"}]}',
}


@pytest.mark.proves("UP-12", "CONF-1")
@pytest.mark.parametrize("text", BROKEN.values(), ids=list(BROKEN))
@pytest.mark.parametrize(
    ("verb", "more", "left"),
    [
        ("remove", ("--yes",), None),
        ("disable", (), {"enabled": False}),
        ("edit", ("--json", '{"command": "mended"}'), {"command": "mended"}),
    ],
)
def test_with_no_gateway_what_is_wrong_in_an_entry_is_mended(run, no_gateway, text, verb, more, left) -> None:
    path = no_gateway / "mcp_config.json"
    path.write_text(text)
    ran = run("upstream", verb, "bad", *more)
    assert ran.status == 0, ran.err
    servers = config_in(no_gateway)["mcpServers"]
    named = servers if isinstance(servers, dict) else {entry.pop("name"): entry for entry in servers}
    assert named["ok"] == {"command": "x"}
    assert (named.get("bad") or {}).items() >= (left or {}).items() and ("bad" in named) == (left is not None)
    assert (no_gateway / "mcp_config.json.bak").read_text() == text
    still_wrong = verb == "disable" and not any(each in text for each in ("NOT_SET", '"command": "y"'))
    assert run("config", "validate").status == (2 if still_wrong else 0)


@pytest.mark.proves("UP-12")
def test_with_no_gateway_a_server_that_is_right_is_changed_beside_one_that_is_not(run, no_gateway) -> None:
    (no_gateway / "mcp_config.json").write_text(BROKEN["a key nobody knows"])
    ran = run("upstream", "disable", "ok")
    assert (ran.status, config_in(no_gateway)["mcpServers"]["ok"]["enabled"]) == (0, False)
    assert "Still wrong: " in ran.err and "mcpServers.bad.comand is not a known key" in ran.err
    assert run("upstream", "add", "new", "--", "y").status == 0
    worse = run("upstream", "edit", "ok", "--sessions", "nonsense")
    assert (worse.status, "mcpServers.ok.sessions" in worse.err) == (2, True)
    assert "sessions" not in config_in(no_gateway)["mcpServers"]["ok"]


@pytest.mark.proves("UP-12")
def test_with_no_gateway_also_what_is_wrong_elsewhere_keeps_nobody_from_mending(run, no_gateway) -> None:
    """A directory that a broken file would name is one that nobody can look for a gateway in."""
    text = '{"data_dir": 7, "listn": "x", "mcpServers": {"a": "no object", "My Server": {"command": "x"}}}'
    (no_gateway / "mcp_config.json").write_text(text)
    switched = run("upstream", "disable", "a")
    assert (switched.status, "mcpServers.a is no object" in switched.err) == (2, True)
    assert [run("upstream", "remove", name, "--yes").status for name in ("a", "My Server")] == [0, 0]
    assert config_in(no_gateway) == {"data_dir": 7, "listn": "x", "mcpServers": {}}


@pytest.mark.proves("UP-12", "CONF-1")
def test_a_file_that_is_no_json_is_left_alone_and_it_says_where_and_how_to_open_it(run, no_gateway) -> None:
    path = no_gateway / "mcp_config.json"
    run("upstream", "add", "a", "--", "x")
    path.write_text('{"mcpServers": {\n  "a": {"command": "x",}}}')
    for words in (("remove", "a", "--yes"), ("disable", "a"), ("edit", "a", "--timeout", "3"), ("add", "b", "--", "x")):
        ran = run("upstream", *words)
        assert (ran.status, ran.out) == (2, "")
        assert "not valid JSON at line 2, column 2" in ran.err
        assert "mcpproxy config edit" in ran.err and f"{path}.bak" in ran.err
    assert path.read_text() == '{"mcpServers": {\n  "a": {"command": "x",}}}'


@pytest.mark.proves("UP-12")
def test_a_key_that_stands_twice_elsewhere_is_not_chosen_for_the_person(run, no_gateway) -> None:
    path = no_gateway / "mcp_config.json"
    text = '{"mcpServers": {"a": {"command": "x", "deny_tools": [], "deny_tools": ["b"]}, "c": {"command": "y"}}}'
    path.write_text(text)
    ran = run("upstream", "disable", "c")
    assert (ran.status, "the key 'deny_tools' stands twice" in ran.err, path.read_text()) == (2, True, text)
    assert (run("upstream", "enable", "a").status, path.read_text()) == (2, text)
    assert run("upstream", "disable", "a").status == 0


@pytest.mark.proves("UP-12")
def test_with_no_gateway_a_secret_that_is_missing_here_keeps_a_new_server_out_and_no_old_one(run, no_gateway) -> None:
    words = ("upstream", "add", "s", "--env", "T=${env:NOT_SET_ANYWHERE}", "--", "x")
    before = config_in(no_gateway)
    assert (run(*words).status, config_in(no_gateway)) == (2, before)
    assert run(*words[:3], "--no-check", *words[3:]).status == 0
    assert run("upstream", "edit", "s", "--timeout", "9").status == 0
    entry = {"command": "x", "env": {"T": "${env:NOT_SET_ANYWHERE}"}, "timeout": 9.0}
    assert config_in(no_gateway)["mcpServers"]["s"] == entry
    shown = run("upstream", "show", "s")
    assert (shown.status, '"T": "${env:NOT_SET_ANYWHERE}"' in shown.out) == (0, True)
    assert run("upstream", "show", "nobody").status == 1


@pytest.mark.proves("CLI-2")
def test_a_gateway_that_was_named_must_be_there(run, no_gateway) -> None:
    before = config_in(no_gateway)
    ran = run("upstream", "add", "time", "--listen", "127.0.0.1:1", "--", "x")
    assert (ran.status, ran.err.splitlines()[0]) == (
        4, "Error: No gateway at http://127.0.0.1:1; start one with `mcpproxy serve`",
    )  # fmt: skip
    assert config_in(no_gateway) == before
