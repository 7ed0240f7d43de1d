"""`stop`, `restart` and `logs` with real gateways (USE-6)."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcpproxy_py import __version__
from mcpproxy_py.cli.gateway.running import in_use, running
from mcpproxy_py.errors import GatewayError
from tests.support.gateway import Running, clean_environment, gateway, python_server, until

pytestmark = pytest.mark.proves("USE-6")


def mcpproxy(data_dir: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *words, "--data-dir", str(data_dir)],
        env=clean_environment(**env), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Running]:
    with gateway(tmp_path / "data", {"mcp_token": "${env:TOKEN_OF_THE_TEST}"},
                 env={"TOKEN_OF_THE_TEST": "b4b6f5e2a7c3d9018e"}) as started:  # fmt: skip
        yield started


def test_stop_waits_until_the_gateway_has_ended_and_once_more_has_nothing_to_do(site: Running) -> None:
    done = mcpproxy(site.data_dir, "stop")
    assert (done.returncode, done.stdout) == (0, "Stopped.\n")
    assert done.stderr == f"Stopping the gateway (pid {site.process.pid})\n"
    assert site.process.wait(10) == 0
    assert not in_use(site.data_dir)
    again = mcpproxy(site.data_dir, "stop", "-o", "json")
    assert (again.returncode, json.loads(again.stdout)) == (0, {"stopped": False, "pid": None})


def test_a_restart_is_in_place_with_the_same_environment_and_takes_what_waits_for_a_start(site: Running) -> None:
    """The token is only in the gateway's environment, not in that of the command."""
    path = site.data_dir / "mcp_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "shutdown_timeout": 7}))
    before = running(site.data_dir)
    assert before is not None
    done = mcpproxy(site.data_dir, "restart", "-o", "json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["restarted"], answer["pid"]) == (0, True, site.process.pid), done.stderr
    after = running(site.data_dir)
    assert after is not None and after.started > before.started
    told = json.loads(
        mcpproxy(site.data_dir, "config", "show", "-o", "json", TOKEN_OF_THE_TEST="x" * 9 + "abcdefghi").stdout
    )
    assert told["shutdown_timeout"] == 7
    assert mcpproxy(site.data_dir, "stop").returncode == 0
    assert site.process.wait(10) == 0


def test_with_a_configuration_that_cannot_be_used_the_gateway_goes_on_as_it_is(site: Running) -> None:
    (site.data_dir / "mcp_config.json").write_text('{"mcp_token": "${env:NOT_THERE}"}')
    done = mcpproxy(site.data_dir, "restart")
    assert (done.returncode, "NOT_THERE" in done.stderr, "goes on as it is" in done.stderr) == (2, True, True)
    assert site.process.poll() is None and site.get("/status")["pid"] == site.process.pid


def test_without_a_gateway_there_is_nothing_to_restart(tmp_path: Path) -> None:
    done = mcpproxy(tmp_path / "data", "restart")
    assert (done.returncode, "mcpproxy serve" in done.stderr) == (4, True)


@pytest.mark.parametrize("words", [("stop",), ("restart",), ("logs",)], ids=" ".join)
def test_a_gateway_that_was_named_by_its_address_is_not_this_machines_to_stop(tmp_path: Path, words: Any) -> None:
    done = mcpproxy(tmp_path / "data", *words, "--listen", "127.0.0.1:1")
    assert (done.returncode, "--data-dir" in done.stderr) == (2, True)


def bystander() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


@pytest.mark.parametrize("socket", ["none", "open to others", "of another process"])
def test_a_process_that_is_not_proved_to_be_the_gateway_is_sent_no_signal(site: Running, socket: str) -> None:
    announcement = site.data_dir / "gateway.json"
    said = json.loads(announcement.read_text())
    other = bystander()
    try:
        said["pid"] = other.pid
        if socket == "none":
            said["rest_socket"] = str(site.data_dir / "nothing.sock")
        elif socket == "open to others":
            site.data_dir.chmod(0o777)
        announcement.write_text(json.dumps(said))
        with pytest.raises(GatewayError, match="nothing was sent"):
            running(site.data_dir)
        done = mcpproxy(site.data_dir, "stop", "--timeout", "1")
        assert (done.returncode, other.poll(), site.process.poll()) == (1, None, None)
    finally:
        site.data_dir.chmod(0o700)
        other.communicate(b"\n", timeout=30)
        said["pid"] = site.process.pid
        announcement.write_text(json.dumps(said))


def test_an_announcement_that_a_killed_gateway_left_behind_stops_nobody(site: Running) -> None:
    said = (site.data_dir / "gateway.json").read_text()
    site.process.send_signal(signal.SIGKILL)
    site.process.wait(30)
    other = bystander()
    try:
        (site.data_dir / "gateway.json").write_text(json.dumps({**json.loads(said), "pid": other.pid}))
        done = mcpproxy(site.data_dir, "stop")
        assert (done.returncode, other.poll()) == (0, None), done.stderr
    finally:
        other.communicate(b"\n", timeout=30)


def test_every_gateway_keeps_a_private_log_that_outlives_it(site: Running) -> None:
    path = site.data_dir / "gateway.log"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert site.stop() == 0
    shown = mcpproxy(site.data_dir, "logs", "-o", "json")
    lines = json.loads(shown.stdout)["lines"]
    assert f"starts, pid {site.process.pid}" in lines[0] and any("draining" in line for line in lines)
    assert mcpproxy(site.data_dir, "logs", "-n", "1").stdout == f"{lines[-1]}\n"


def test_logs_of_a_directory_without_any_says_so(tmp_path: Path) -> None:
    done = mcpproxy(tmp_path, "logs")
    assert (done.returncode, done.stdout, "no log" in done.stderr) == (0, "", True)


def test_following_goes_on_where_the_file_was_replaced_and_lets_nothing_drive_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    path.write_text("first\n")
    out = tmp_path / "out"
    with out.open("wb") as sink:
        following = subprocess.Popen(
            [sys.executable, "-m", "mcpproxy_py", "logs", "-f", "--data-dir", str(tmp_path)],
            stdout=sink, env=clean_environment(PYTHONUNBUFFERED="1"),
        )  # fmt: skip
    try:
        until(lambda: out.read_text() == "first\n", what="the first line")
        with path.open("a") as file:
            file.write("sec\x1b[2Jond\n")
        until(lambda: out.read_text() == "first\nsecond\n", what="the second line")
        os.replace(path, tmp_path / "gateway.log.1")
        path.write_text("third\n")
        until(lambda: out.read_text() == "first\nsecond\nthird\n", what="the third line")
        following.send_signal(signal.SIGINT)
        assert following.wait(30) == 0
    finally:
        following.kill()
        following.wait()


def test_version_says_when_the_gateway_is_of_another_one(tmp_path: Path, site: Running) -> None:
    assert mcpproxy(tmp_path / "nothing", "version").stdout.startswith(f"mcpproxy {__version__} (Python ")
    announcement = site.data_dir / "gateway.json"
    assert mcpproxy(site.data_dir, "version").stderr == ""
    announcement.write_text(json.dumps({**json.loads(announcement.read_text()), "version": "0.0.1"}))
    assert "0.0.1" in mcpproxy(site.data_dir, "version").stderr


def test_a_call_in_flight_is_answered_before_the_gateway_ends(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {"s": python_server("plain.py")}}) as running_one:
        body = {"variant": "read", "name": "s:slow", "args": {"seconds": 3}, "intent": {"operation_type": "read"}}
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(running_one.post, "/call", body)
            until(lambda: httpx.get(f"{running_one.url}/api/v1/status", headers={"X-API-Key": running_one.key},
                                    trust_env=False).json()["in_flight"] == 1, what="the call in flight")  # fmt: skip
            done = mcpproxy(running_one.data_dir, "stop")
            assert done.returncode == 0, done.stderr
            assert (answer.result(60).status_code, running_one.process.wait(30)) == (200, 0)
