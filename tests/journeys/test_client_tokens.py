"""`mcpproxy connect` gives each client a token of its own, and the record says which client it was (SEC-2, USE-3)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server

pytestmark = pytest.mark.proves("SEC-2")
BEFORE = '{\n  // mine\n  "mcpServers": {"other": {"command": "true"}}\n}\n'


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("clients") / "data"
    with gateway(data, {"mcpServers": {"sdk": python_server("sdk.py")}}) as found:
        found.wait_for("sdk")
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(BEFORE)
    return tmp_path


def mcpproxy(home: Path, running: Running, *words: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "mcpproxy_py", *words, "--data-dir", str(running.data_dir)]
    env = clean_environment(HOME=str(home))
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, cwd=home)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def entry(home: Path) -> dict[str, Any]:
    text = (home / ".cursor" / "mcp.json").read_text().replace("// mine", "")
    return json.loads(text)["mcpServers"]["mcpproxy"]


def talk(home: Path, client: dict[str, Any]) -> str:
    """What a client gets that starts this entry."""
    said_first = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "cursor", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": said_first}
    search = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
              "params": {"name": "retrieve_tools", "arguments": {"query": "add"}}}  # fmt: skip
    lines = "".join(json.dumps(each) + "\n" for each in (hello, search))
    with subprocess.Popen(
        [client["command"], *client["args"]], env=clean_environment(HOME=str(home)), cwd=home,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as started:  # fmt: skip
        assert started.stdin and started.stdout and started.stderr
        started.stdin.write(lines)
        started.stdin.flush()
        said = started.stdout.readline() + started.stdout.readline()
        started.stdin.close()
        return said + started.stderr.read()


def test_a_connected_client_is_itself_on_record_until_it_is_disconnected(home: Path, running: Running) -> None:
    said = mcpproxy(home, running, "connect", "cursor", "--yes")
    assert "The agent token cursor will be made for it" in said
    file = running.data_dir / "tokens" / "cursor.token"
    assert entry(home)["args"][-2:] == ["--token-file", str(file)]
    assert file.stat().st_mode & 0o777 == 0o600 and file.read_text().startswith("mcpp_")
    assert file.read_text().strip() not in (home / ".cursor" / "mcp.json").read_text() + said
    connected = entry(home)
    assert "serverInfo" in talk(home, connected)
    assert [row["tool"] for row in running.activities(principal="agent:cursor")] == ["retrieve_tools"]
    assert "already connected" in mcpproxy(home, running, "connect", "cursor", "--yes")
    assert "connected" in mcpproxy(home, running, "connect")

    mcpproxy(home, running, "disconnect", "cursor", "--yes")
    assert (home / ".cursor" / "mcp.json").read_text() == BEFORE
    assert not file.exists() and not file.parent.exists()
    assert running.get("/tokens/cursor")["state"] == "revoked"
    assert "cannot be read" in talk(home, connected)

    mcpproxy(home, running, "connect", "cursor", "--yes")
    assert running.get("/tokens/cursor")["principal"] == "agent:cursor/2"
    mcpproxy(home, running, "disconnect", "cursor", "--yes")


def test_without_a_token_it_is_the_user_as_before(home: Path, running: Running) -> None:
    mcpproxy(home, running, "connect", "cursor", "--yes", "--no-token")
    assert "--token-file" not in entry(home)["args"]
    assert not (running.data_dir / "tokens").exists()


def test_only_looking_makes_no_token(home: Path, running: Running) -> None:
    mcpproxy(home, running, "connect", "cursor", "--print", "--name", "looked")
    assert (home / ".cursor" / "mcp.json").read_text() == BEFORE
    assert "cursor.looked" not in json.dumps(running.get("/tokens"))


def test_a_token_of_that_name_that_a_person_made_is_left_alone(home: Path, running: Running) -> None:
    mcpproxy(home, running, "token", "create", "cursor.taken", "--operations", "read")
    said = mcpproxy(home, running, "connect", "cursor", "--yes", "--name", "taken", status=1)
    assert "There is a token 'cursor.taken' already" in said and "--no-token" in said
    assert (home / ".cursor" / "mcp.json").read_text() == BEFORE


def test_the_commands_make_show_rotate_and_revoke_one(home: Path, running: Running) -> None:
    file = home / "ci.token"
    said = mcpproxy(home, running, "token", "create", "ci", "--servers", "sdk", "--operations", "read", "--expires",
                    "30d", "--rate", "60/m", "--note", "nightly", "--out", str(file))  # fmt: skip
    secret = file.read_text().strip()
    assert secret.startswith("mcpp_") and secret not in said
    for words in (("list",), ("show", "ci"), ("list", "-o", "json"), ("show", "ci", "-o", "yaml")):
        said = mcpproxy(home, running, "token", *words)
        assert "ci" in said and "60/m" in said and secret not in said
    assert file.read_text().strip() == secret
    mcpproxy(home, running, "token", "create", "ci2", "--out", str(file), status=1)
    assert file.read_text().strip() == secret, "no file is written over"
    rotated = json.loads(mcpproxy(home, running, "token", "rotate", "ci", "--grace", "1h", "-o", "json"))
    assert rotated["token"].startswith("mcpp_") and rotated["principal"] == "agent:ci"
    assert "ci" in mcpproxy(home, running, "token", "revoke", "ci", "--yes")
    for words in (("show", "nobody"), ("revoke", "nobody", "--yes")):
        assert "There is no token 'nobody'" in mcpproxy(home, running, "token", *words, status=1)
    for words in (("create", "Bad"), ("create", "x", "--operations", "write", "--out", str(home / "x.token")),
                  ("create", "x", "--expires", "yesterday"),
                  ("create", "x", "--rate", "fast"), ("create", "x", "--profile", "none"),
                  ("rotate", "ci", "--grace", "1y")):  # fmt: skip
        said = mcpproxy(home, running, "token", *words, status=2)
        assert said.startswith("Error: "), said
    assert not (home / "x.token").exists(), "nothing is left of what was not made"
