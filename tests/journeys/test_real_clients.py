"""Clients that others wrote connect, list and call: MCP Inspector's command line and both TypeScript SDKs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server
from tests.support.node import environment, node, packages, script
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = pytest.mark.proves("SURF-6")

PROJECT = Path(__file__).parent / "npm"
INTENT = {"operation_type": "read", "reason": "to see whether it works"}
ECHO = {"name": "sdk:echo", "args": {"text": "hallo"}, "intent": INTENT}
SNEAKED = {"name": "sdk:delete", "args": {"name": "x"}, "intent": INTENT}
CALLS = [{"name": "call_tool_read", "arguments": arguments} for arguments in (ECHO, SNEAKED)]
GATE_TOOLS = {"retrieve_tools", "call_tool_read", "call_tool_write", "call_tool_destructive", "read_result",
              "request_capability"}  # fmt: skip
TIMEOUT = 120


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(
        tmp_path_factory.mktemp("clients") / "data", {"mcpServers": {"sdk": python_server("sdk.py")}}
    ) as found:
        yield found


@pytest.fixture(params=["http", "stdio"])
def target(request: pytest.FixtureRequest, running: Running) -> list[str]:
    """How a client reaches the gate: an address, or the command an IDE would launch."""
    if request.param == "http":
        return [running.mcp]
    return [sys.executable, "-m", "mcpproxy_py", "stdio", "--data-dir", str(running.data_dir)]


def javascript(script: Path, *args: str, home: Path) -> str:
    """What a script says on stdout, run by Node 24 with a home directory of its own."""
    env = {**clean_environment(**environment()), "HOME": str(home)}
    found = subprocess.run(
        [node(), str(script), *args], env=env, capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL
    )
    assert found.returncode == 0, f"{found.stdout}\n{found.stderr}"
    return found.stdout


def inspect(target: list[str], home: Path, *args: str) -> dict[str, Any]:
    launcher = packages(PROJECT) / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
    catalog = ("--config", str(_catalog(target, home)), "--server", "gate")
    return json.loads(javascript(launcher, "--cli", *catalog, *args, home=home))


def _catalog(target: list[str], home: Path) -> Path:
    """The configuration of the Inspector, in the shape IDEs use."""
    entry = {"type": "http", "url": target[0]} if len(target) == 1 else {"command": target[0], "args": target[1:]}
    path = home / "inspector.json"
    path.write_text(json.dumps({"mcpServers": {"gate": entry}}))
    return path


def test_the_inspector_lists_the_gate_and_calls_through_it(target: list[str], tmp_path: Path) -> None:
    listed = inspect(target, tmp_path, "--method", "tools/list")
    assert {tool["name"] for tool in listed["tools"]} == GATE_TOOLS
    call = ("--method", "tools/call", "--tool-name", "call_tool_read", "--tool-args-json", json.dumps(ECHO))
    result = inspect(target, tmp_path, *call)
    assert result["content"][0]["text"] == "hallo"


@pytest.mark.parametrize(
    ("sdk", "era", "revision"),
    [("v1", "legacy", HANDSHAKE), ("v2", "legacy", HANDSHAKE), ("v2", MODERN, MODERN), ("v2", "auto", MODERN)],
)
def test_the_typescript_sdk_lists_the_gate_and_calls_through_it(
    running: Running, target: list[str], tmp_path: Path, sdk: str, era: str, revision: str
) -> None:
    found = json.loads(javascript(script(PROJECT, "connect.mjs"), sdk, era, json.dumps(CALLS), *target, home=tmp_path))
    assert set(found["tools"]) == GATE_TOOLS
    assert found["server"]["name"] == "mcpproxy"
    assert found.get("revision", revision) == revision
    allowed, refused = found["results"]
    assert allowed["content"][0]["text"] == "hallo"
    assert refused["isError"] and refused["structuredContent"]["code"] == "SERVER_MISMATCH"
    row = running.activities(client=f"typescript-{sdk}", tool="echo")[0]
    assert row["metadata"]["intent"]["reason"] == INTENT["reason"]
