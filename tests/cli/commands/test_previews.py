"""What a change would do, said before it is made: by a running gateway, on the command line and over REST."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server, until

pytestmark = [pytest.mark.proves("API-1", "CONF-1")]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("previews")
    config = {
        "//": "kept",
        "mcpServers": {"plain": python_server("plain.py", "--log", str(path / "calls"))},
        "profiles": {"narrow": {"servers": ["plain"]}},
    }
    with gateway(path / "data", config) as found:
        yield found


def said(running: Running, *args: str, remote: bool = False) -> subprocess.CompletedProcess[str]:
    env = clean_environment(MCPPROXY_API_KEY=running.key)
    where = ["--listen", running.url] if remote else ["--data-dir", str(running.data_dir)]
    if remote:
        env["MCPPROXY_DATA_DIR"] = os.devnull + "-none"
    command = [sys.executable, "-m", "mcpproxy_py", *args, *where]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)


def text_of(running: Running) -> str:
    return (Path(running.data_dir) / "mcp_config.json").read_text()


def refused(running: Running, path: str, body: Any) -> dict[str, Any]:
    answer = running.post(path, body)
    assert answer.status_code >= 400, answer.text
    return answer.json()["error"]


def test_a_dry_run_of_a_setting_says_what_it_loosens_and_writes_nothing(running: Running) -> None:
    before = text_of(running)
    ran = said(running, "config", "set", "intent_declaration.strict_server_validation", "false", "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert "was not changed" in ran.stdout and "contradictions warn instead of refusing" in ran.stderr
    assert text_of(running) == before


def test_a_setting_is_changed_over_rest_with_its_comments_kept_and_on_record(running: Running) -> None:
    answer = running.post("/settings", {"settings": {"intent_declaration.unannotated": "write", "log.level": "debug"}})
    assert answer.status_code == 200, answer.text
    assert answer.json()["tighter"] == ["intent_declaration.unannotated went from allow to write"]
    assert (answer.json()["after_restart"], running.get("/settings")["awaits_restart"]) == (["log"], ["log"])
    assert running.get("/status")["unannotated"] == "write"
    assert json.loads(text_of(running))["//"] == "kept"
    rows = [each for each in running.activities(type="config_change") if each["tool"] == "change_settings"]
    assert rows[0]["principal"] == "admin"
    assert rows[0]["arguments"]["settings"]["intent_declaration.unannotated"] == "write"
    running.post("/settings", {"settings": {"intent_declaration.unannotated": None, "log.level": None}})
    found = {each["key"]: each for each in running.get("/settings")["settings"]}
    assert (found["intent_declaration.unannotated"]["value"], running.get("/settings")["awaits_restart"]) == (
        "allow",
        [],
    )
    assert "in force after" not in json.dumps(running.get("/health"))


def test_what_is_wrong_is_refused_in_the_words_of_the_file_and_changes_nothing(running: Running) -> None:
    before = text_of(running)
    wrong = refused(
        running, "/settings", {"settings": {"log.level": "loud", "intent_declaration.unannotated": "write"}}
    )
    assert wrong["code"] == "CONFIG_INVALID" and "'debug', 'info', 'warning' or 'error'" in wrong["message"]
    assert "did you mean 'log.level'" in refused(running, "/settings", {"settings": {"log.levle": "info"}})["message"]
    assert refused(running, "/preview/settings", {"settings": {"log.level": 5}})["code"] == "CONFIG_INVALID"
    assert text_of(running) == before


def test_a_gateway_elsewhere_is_changed_over_rest_by_the_same_commands(running: Running) -> None:
    ran = said(running, "config", "set", "capture_missing_capabilities", "false", remote=True)
    assert ran.returncode == 0, ran.stderr
    until(lambda: json.loads(text_of(running)).get("capture_missing_capabilities") is False)
    assert said(running, "config", "unset", "capture_missing_capabilities", remote=True).returncode == 0
    assert "capture_missing_capabilities" not in json.loads(text_of(running))
    shut = said(running, "config", "set", "listen", "0.0.0.0:8080", remote=True)
    assert (shut.returncode, "who can reach the gateway" in shut.stderr) == (1, True), shut.stderr
    found = said(running, "catalog", "servers", "github", "-o", "json", remote=True)
    assert "github" in [each["slug"] for each in json.loads(found.stdout)["servers"]]
    checked = said(running, "doctor", "-o", "json", remote=True)
    assert "disk" in [each["subject"] for each in json.loads(checked.stdout)["findings"]]


def test_a_server_that_would_be_added_or_removed_is_told_of_and_left_alone(running: Running) -> None:
    before = text_of(running)
    add = said(running, "upstream", "add", "web", "--url", "https://example.com/mcp?token=secret", "--dry-run")
    assert add.returncode == 0, add.stderr
    assert "It connects to example.com" in add.stdout and "secret" not in add.stdout
    remove = said(running, "upstream", "remove", "plain", "--dry-run")
    assert "can no longer be found or called" in remove.stdout and "1 profile names it: narrow." in remove.stdout
    twice = said(running, "upstream", "add", "plain", "--dry-run", "--json", '{"command": "true"}')
    assert (twice.returncode, "exists already" in twice.stderr) == (1, True)
    assert text_of(running) == before
    assert "web" not in {row["name"] for row in running.get("/servers")["servers"]}


@pytest.mark.proves("USE-9")
def test_a_class_says_what_it_would_have_done_to_past_calls(running: Running) -> None:
    for operation in ("read", "write", "destructive"):
        body = {"variant": operation, "name": "plain:write_note", "args": {"text": "x"}}
        running.post("/call", {**body, "intent": {"operation_type": operation}})
    running.catch_up()
    raised = said(running, "tools", "set", "plain:write_note", "destructive")
    assert "1 of the last 3 calls would have been refused." in raised.stdout, raised.stdout + raised.stderr
    body = {"server": "plain", "tools": {"write_note": "read", "gone": "write"}}
    lowered, gone = running.post("/preview/tools", body).json()["tools"]
    assert (lowered["before"], lowered["after"], lowered["lowers"]) == ("destructive", "read", True)
    assert lowered["calls"]["allowed"] == 1, "the read that was refused"
    assert "lists no such tool" in gone["says"]
    assert said(running, "tools", "set", "plain:write_note", "default", "--yes").returncode == 0
