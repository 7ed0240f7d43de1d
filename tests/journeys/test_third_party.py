"""Two real servers from PyPI behind the gate: search, read, a refused write, an allowed write, and who meant what."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, clean_environment, gateway
from tests.support.wire import HANDSHAKE, MODERN, Wire, text


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repo")
    for command in (["init", "-q"], ["config", "user.email", "t@example.com"], ["config", "user.name", "T"]):
        subprocess.run(["git", "-C", str(path), *command], check=True)
    (path / "a.txt").write_text("one\n")
    subprocess.run(["git", "-C", str(path), "add", "."], check=True)
    subprocess.run(["git", "-C", str(path), "commit", "-q", "-m", "first"], check=True)
    return path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Running]:
    config = {
        "mcpServers": {
            "time": {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]},
            "git": {"command": sys.executable, "args": ["-m", "mcp_server_git", "--repository", str(repository)]},
        }
    }
    with gateway(tmp_path_factory.mktemp("third") / "data", config) as running:
        yield running


def command(running: Running, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *args],
        env=clean_environment(MCPPROXY_DATA_DIR=str(running.data_dir)),
        capture_output=True, text=True, timeout=60, **options,
    )  # fmt: skip


@pytest.mark.proves("FIND-1", "FIND-4", "GATE-3", "ACT-1", "ACT-2", "ACT-3", "CLI-1", "ACT-4", "UP-1")
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_search_read_a_refused_write_an_allowed_write_and_the_query_that_finds_them(
    running: Running, repository: Path, era: str
) -> None:
    wire = Wire(running.mcp, era, name=f"journey-{era}")

    found = wire.call("retrieve_tools", {"query": "current time in a timezone", "limit": 3})["structuredContent"]
    assert found["tools"][0]["name"] == "time:get_current_time"
    found = wire.call("retrieve_tools", {"query": "commit staged changes", "limit": 5})["structuredContent"]
    commit = next(row for row in found["tools"] if row["name"] == "git:git_commit")

    now = wire.read("time:get_current_time", {"timezone": "UTC"})
    assert json.loads(text(now))["timezone"] == "UTC"
    status = wire.read("git:git_status", {"repo_path": str(repository)})
    assert "nothing to commit" in text(status)

    (repository / "a.txt").write_text(f"two {era}\n")
    args = {"repo_path": str(repository), "files": ["a.txt"]}
    refused = wire.read("git:git_add", args)
    assert refused["isError"] is True
    assert refused["structuredContent"]["code"] == "SERVER_MISMATCH"
    assert "git:git_add" in text(refused)
    staged = subprocess.run(["git", "-C", str(repository), "diff", "--cached"], capture_output=True, check=True)
    assert staged.stdout == b"", "a refused write never happened"

    assert not wire.via("write", "git:git_add", args).get("isError")
    message = {"repo_path": str(repository), "message": f"commit {era}"}
    written = wire.via(commit["call_with"].removeprefix("call_tool_"), "git:git_commit", message)
    assert not written.get("isError"), text(written)
    history = subprocess.run(
        ["git", "-C", str(repository), "log", "-1", "--format=%s"], capture_output=True, check=True
    )
    assert history.stdout.decode().strip() == f"commit {era}"

    mine = {"client": f"journey-{era}"}
    reads = running.activities(intent_type="read", type="tool_call", **mine)
    assert [(row["tool"], row["status"]) for row in reversed(reads)] == [
        ("get_current_time", "success"), ("git_status", "success"), ("git_add", "blocked")
    ]  # fmt: skip
    listed = command(running, "activity", "list", "--intent-type", "read", "--client", f"journey-{era}", "-o", "json")
    assert listed.returncode == 0, listed.stderr
    assert [row["id"] for row in json.loads(listed.stdout)["activities"] if row["type"] == "tool_call"] == [
        row["id"] for row in reads
    ]


@pytest.mark.proves("CLI-1", "CLI-2", "GATE-3", "ACT-1")
def test_the_command_line_calls_through_the_same_gate(running: Running, tmp_path: Path) -> None:
    called = command(running, "call", "tool-read", "--tool-name", "time:get_current_time",
                     "--json_args", '{"timezone":"UTC"}', "--reason", "from the shell")  # fmt: skip
    assert called.returncode == 0, called.stderr
    assert "UTC" in called.stdout
    row = running.activities(tool="get_current_time", limit=1)[0]
    assert row["source"] == "cli"
    assert row["metadata"]["intent"] == {"operation_type": "read", "reason": "from the shell", "source": "declared"}

    refused = command(running, "call", "tool-read", "--tool-name", "git:git_reset", "--json-args", "-",
                      input=json.dumps({"repo_path": "."}))  # fmt: skip
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "use `mcpproxy call tool-" in refused.stderr

    nobody = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "call", "tool-read", "--tool-name", "a:b"],
        env=clean_environment(MCPPROXY_DATA_DIR=str(tmp_path / "none"), MCPPROXY_LISTEN="127.0.0.1:9"),
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert nobody.returncode == 4, nobody.stdout + nobody.stderr
    assert "mcpproxy serve" in nobody.stderr


@pytest.mark.proves("GATE-9")
def test_explain_on_the_command_line_shows_every_rung(running: Running) -> None:
    explained = command(running, "explain", "git:git_add", "--variant", "read", "-o", "json")
    assert explained.returncode == 0, explained.stderr
    rungs = json.loads(explained.stdout)["rungs"]
    assert len(rungs) == 13
    assert [rung["rule"] for rung in rungs if rung["outcome"] == "failed"] == ["class"]


@pytest.mark.proves("GATE-13")
def test_a_freeze_takes_hold_at_once_from_the_command_line_and_is_lifted_again(
    running: Running, repository: Path
) -> None:
    wire = Wire(running.mcp)
    assert command(running, "freeze").returncode == 0
    try:
        frozen = wire.via("write", "git:git_add", {"repo_path": str(repository), "files": ["a.txt"]})
        assert frozen["structuredContent"]["code"] == "FROZEN"
        assert not wire.read("git:git_status", {"repo_path": str(repository)}).get("isError")
    finally:
        assert command(running, "unfreeze").returncode == 0
    assert not wire.via("write", "git:git_add", {"repo_path": str(repository), "files": ["a.txt"]}).get("isError")
    assert [row["tool"] for row in running.activities(type="config_change", limit=2)] == ["unfreeze", "freeze"]
