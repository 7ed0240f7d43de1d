"""A gateway that a desktop started, in whatever folder, with the PATH it has there (UP-12), and SIGHUP."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway import SERVERS, clean_environment, gateway, python_server, until
from tests.support.wire import Wire, text

BASH = shutil.which("bash") or "/bin/bash"


@pytest.mark.proves("UP-12")
def test_a_gateway_with_a_desktops_path_finds_what_the_login_shell_finds_and_servers_run_in_one_place(
    tmp_path: Path,
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    tools, node = home / "tools", home / ".nvm/versions/node/v22.3.0/bin"
    for place in (tools, node, project / "node_modules" / ".bin"):
        place.mkdir(parents=True)
    helper = tools / "python-of-tests"
    helper.symlink_to(sys.executable)
    script = node / "npx-of-tests"  # needs its neighbour, as npx needs node
    script.write_text(f"#!/bin/sh\nexec python-of-tests {SERVERS / 'plain.py'}\n")
    script.chmod(0o755)
    (home / ".bash_profile").write_text(f"echo hello; export PATH={tools}:$PATH\n")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "SHELL": BASH}
    config = {
        "mcpServers": {
            "found": {"command": "npx-of-tests"},
            "lost": {"command": "uvx-of-tests", "lazy": True},
            "dotted": {"command": sys.executable, "args": ["./server.py"], "lazy": True},
        }
    }
    with gateway(tmp_path / "data", config, env=env, cwd=project) as running:
        wire = Wire(running.mcp)
        told = json.loads(text(wire.read("found:environment")))
        assert told["PATH"].startswith("/usr/bin:/bin:")
        assert {str(tools), str(node)} <= set(told["PATH"].split(":"))
        assert told["PWD"] == str(tmp_path / "data" / "work")
        wire.read("lost:anything")
        wire.read("dotted:anything")
        running.wait_for("lost", "dotted", state="failed")
        errors = {row["name"]: row["error"] for row in running.get("/servers")["servers"]}
        assert "command not found: uvx-of-tests" in errors["lost"]
        assert "login shell (bash)" in errors["lost"]
        assert "./server.py is a relative path, and servers run in" in errors["dotted"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells another process's umask")
def test_servers_have_the_umask_that_the_gateway_was_started_with(tmp_path: Path) -> None:
    """Chromium ends at once where it cannot use the directories that it makes."""
    pids = tmp_path / "pids"
    entry = python_server("plain.py", "--pid-file", str(pids))
    with gateway(tmp_path / "data", {"mcpServers": {f"s{n}": entry for n in range(4)}}):
        masks = [
            re.findall(r"^Umask:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
            for pid in ("self", *pids.read_text().split())
        ]
    assert len(masks) == 5
    assert all(mask == masks[0] for mask in masks)


@pytest.mark.proves("UP-8")
def test_a_hangup_has_the_configuration_read_again_and_the_log_says_how_that_went(tmp_path: Path) -> None:
    entry = python_server("plain.py")
    with gateway(tmp_path / "data", {"mcpServers": {"s": entry}}) as running:
        file = tmp_path / "data" / "mcp_config.json"
        file.write_text(json.dumps({"mcpServers": {"s": entry, "t": entry}}))
        running.process.send_signal(signal.SIGHUP)
        running.wait_for("t")
        until(lambda: "SIGHUP: the configuration in force is what the file says" in running.stderr(), what="the log")
        file.write_text("{")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: "the configuration is not changed" in running.stderr(), what="the log")
        assert len(running.get("/servers")["servers"]) >= 2


def test_a_gateway_whose_terminal_is_closed_ends(tmp_path: Path) -> None:
    """The same signal, and nobody is left to stop it."""
    ours, its = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "mcpproxy_py",
        "serve",
        "--data-dir",
        str(tmp_path / "data"),
        "--listen",
        "127.0.0.1:0",
    ]
    take = "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    begin = f"{take}; os.execv(sys.argv[1], sys.argv[1:])"
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", begin, *command], stdin=its, stdout=stderr, stderr=stderr, env=clean_environment()
        )
    os.close(its)
    try:
        until(lambda: (tmp_path / "data" / "gateway.json").exists(), what="the gateway")
        os.close(ours)
        assert process.wait(60) == 0
        assert "SIGHUP, draining" in log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(60)
