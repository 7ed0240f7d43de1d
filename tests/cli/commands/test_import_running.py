"""`mcpproxy import` with a real gateway: what is taken connects, and what cannot start harms nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server

SECRET = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("import") / "data", {"mcpServers": {}}) as found:
        yield found


def mcpproxy(running: Running, home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {**clean_environment(), "HOME": str(home), "MCPPROXY_DATA_DIR": str(running.data_dir)}
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *args],
        env=environment, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def states(running: Running) -> dict[str, str]:
    return {server["name"]: server["state"] for server in running.get("/servers")["servers"]}


@pytest.mark.proves("USE-1")
def test_taken_servers_connect_the_client_lets_go_of_them_and_undo_gives_all_back(
    running: Running, tmp_path: Path
) -> None:
    entries: dict[str, Any] = {
        "Echo Server": {**python_server("plain.py"), "env": {"API_TOKEN": SECRET}},
        "needs a variable": {**python_server("plain.py"), "env": {"X": "${env:NOBODY_SET_THIS_ONE}"}},
        "nonsense": {"command": ["a", 5, {}]},
        "back": {"url": running.mcp},
    }
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    before = ("// mine\n" + json.dumps({"mcpServers": entries}, indent="\t") + "\r\n").encode()
    path.write_bytes(before)
    ran = mcpproxy(running, tmp_path, "import", "cursor", "--move", "--yes", "--secrets", "file", "-o", "json")
    assert ran.returncode == 0, ran.stderr
    assert SECRET not in ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    assert [row["action"] for row in answer["servers"]] == ["take", "take", "cannot", "skip"]
    assert answer["result"]["taken"] == ["echo-server", "needs-a-variable"]
    running.wait_for("echo-server")
    running.wait_for("needs-a-variable", state="failed")
    assert list(json.loads(path.read_text().removeprefix("// mine\n"))["mcpServers"]) == ["nonsense", "back"]
    assert SECRET not in (running.data_dir / "mcp_config.json").read_text()
    again = mcpproxy(running, tmp_path, "import", "cursor", "--yes")
    assert again.returncode == 0 and "There is nothing to take." in again.stderr
    undone = mcpproxy(running, tmp_path, "import", "--undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert path.read_bytes() == before
    assert {"echo-server", "needs-a-variable"}.isdisjoint(states(running))
    assert list((running.data_dir / "secrets").iterdir()) == []


def test_a_name_of_a_running_server_is_numbered_and_its_equal_is_skipped(running: Running, tmp_path: Path) -> None:
    entry = python_server("plain.py")
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"same": entry}}))
    assert mcpproxy(running, tmp_path, "import", str(path), "--yes").returncode == 0
    path.write_text(json.dumps({"mcpServers": {"same": {**entry, "args": [*entry["args"], "--more"]}, "twin": entry}}))
    ran = mcpproxy(running, tmp_path, "import", str(path), "--yes", "-o", "json")
    rows = [(row["name"], row["action"]) for row in json.loads(ran.stdout)["servers"]]
    assert rows == [("same-2", "take"), ("same", "skip")]
    for _ in range(2):
        assert mcpproxy(running, tmp_path, "import", "--undo", "--yes").returncode == 0
    assert {"same", "same-2"}.isdisjoint(states(running))
