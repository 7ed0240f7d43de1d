from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def config(data_dir: Path) -> Path:
    path = data_dir / "mcp_config.json"
    path.write_text('{"listen": "127.0.0.1:9", "mcpServers": {"t": {"command": "uvx", "env": {"TOKEN": "hunter2"}}}}')
    return path


@pytest.mark.proves("CONF-1")
def test_config_show_says_what_applies_and_where_it_came_from(run, config) -> None:
    ran = run("config", "show", env={"MCPPROXY_SHUTDOWN_TIMEOUT": "3"})
    rows = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines()}
    assert rows["listen"] == ["127.0.0.1:9", "file"]
    assert rows["shutdown_timeout"] == ["3", "env"]
    assert rows["require_mcp_auth"] == ["no", "default"]
    assert rows["mcpServers.t.env.TOKEN"][0] == "***"
    assert "hunter2" not in run("config", "show", "-o", "json").out + ran.out + run("config", "show", "-o", "yaml").out


@pytest.mark.proves("CONF-1")
def test_an_unknown_variable_is_a_warning_and_no_failure(run, config) -> None:
    ran = run("config", "show", env={"MCPPROXY_LISTN": "x"})
    assert ran.status == 0
    assert "MCPPROXY_LISTN" in ran.err


@pytest.mark.proves("CONF-1", "CLI-2")
def test_config_validate_names_everything_that_is_wrong(run, config) -> None:
    assert run("config", "validate").out == f"{config} is valid.\n"
    config.write_text('{"listn": "x", "log": {"level": "loud"}}')
    ran = run("config", "validate")
    assert ran.status == 2
    assert "listn" in ran.err and "did you mean `listen`" in ran.err
    assert "log.level" in ran.err
    answer = run("config", "validate", "-o", "json").json
    assert (answer["valid"], len(answer["problems"])) == (False, 2)


@pytest.mark.proves("CONF-1")
def test_config_validate_checks_another_file_too(run, config, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{")
    assert run("config", "validate", str(other)).status == 2
    assert run("config", "validate", str(tmp_path / "missing.json")).status == 1
    config.unlink()
    ran = run("config", "validate")
    assert (ran.status, "the defaults apply" in ran.err) == (0, True)
    assert ran.out == "Nothing is wrong.\n", "a file that is not there is not valid"


@pytest.mark.proves("CONF-1")
def test_config_schema_is_a_json_schema(run) -> None:
    schema = run("config", "schema").json
    assert "listen" in schema["properties"]


@pytest.mark.proves("CONF-3")
def test_the_configuration_file_is_in_the_data_directory_unless_named(run, data_dir, tmp_path: Path) -> None:
    named = tmp_path / "c.json"
    assert run("config", "path").out == f"{data_dir / 'mcp_config.json'}\n"
    assert run("config", "path", "--data-dir", str(tmp_path)).out == f"{tmp_path / 'mcp_config.json'}\n"
    assert run("config", "path", env={"MCPPROXY_CONFIG": str(named)}).out == f"{named}\n"
    assert run("config", "path", "--config", str(named), "-o", "json").json == {"path": str(named), "exists": False}


@pytest.mark.proves("API-2")
def test_key_show_prints_the_key_and_makes_one_where_there_is_none(run, gateway, tmp_path: Path) -> None:
    assert run("key", "show").out == gateway.key + "\n"
    fresh = tmp_path / "fresh"
    made = run("key", "show", "--data-dir", str(fresh)).out.strip()
    assert made == (fresh / "admin.key").read_text().strip()
    assert run("key", "show", "--data-dir", str(fresh)).out.strip() == made
    assert run("key", "show", env={"MCPPROXY_API_KEY": "mine-and-of-nobody-else"}).out == "mine-and-of-nobody-else\n"


@pytest.mark.proves("API-2")
def test_a_running_gateway_rotates_its_own_key(run, gateway, data_dir) -> None:
    gateway.answer("POST", "/key/rotate", {"key": "mcpk_new"})
    assert run("key", "rotate", "--yes").out == "mcpk_new\n"
    assert (data_dir / "admin.key").read_text().strip() == gateway.key


@pytest.mark.proves("API-2")
def test_without_a_gateway_the_key_is_rotated_in_the_data_directory(run, gateway, data_dir) -> None:
    (data_dir / "gateway.json").unlink()
    (data_dir / "mcp_config.json").write_text('{"listen": "127.0.0.1:1"}')
    fresh = run("key", "rotate", "--yes").out.strip()
    assert fresh == (data_dir / "admin.key").read_text().strip() != gateway.key
    ran = run("key", "rotate", "--yes", env={"MCPPROXY_API_KEY": "mine-and-of-nobody-else"})
    assert (ran.status, "api_key" in ran.err) == (1, True)


@pytest.mark.proves("GATE-13")
@pytest.mark.parametrize(("verb", "frozen"), [("freeze", True), ("unfreeze", False)])
def test_freezing_is_one_word(run, gateway, verb, frozen) -> None:
    gateway.answer("POST", f"/{verb}", {"frozen": frozen})
    ran = run(verb)
    assert (ran.status, gateway.seen[-1].path) == (0, f"/api/v1/{verb}")
    assert run(verb, "-o", "json").json == {"frozen": frozen}


def test_status_prints_every_value_by_its_dotted_name(run, gateway) -> None:
    gateway.answer("GET", "/status", {"version": "1", "frozen": False, "store": {"writable": True}})
    assert run("status").out == "version         1\nfrozen          no\nstore.writable  yes\n"
    assert run("-o", "json", "status").json == json.loads(
        '{"version": "1", "frozen": false, "store": {"writable": true}}'
    )


def test_what_cannot_be_undone_is_asked_first_and_without_a_terminal_needs_a_yes(run, gateway) -> None:
    gateway.answer("POST", "/key/rotate", {"key": "mcpk_new"})
    gateway.answer("DELETE", "/activity/01ABC/payload", {"id": "01ABC"})
    for words in (("key", "rotate"), ("activity", "erase", "01ABC")):
        assert (run(*words).status, gateway.seen) == (2, [])
    for words in (("key", "rotate", "--yes"), ("activity", "erase", "01ABC", "-y")):
        assert run(*words).status == 0
    assert [seen.method for seen in gateway.seen] == ["POST", "DELETE"]
