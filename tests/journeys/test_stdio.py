"""`mcpproxy stdio`: IDEs that launch a command share one gateway (SURF-5)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import clean_environment, gateway, python_server, until
from tests.support.wire import HANDSHAKE, MODERN
from tests.upstream.helpers import alive

pytestmark = pytest.mark.proves("SURF-5")


class Pipes:
    """An IDE that launched `mcpproxy stdio`."""

    def __init__(self, data_dir: Path, *args: str, cwd: Path | None = None, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mcpproxy_py", "stdio", "--data-dir", str(data_dir), *args],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
            env=clean_environment(**env),
        )  # fmt: skip
        self.next_id = 0

    def send(self, message: dict[str, Any] | bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read().decode() if self.process.stderr else ""
        return json.loads(line)

    def request(self, method: str, params: dict[str, Any] | None = None, era: str = MODERN) -> dict[str, Any]:
        self.next_id += 1
        params = {**(params or {})}
        if era == MODERN:
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "ide", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        while True:
            found = self.receive()
            if found.get("id") == self.next_id:
                return found["result"]

    def shake_hands(self) -> None:
        client = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "ide", "version": "1"}}
        assert self.request("initialize", client, HANDSHAKE)["serverInfo"]["name"] == "mcpproxy"
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def close(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        status = self.process.wait(60)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()
        return status


READ = {"name": "call_tool_read", "arguments": {"name": "s:hint_t_f", "intent": {"operation_type": "read"}}}


def test_two_ides_start_one_gateway_share_it_and_closing_one_hurts_nobody(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    started = tmp_path / "started"
    plain = python_server("plain.py", "--pid-file", str(started), connect_timeout=60)
    config = {"listen": "127.0.0.1:0", "mcpServers": {"s": plain}}
    (data / "mcp_config.json").write_text(json.dumps(config))
    first, second = Pipes(data), Pipes(data)
    try:
        second.shake_hands()
        assert len(first.request("tools/list")["tools"]) == 6
        for ide, era in ((first, MODERN), (second, HANDSHAKE)):
            assert not ide.request("tools/call", READ, era).get("isError")
        assert first.close() == 0
        assert not second.request("tools/call", READ, HANDSHAKE).get("isError")
        assert second.close() == 0
        where = json.loads((data / "gateway.json").read_text())
        assert Path(where["socket"]).stat().st_mode & 0o777 == 0o600
        assert alive(where["pid"]), "it stays for the next one"
        assert len(started.read_text().splitlines()) == 1, "the upstream was started once"
    finally:
        pid = json.loads((data / "gateway.json").read_text())["pid"]
        os.kill(pid, signal.SIGTERM)
        until(lambda: not alive(pid), what="the end")


def test_it_attaches_to_a_gateway_that_runs_and_leaves_it_running(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {"s": python_server("plain.py")}}) as running:
        ide = Pipes(tmp_path / "data")
        ide.send(b"this is not JSON")
        assert ide.receive()["error"]["code"] == -32700
        ide.shake_hands()
        assert not ide.request("tools/call", READ, HANDSHAKE).get("isError")
        assert ide.close() == 0
        row = running.activities(tool="hint_t_f")[0]
        assert (row["client"]["name"], row["principal"]) == ("ide", "local")
        assert row["session_id"]


def test_a_detached_gateway_ends_after_it_was_idle(tmp_path: Path) -> None:
    data = tmp_path / "data"
    process = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "serve", "--detached", "--idle-exit", "1", "--data-dir", str(data),
         "--listen", "127.0.0.1:0"],
        env=clean_environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "idle" in process.stderr


def test_a_surface_that_is_not_served_is_refused_with_a_reason(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {}}):
        ide = Pipes(tmp_path / "data", "--surface", "direct")
        assert ide.process.wait(60) == 1
        assert ide.process.stderr and "gate" in ide.process.stderr.read().decode()
        ide.close()
