"""Starting, stopping, and everything that can be wrong with either."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import clean_environment, gateway, python_server, until
from tests.support.wire import Wire


def failing(data_dir: Path, *args: str, config: Any = None, **env: str) -> subprocess.CompletedProcess[str]:
    """A gateway that should not start."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (data_dir / "mcp_config.json").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "serve", "--data-dir", str(data_dir), *args],
        env=clean_environment(**env), capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.proves("CONF-2", "CONF-3", "OPS-2", "API-1", "API-2", "FIND-2")
def test_with_nothing_configured_it_makes_a_private_data_directory_and_serves(tmp_path: Path) -> None:
    data = tmp_path / "deep" / "data"
    with gateway(data) as running:
        assert httpx.get(f"{running.url}/healthz", timeout=60, trust_env=False).json() == {"status": "ok"}
        assert httpx.get(f"{running.url}/readyz", timeout=60, trust_env=False).status_code == 200
        assert len(Wire(running.mcp).request("tools/list")["tools"]) == 6
        assert Wire(running.mcp).call("retrieve_tools", {"query": "anything"})["structuredContent"]["total"] == 0
        assert f"{running.url}/mcp" in running.stderr(), "it says where to connect"
        assert data.stat().st_mode & 0o777 == 0o700
        for path in data.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # one that was there for a moment only
                assert path.stat().st_mode & 0o077 == 0, path
        assert running.key not in running.stderr()


@pytest.mark.proves("API-2", "SEC-1")
def test_the_admin_key_opens_rest_and_never_the_gate_and_the_token_the_other_way_round(tmp_path: Path) -> None:
    token = "agent-token-0123456789abcdef"
    with gateway(tmp_path / "data", {"mcpServers": {}}, env={"MCPPROXY_MCP_TOKEN": token}) as running:
        assert Wire(running.mcp, token=token).request("tools/list")["cacheScope"] == "private"
        for wrong in (None, running.key, "nonsense"):
            assert Wire(running.mcp, token=wrong).post({}).status_code == 401
        with httpx.Client(base_url=running.url, timeout=60, trust_env=False) as anyone:
            assert anyone.get("/api/v1/status").status_code == 401
            assert anyone.get("/api/v1/status", headers={"Authorization": f"Bearer {token}"}).status_code == 401
            assert anyone.get("/api/v1/status", headers={"Authorization": f"Bearer {running.key}"}).status_code == 200
        assert token not in running.stderr()


@pytest.mark.proves("SEC-1")
def test_foreign_hosts_and_origins_are_refused_on_every_door(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {}}) as running, httpx.Client(timeout=60, trust_env=False) as client:
        for path in ("/mcp", "/api/v1/status", "/"):
            assert client.post(f"{running.url}{path}", headers={"host": "evil.example"}).status_code == 421
            assert client.post(f"{running.url}{path}", headers={"origin": "http://evil.example"}).status_code == 403
        assert client.get(f"{running.url}/healthz", headers={"host": "evil.example"}).status_code == 200


@pytest.mark.proves("SEC-1")
def test_a_public_address_without_a_token_is_refused_with_the_line_that_sets_one(tmp_path: Path) -> None:
    found = failing(tmp_path / "data", "--listen", "0.0.0.0:0")
    assert found.returncode == 2
    assert "export MCPPROXY_MCP_TOKEN=" in found.stderr


@pytest.mark.proves("CONF-1")
@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"intent_declaration": {"strict_server_validatoin": 1}}, ["validatoin", "strict_server_validation"]),
        ({"mcpServers": {"a": {"args": []}}}, ["mcpServers.a", "command"]),
        ({"mcpServers": [{"name": "a", "command": "x"}, {"name": "a", "command": "y"}]}, ["two servers are named 'a'"]),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', ["two servers are named 'a'"]),
        ({"mcpServers": {"catalog": {"command": "x"}}}, ["catalog", "built-in upstream"]),
        ("{", ["line 1"]),
        ({"limits": {"max_in_flight": "many"}}, ["limits.max_in_flight", "many"]),
    ],
)  # fmt: skip
def test_a_wrong_configuration_names_the_key_and_the_nearest_right_one(
    tmp_path: Path, config: Any, words: list[str]
) -> None:
    found = failing(tmp_path / "data", "--listen", "127.0.0.1:0", config=config)
    assert found.returncode == 2, found.stderr
    for word in words:
        assert word in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.proves("CONF-1")
def test_a_port_in_use_is_named_with_a_way_out(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        found = failing(tmp_path / "data", "--listen", address)
    assert found.returncode == 1
    assert address in found.stderr
    assert "--listen" in found.stderr


@pytest.mark.proves("OPS-2")
def test_a_database_from_a_newer_version_stops_the_start_and_changes_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with gateway(data, {"mcpServers": {}}):
        pass
    database = next(data.glob("*.db"))
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'from-the-future'")
    connection.close()
    found = failing(data, "--listen", "127.0.0.1:0")
    assert found.returncode == 1
    assert "from-the-future" in found.stderr
    assert "newer" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.proves("ACT-5", "OPS-2")
def test_a_second_gateway_on_one_data_directory_says_so_and_does_not_start(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {}}) as running:
        found = failing(tmp_path / "data", "--listen", "127.0.0.1:0")
        assert found.returncode == 1
        assert str(running.process.pid) in found.stderr
        assert running.get("/status")["pid"] == running.process.pid


