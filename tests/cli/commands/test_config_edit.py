"""`mcpproxy config get`, `set`, `unset` and `edit` (USE-6, CONF-3)."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import clean_environment, gateway, until

pytestmark = pytest.mark.proves("USE-6")

TEXT = """{
  "// why": "kept",
  "log": {
    "level": "info"
  },
  "mcpServers": {
    "git": {
      "// of": "git",
      "command": "uvx"
    }
  }
}
"""


@pytest.fixture
def file(data_dir: Path) -> Path:
    (data_dir / "gateway.json").unlink()
    path = data_dir / "mcp_config.json"
    path.write_text(TEXT)
    return path


def test_get_prints_the_value_that_applies_and_where_it_is_from(run, file) -> None:
    assert run("config", "get", "log.level").out == "info\n"
    assert run("config", "get", "limits.max_sessions").out == "10000\n"
    assert json.loads(run("config", "get", "mcpServers.git").out)["command"] == "uvx"
    found = run("config", "get", "log.level", "-o", "json", env={"MCPPROXY_LOG__LEVEL": "debug"}).json
    assert found == {"key": "log.level", "value": "debug", "from": "env"}


def test_get_shows_no_secret(run, file) -> None:
    file.write_text(
        '{"mcp_token": "c0ffee-and-more-4711", "mcpServers": {"s": {"command": "x", "env": {"K": "hunter2"}}}}'
    )
    for key in ("mcp_token", "mcpServers.s.env", "mcpServers.s", "mcpServers.s.env.K"):
        ran = run("config", "get", key)
        assert ran.status == 0 and "***" in ran.out
        assert "4711" not in ran.out and "hunter2" not in ran.out


@pytest.mark.parametrize("command", [("get", "log.levl"), ("set", "log.levl", "debug")], ids=" ".join)
def test_a_key_that_is_none_leads_to_the_nearest(run, file, command) -> None:
    ran = run("config", *command)
    assert (ran.status, "did you mean `level`?" in ran.err) == (1, True)
    assert file.read_text() == TEXT


@pytest.mark.parametrize(
    ("key", "value", "written"),
    [
        ("log.level", "debug", {"log": {"level": "debug"}}),
        ("shutdown_timeout", "7.5", {"shutdown_timeout": 7.5}),
        ("require_mcp_auth", "yes", {"require_mcp_auth": True}),
        ("surfaces", "gate,direct", {"surfaces": ["gate", "direct"]}),
        ("surfaces", '["gate"]', {"surfaces": ["gate"]}),
        ("mcpServers.git.timeout", "20", {"mcpServers": {"git": {"command": "uvx", "timeout": 20}}}),
        ('mcpServers.git.tools."a.b"', "read", {"mcpServers": {"git": {"command": "uvx", "tools": {"a.b": "read"}}}}),
    ],
)
def test_set_takes_text_or_json_as_the_key_wants_it_and_keeps_all_else(run, file, key, value, written) -> None:
    ran = run("config", "set", key, value)
    assert ran.status == 0, ran.err
    found = json.loads(file.read_text())
    assert list(found)[:3] == ["// why", "log", "mcpServers"]
    assert found["mcpServers"]["git"].pop("// of") == "git"
    assert {name: found[name] for name in written} == written
    assert (file.with_name("mcp_config.json.bak")).read_text() == TEXT
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("key", "value"),
    [("log.level", "dbug"), ("shutdown_timeout", "soon"), ("mcpServers.new.timeout", "3"), ("log.level.x", "1"),
     ("mcpServers.git.command", ""), ("a..b", "1"), ("", "1"), ('"a', "1")],
)  # fmt: skip
def test_what_could_not_be_used_is_not_written(run, file, key, value) -> None:
    ran = run("config", "set", key, value)
    assert ran.status in (1, 2) and ran.err
    assert file.read_text() == TEXT
    assert {path.name for path in file.parent.iterdir()} == {"admin.key", "mcp_config.json"}


def test_set_says_what_it_loosens_and_what_waits_for_a_restart(run, file) -> None:
    assert "Looser: surface direct was opened" in run("config", "set", "surfaces", "gate,direct").err
    assert "Tighter: surface direct was closed" in run("config", "unset", "surfaces").err
    ran = run("config", "set", "listen", "9000", "-o", "json")
    assert ran.json["after_restart"] == ["listen"]
    assert "stronger than the file" in run("config", "set", "listen", "1", env={"MCPPROXY_LISTEN": "2"}).err


def test_a_mistake_is_mended_by_setting_it_right(run, file) -> None:
    file.write_text('{"log": {"level": "dbug"}}')
    assert run("config", "set", "log.level", "debug").status == 0
    assert json.loads(file.read_text()) == {"log": {"level": "debug"}}


def test_a_secret_is_read_from_stdin_and_never_printed(run, file) -> None:
    ran = run("config", "set", "mcp_token", "-", stdin="c0ffee-and-more-4711\n")
    assert (ran.status, json.loads(file.read_text())["mcp_token"]) == (0, "c0ffee-and-more-4711")
    short = run("config", "set", "mcp_token", "-", stdin="hunter2\n")
    assert short.status == 2
    assert "4711" not in ran.out + ran.err and "hunter2" not in short.err


def test_unset_of_a_key_that_is_not_there_is_said(run, file) -> None:
    assert run("config", "unset", "surfaces").status == 1
    assert run("config", "unset", "mcpServers.git.command").status == 2
    assert file.read_text() == TEXT
    assert run("config", "unset", "mcpServers.git").status == 0
    assert "git" not in json.loads(file.read_text())["mcpServers"]


def editor(tmp_path: Path, script: str) -> str:
    path = tmp_path / "editor.py"
    path.write_text(f"import sys\nfrom pathlib import Path\nfile = Path(sys.argv[1])\n{script}\n")
    return f"{sys.executable} {path}"


REPLACE = 'file.write_text(file.read_text().replace("info", "{}"))'


def test_edit_writes_what_was_typed_as_it_was_typed(run, file, tmp_path) -> None:
    assert run("config", "edit", env={"EDITOR": editor(tmp_path, REPLACE.format("debug")), "VISUAL": ""}).status == 0
    assert file.read_text() == TEXT.replace("info", "debug")
    ran = run("config", "edit", env={"VISUAL": "true", "EDITOR": "false"})
    assert (ran.status, "Nothing was changed" in ran.err) == (0, True)


@pytest.mark.parametrize(
    "script",
    [REPLACE.format("dbug"), 'file.write_text("{ not JSON")', f"{REPLACE.format('debug')}; sys.exit(3)"],
    ids=["mistake", "no JSON", "the editor failed"],
)
def test_what_was_typed_and_not_written_is_kept(run, file, tmp_path, script) -> None:
    ran = run("config", "edit", env={"VISUAL": editor(tmp_path, script)})
    assert ran.status == 2
    assert file.read_text() == TEXT
    kept = file.with_name("mcp_config.json.edited")
    assert str(kept) in ran.err and kept.read_text() != TEXT
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_file_that_somebody_else_changed_meanwhile_is_left_alone(run, file, tmp_path) -> None:
    script = f'{REPLACE.format("debug")}; Path({str(file)!r}).write_text("{{}}")'
    ran = run("config", "edit", env={"VISUAL": editor(tmp_path, script)})
    assert (ran.status, "somebody else" in ran.err) == (1, True)
    assert file.read_text() == "{}"
    assert file.with_name("mcp_config.json.edited").read_text() == TEXT.replace("info", "debug")


def test_a_mistake_can_be_edited_again_on_a_terminal(file, tmp_path) -> None:
    """The editor makes a mistake first, and the second time mends it."""
    words = editor(
        tmp_path, 'text = file.read_text(); file.write_text(text.replace("dbug", "debug").replace("info", "dbug"))'
    )
    ours, theirs = pty.openpty()
    os.write(ours, b"y\n")
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "config", "edit", "--data-dir", str(file.parent)], stdin=theirs,
        env=clean_environment(VISUAL=words), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert file.read_text() == TEXT.replace("info", "debug")


def test_a_running_gateway_takes_the_change_up(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"surfaces": ["gate"]}) as running:
        command: Any = [sys.executable, "-m", "mcpproxy_py", "config", "set", "surfaces", "gate,direct"]
        done = subprocess.run([*command, "--data-dir", str(running.data_dir)], env=clean_environment(), timeout=60)
        assert done.returncode == 0
        until(lambda: running.get("/status")["surfaces"] == ["gate", "direct"], what="the direct surface")
