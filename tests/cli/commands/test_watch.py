"""`mcpproxy activity watch` and `verify`: what they print, and what they do when the gateway goes away (ACT-4)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.cli.commands.activity import _watched
from mcpproxy_py.cli.gateway.client import parsed
from tests.support.gateway import clean_environment, python_server
from tests.support.gateway import gateway as real_gateway
from tests.support.readable import readable
from tests.support.wire import Wire

pytestmark = pytest.mark.proves("ACT-4")


def test_events_are_parsed_however_they_are_cut_and_comments_are_left_out() -> None:
    stream = b'retry: 2000\n\n: still here\n\nid: 1:5\nevent: asked\ndata: {"a":\xc3\xa9}\n\n'
    stream += b"id: 1:6\ndata: x: y\n\nid: 1:7\n"
    whole = [{"retry": "2000"}, {"id": "1:5", "event": "asked", "data": '{"a":é}'}, {"id": "1:6", "data": "x: y"}]
    for size in (1, 2, 7, len(stream)):
        assert list(parsed(stream[at : at + size] for at in range(0, len(stream), size))) == whole


def test_verify_says_what_it_found_and_fails_where_something_is_wrong(run: Any, gateway: Any) -> None:
    chains = [{"name": "abc", "checked": True, "events": 4, "head": "4:ff"},
              {"name": "def", "checked": False, "reason": "sealed with another key"}]  # fmt: skip
    good = {"intact": True, "events": 4, "rows": 2, "wrong": 0, "chains": chains, "findings": []}
    gateway.answer("GET", "/activity/verify", good)
    ran = run("activity", "verify")
    assert ran.status == 0
    assert ran.out.splitlines() == [
        "chain abc: 4 events, at 4:ff", "chain def: sealed with another key", "4 events and 2 records: intact",
    ]  # fmt: skip
    finding = {"kind": "missing", "message": "event 3 is missing"}
    gateway.answer("GET", "/activity/verify", {**good, "intact": False, "wrong": 1, "findings": [finding]})
    ran = run("activity", "verify")
    assert ran.status == 1
    assert "missing: event 3 is missing\n" in ran.out
    assert "NOT what was written: 1 findings" in ran.out
    assert run("activity", "verify", "-o", "json").json["findings"] == [finding]


@pytest.mark.proves("ACT-3")
def test_watch_prints_what_happens_until_it_is_interrupted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    config = {"mcpServers": {"s": python_server("plain.py")}}
    with real_gateway(data, config) as running:
        port = running.url.rpartition(":")[2]
        command = [
            sys.executable,
            "-m",
            "mcpproxy_py",
            "activity",
            "watch",
            "--data-dir",
            str(data),
            "--status",
            "success",
        ]
        environment = clean_environment(MCPPROXY_LISTEN=f"127.0.0.1:{port}")
        pipe, options = subprocess.PIPE, ["--status", "success", "-o", "json"]
        watching = subprocess.Popen([*command, *options], stdout=pipe, stderr=pipe, text=True, env=environment)
        try:
            assert watching.stdout is not None
            _ask_until_seen(running.mcp, watching)
            watching.send_signal(signal.SIGINT)
            _, err = watching.communicate(timeout=60)
            assert (watching.returncode, "Traceback" in err) == (0, False), err
        finally:
            watching.kill()


def _ask_until_seen(url: str, watching: subprocess.Popen[str]) -> None:
    """It hears of what is asked once it listens, and says nothing before."""
    assert watching.stdout is not None
    wire, deadline = Wire(url), time.monotonic() + 60
    while time.monotonic() < deadline:
        wire.read("s:hint_t_f", {"marker": "seen"})
        if readable([watching.stdout], 0.2):
            record = json.loads(watching.stdout.readline())
            assert (record["status"], record["arguments"]) == ("success", {"marker": "seen"})
            return
    raise AssertionError("nothing was printed")


@pytest.mark.proves("USE-6")
def test_watch_goes_on_after_the_gateway_came_back_and_says_so(tmp_path: Path) -> None:
    """One line for each ask, when it ends; and again where the gateway is then, here on another port."""
    data, pipe = tmp_path / "data", subprocess.PIPE
    config = {"mcpServers": {"s": python_server("plain.py")}}
    command = [sys.executable, "-m", "mcpproxy_py", "activity", "watch", "--data-dir", str(data)]
    watching: subprocess.Popen[str] | None = None
    try:
        for marker in ("before", "after"):
            with real_gateway(data, config) as running:
                if watching is None:
                    watching = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=clean_environment())
                line = _line_about(running.mcp, watching, marker)
                assert line.split()[0] == "finished"
                assert line.split()[2:5] == ["success", "read", "s:echo"]
        assert watching is not None
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=60)
    finally:
        if watching is not None:
            watching.kill()
    assert err.splitlines()[:2] == ["The gateway is away; waiting for it", "The gateway is back; nothing was missed"]
    assert watching.returncode == 0


def _line_about(url: str, watching: subprocess.Popen[str], marker: str) -> str:
    """The next line with this reason."""
    assert watching.stdout is not None
    wire, deadline = Wire(url), time.monotonic() + 60
    while time.monotonic() < deadline:
        wire.read("s:echo", {"text": "x"}, intent={"operation_type": "read", "reason": marker})
        while readable([watching.stdout], 0.2):
            line = watching.stdout.readline()
            if marker in line:
                return line
            assert line, "it ended"
    raise AssertionError("nothing was printed")


@pytest.mark.proves("CAT-7")
def test_a_request_is_watched_by_what_it_is_about_and_not_as_a_call() -> None:
    request = {"approval_id": "apr_1", "status": "pending", "context": {"mcp_name": "notion"}, "rationale": "notes"}
    assert _watched("approval", request) == ["pending", "notion", "apr_1", "notes"]
    assert _watched("asked", {"server": "s", "tool": "t"})[3] == "s:t"