@pytest.mark.skipif(os.geteuid() != 0 and not os.access("/proc", os.W_OK), reason="needs to make a read-only mount")
@pytest.mark.proves("OPS-2", "CONF-1")
def test_a_read_only_data_directory_is_named_with_the_fix(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(data)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mount is not to be had here: {mounted.stderr.decode().strip()}")
    try:
        found = subprocess.run(
            [sys.executable, "-m", "mcpproxy_py", "serve", "--data-dir", str(data), "--listen", "127.0.0.1:0"],
            env=clean_environment(), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    finally:
        subprocess.run(["umount", str(data)], check=True)
    assert found.returncode in (1, 2)
    assert str(data) in found.stderr
    assert "--data-dir" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.proves("OPS-1", "UP-3")
def test_sigterm_lets_calls_in_flight_finish_and_takes_no_new_ones(tmp_path: Path) -> None:
    config = {"mcpServers": {"s": python_server("plain.py")}, "shutdown_timeout": 60}
    enough = tmp_path / "enough"
    with gateway(tmp_path / "data", config) as running, ThreadPoolExecutor(1) as pool:
        slow = {"seconds": 50, "until": str(enough)}
        in_flight = pool.submit(Wire(running.mcp).via, "destructive", "s:slow", slow)
        until(lambda: running.get("/status")["in_flight"] == 1, what="the call in flight")
        late = Wire(running.mcp)
        late.request("tools/list")  # its connection is open before the drain begins
        running.process.send_signal(signal.SIGTERM)
        until(lambda: "draining" in running.stderr(), what="draining")
        refused = late.via("write", "s:echo", {})
        assert refused["structuredContent"]["code"] == "SERVER_UNAVAILABLE"
        enough.touch()
        assert not in_flight.result(60).get("isError"), "the call in flight got its answer"
        assert running.process.wait(60) == 0
    with gateway(tmp_path / "data") as again:
        assert {row["tool"]: row["status"] for row in again.activities()} == {"slow": "success", "echo": "blocked"}


@pytest.mark.proves("GATE-13")
def test_a_freeze_survives_a_restart(tmp_path: Path) -> None:
    config = {"mcpServers": {"s": python_server("plain.py")}}
    with gateway(tmp_path / "data", config) as running:
        assert running.post("/freeze").status_code == 200
    with gateway(tmp_path / "data", config) as again:
        assert again.get("/status")["frozen"] is True
        frozen = Wire(again.mcp).via("write", "s:echo", {})
        assert frozen["structuredContent"]["code"] == "FROZEN"
        assert again.post("/unfreeze").status_code == 200
        assert not Wire(again.mcp).via("write", "s:echo", {}).get("isError")


@pytest.mark.proves("ACT-5", "GATE-12", "OPS-1")
def test_when_the_record_cannot_be_written_reads_go_on_and_everything_else_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs", str(data)], capture_output=True
    ).returncode:
        pytest.skip("a small disk is not to be had here: mount needs root")
    try:
        seen = tmp_path / "calls.jsonl"
        config = {"mcpServers": {"s": python_server("plain.py", "--log", str(seen))}}
        with gateway(data, config) as running:
            wire = Wire(running.mcp)
            with (data / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
                while filler.write(b"x" * 4096):
                    pass
            lenient = {
                "name": "s:hint_f_t",
                "intent": {"operation_type": "destructive"},
                "args": {"fill": "y" * 60_000},
            }
            code = until(lambda: wire.call("call_tool_destructive", lenient).get("structuredContent", {}).get("code"))
            assert code == "STORE_UNAVAILABLE"
            before = seen.read_text() if seen.exists() else ""
            assert wire.call("call_tool_destructive", lenient)["structuredContent"]["code"] == "STORE_UNAVAILABLE"
            after = seen.read_text() if seen.exists() else ""
            assert after == before, "no upstream saw what could not be recorded"
            read = wire.read("s:hint_t_f", {"fill": "y" * 60_000})
            assert not read.get("isError"), "reads go on"
            assert running.get("/status")["unrecorded"] > 0, "and are counted"
            assert httpx.get(f"{running.url}/readyz", timeout=60, trust_env=False).status_code == 503
            (data / "filler").unlink()
            until(lambda: not wire.call("call_tool_destructive", lenient).get("isError"), what="recovery")
            assert httpx.get(f"{running.url}/readyz", timeout=60, trust_env=False).status_code == 200
    finally:
        subprocess.run(["umount", "-l", str(data)], check=True)
