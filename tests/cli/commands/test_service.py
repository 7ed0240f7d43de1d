"""`mcpproxy service`: units that systemd and launchd can read, without secrets, and over nobody else's (USE-6)."""

from __future__ import annotations

import json
import os
import plistlib
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.gateway import clean_environment, gateway

pytestmark = pytest.mark.proves("USE-6")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path


@pytest.fixture
def mcpproxy(home: Path) -> Run:
    """In a home of its own, where `systemctl` only writes down what it was told."""
    for name in ("systemctl", "launchctl"):
        tool = home / "bin" / name
        tool.write_text(f"""#!/bin/sh
cd {shlex.quote(str(home))}
echo "{name} $@" >> told
if [ -e no-bus ]; then echo "Failed to connect to bus" >&2; exit 1; fi
[ "$2" != is-active ] || echo active
""")
        tool.chmod(0o755)

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        base = {"HOME": str(home), "XDG_CONFIG_HOME": "", "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run(
            [sys.executable, "-m", "mcpproxy_py", *words], env=clean_environment(**{**base, **env}),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return run


def told(home: Path) -> list[str]:
    return (home / "told").read_text().splitlines() if (home / "told").exists() else []


ODD = 'a b%c$d"e\\f'


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize("folder", ["data", ODD])
def test_systemd_reads_the_unit_without_a_word(home: Path, mcpproxy: Run, folder: str) -> None:
    made = mcpproxy("service", "install", "--print", "--data-dir", str(home / folder), "--listen", "127.0.0.1:9000")
    unit = home / "mcpproxy.service"
    unit.write_text(made.stdout)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(home), "SYSTEMD_LOG_LEVEL": "warning"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "mcpproxy.service" not in done.stderr
    assert not (home / "told").exists() and not (home / ".config").exists()


def started_by(unit: str) -> list[str]:
    """The words that systemd would run, by its rules of quoting."""
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix("ExecStart="))]


def test_the_options_given_are_in_the_unit_as_absolute_paths(home: Path, mcpproxy: Run) -> None:
    (home / "mine.json").write_text("{}")
    made = mcpproxy("service", "install", "--print", "--data-dir", str(home / ODD), "--config",
                    str(home / "mine.json"), "--listen", "9000")  # fmt: skip
    words = started_by(made.stdout)
    assert words[:5] == [sys.executable, "-P", "-m", "mcpproxy_py", "serve"]
    assert words[5:] == ["--data-dir", str(home / ODD), "--config", str(home / "mine.json"), "--listen", "9000"]


def test_the_agent_is_a_property_list_with_the_same_command(home: Path, mcpproxy: Run) -> None:
    made = mcpproxy("service", "install", "--print", "--manager", "launchd", "--data-dir", str(home / ODD))
    agent = plistlib.loads(made.stdout.encode())
    assert agent["ProgramArguments"] == [
        sys.executable,
        "-P",
        "-m",
        "mcpproxy_py",
        "serve",
        "--data-dir",
        str(home / ODD),
    ]
    assert (agent["Label"], agent["RunAtLoad"], agent["KeepAlive"]) == (
        "mcpproxy.gateway",
        True,
        {"SuccessfulExit": False},
    )
    assert agent["StandardErrorPath"] == str(home / ODD / "gateway.log")


def test_the_command_in_the_unit_starts_a_gateway(home: Path, mcpproxy: Run) -> None:
    made = mcpproxy("service", "install", "--print", "--data-dir", str(home / "data"), "--listen", "127.0.0.1:0")
    words = started_by(made.stdout)
    with gateway(home / "data", program=words[1:4], python=words[0]) as running:
        shown = json.loads(mcpproxy("service", "status", "--data-dir", str(home / "data"), "-o", "json").stdout)
        assert shown["gateway"] == {"pid": running.process.pid, "url": running.url}
        refused = mcpproxy("service", "install", "--data-dir", str(home / "data"), "--yes")
        assert (refused.returncode, "mcpproxy stop" in refused.stderr) == (1, True)


def test_install_writes_and_starts_status_shows_and_uninstall_removes(home: Path, mcpproxy: Run) -> None:
    unit = home / ".config" / "systemd" / "user" / "mcpproxy.service"
    assert mcpproxy("service", "install").returncode == 2 and not unit.exists()
    done = mcpproxy("service", "install", "--yes")
    assert (done.returncode, "enable-linger" in done.stderr) == (0, True), done.stderr
    assert stat.S_IMODE(unit.stat().st_mode) == 0o600
    assert told(home) == ["systemctl --user daemon-reload", "systemctl --user enable --now mcpproxy.service"]
    shown = mcpproxy("service", "status", "-o", "json")
    assert (shown.returncode, json.loads(shown.stdout)["state"]) == (0, "active")
    assert mcpproxy("service", "uninstall").returncode == 2 and unit.exists()
    assert mcpproxy("service", "uninstall", "--yes").returncode == 0
    assert told(home)[-2:] == ["systemctl --user disable --now mcpproxy.service", "systemctl --user daemon-reload"]
    assert not unit.exists() and (home / ".mcpproxy").is_dir()
    assert mcpproxy("service", "status").returncode == 1
    assert mcpproxy("service", "uninstall", "--yes").returncode == 1


def test_where_systemd_cannot_be_reached_it_says_what_to_run(home: Path, mcpproxy: Run) -> None:
    (home / "no-bus").touch()
    done = mcpproxy("service", "install", "--yes")
    assert done.returncode == 1
    assert "Failed to connect to bus" in done.stderr
    assert "  systemctl --user enable --now mcpproxy.service" in done.stderr


def test_no_secret_of_the_shell_gets_into_the_unit_and_what_is_missing_there_is_said(home: Path, mcpproxy: Run) -> None:
    secret = "c0ffee-and-more-4711"
    (home / ".mcpproxy").mkdir(mode=0o700)
    (home / ".mcpproxy" / "mcp_config.json").write_text('{"mcp_token": "${env:OUR_TOKEN}"}')
    done = mcpproxy("service", "install", "--yes", OUR_TOKEN=secret, MCPPROXY_API_KEY=secret)
    assert done.returncode == 0, done.stderr
    assert "OUR_TOKEN" in done.stderr and "service.env" in done.stderr and "MCPPROXY_API_KEY" in done.stderr
    unit = home / ".config" / "systemd" / "user" / "mcpproxy.service"
    assert secret not in unit.read_text() + done.stdout + done.stderr
    broken = mcpproxy("service", "install", "--yes")
    assert broken.returncode == 2


def test_a_unit_that_somebody_else_wrote_is_left_alone(home: Path, mcpproxy: Run) -> None:
    unit = home / ".config" / "systemd" / "user" / "mcpproxy.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    for verb in ("install", "uninstall"):
        done = mcpproxy("service", verb, "--yes")
        assert (done.returncode, "was not written by" in done.stderr) == (1, True)
    assert unit.read_text() == "[Service]\nExecStart=/bin/true\n" and told(home) == []


@pytest.mark.parametrize("words", [("--name", "../x"), ("--listen", "https://x"), ("--data-dir", "/a\nExecStart=x")])
def test_what_no_unit_can_hold_is_refused(home: Path, mcpproxy: Run, words: tuple[str, str]) -> None:
    done = mcpproxy("service", "install", "--print", *words)
    assert (done.returncode, done.stdout) == (2, "")
