"""Real clients from npm see the gateway after `mcpproxy connect`, and their files are byte for byte as before after
`mcpproxy disconnect`: Claude Code, Codex, Gemini CLI and OpenCode at pinned versions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server
from tests.support.node import environment, lacking, node, packages

pytestmark = pytest.mark.proves("USE-1")

PROJECT = Path(__file__).parent / "npm_clients"
TIMEOUT = 180
TOKEN = "agent-token-0123456789abcdef"
"""Asked for over HTTP; the clients find it in their environment."""
FOREIGN = {"command": "/nonexistent/other-server", "args": ["--root", "/srv"]}

CLAUDE = json.dumps({"mcpServers": {"other": {"type": "stdio", **FOREIGN}}, "odd key": [1, {"a": None}]}, indent=4)
CLAUDE_SETTINGS = '{"permissions": {"allow": ["Bash(ls:*)"], "deny": []},\t"model": "opus"}'
GEMINI = (
    '{\r\n\t// servers of mine\r\n\t"mcpServers": {\r\n\t\t"other": { "command": "/nonexistent/other-server" } '
    '// keep\r\n\t},\r\n\t"security": {"auth": {"selectedType": "none"}}, /* odd */ "ui": {"hideTips": true}\r\n}'
)
CODEX = '# mine\nmodel = "o9"\n\n[mcp_servers.other]\ncommand = "/nonexistent/other-server"\n\n# the end\n[tui]\n'
OPENCODE = (
    '{\n  "$schema": "https://opencode.ai/config.json", // odd\n  "mcp": {\n    "other": {"type": "local", '
    '"command": ["/nonexistent/other-server"], "enabled": false,},\n  },\n  "share": "disabled",\n}\n'
)


@dataclass(frozen=True)
class Installed:
    """A client: its program below `node_modules`, and the files that a person had before."""

    name: str
    program: str
    files: dict[str, str]
    says: str
    """What its list says of a server that it reached."""


CLIENTS = [
    Installed("claude-code", "@anthropic-ai/claude-code-*/claude",
              {".claude.json": CLAUDE, ".claude/settings.json": CLAUDE_SETTINGS}, r"mcpproxy: .* Connected"),
    Installed("codex", "@openai/codex-*/vendor/*/bin/codex", {".codex/config.toml": CODEX}, r"mcpproxy .* enabled"),
    Installed("gemini-cli", "@google/gemini-cli/bundle/gemini.js", {".gemini/settings.json": GEMINI},
              r"mcpproxy: .* Connected"),
    Installed("opencode", "opencode-*/bin/opencode", {".config/opencode/opencode.jsonc": OPENCODE},
              r"mcpproxy connected"),
]  # fmt: skip
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("connected") / "data"
    with gateway(data, {"mcp_token": TOKEN, "mcpServers": {"sdk": python_server("sdk.py")}}) as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fresh home, with the folder that the clients work in, which is trusted."""
    (tmp_path / "work").mkdir()
    trusted = tmp_path / ".gemini" / "trustedFolders.json"
    trusted.parent.mkdir()
    trusted.write_text(json.dumps({str(tmp_path / "work"): "TRUST_FOLDER"}))
    return tmp_path


def listing(client: Installed, home: Path) -> str:
    """What `<client> mcp list` says."""
    found = sorted(packages(PROJECT).glob(client.program))
    if not found:
        lacking(f"{client.name} is not published for this machine")
    command = [node(), str(found[0])] if found[0].suffix == ".js" else [str(found[0])]
    quiet = {"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    env = {**_kept(clean_environment(**environment())), "HOME": str(home), "MCPPROXY_MCP_TOKEN": TOKEN, **quiet}
    said = subprocess.run(
        [*command, "mcp", "list"], cwd=home / "work", env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=TIMEOUT,
    )  # fmt: skip
    text = COLOURS.sub("", said.stdout + said.stderr)
    assert said.returncode == 0, text
    return text


def _kept(env: dict[str, str]) -> dict[str, str]:
    """Without what would send a client to another home."""
    theirs = ("CLAUDE", "CODEX", "GEMINI", "OPENCODE", "XDG_", "ANTHROPIC", "OPENAI", "GOOGLE")
    return {name: value for name, value in env.items() if not name.startswith(theirs)}


def mcpproxy(home: Path, running: Running, *args: str) -> str:
    command = [sys.executable, "-m", "mcpproxy_py", *args, "--yes", "--data-dir", str(running.data_dir)]
    env = {**_kept(clean_environment()), "HOME": str(home)}
    found = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT, cwd=home / "work")
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_reaches_the_gateway_after_connect_and_has_its_very_files_back_after_disconnect(
    client: Installed, home: Path, running: Running
) -> None:
    for name, text in client.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(text.encode())
    assert "mcpproxy" not in listing(client, home)  # it writes state of its own at its first start
    before = {name: (home / name).read_bytes() for name in client.files}
    there = set(settings(home))

    for way in ("--stdio", "--http"):
        mcpproxy(home, running, "connect", client.name, way)
        said = listing(client, home)
        assert re.search(client.says, said), said
        assert "other" in said
    written = "".join(path.read_text() for path in settings(home))
    assert running.mcp in written and TOKEN not in written

    mcpproxy(home, running, "disconnect", client.name)
    assert {name: (home / name).read_bytes() for name in client.files} == before
    said = listing(client, home)
    assert "mcpproxy" not in said and "other" in said, said
    assert not [path for path in settings(home) if path not in there and "mcpproxy" in path.read_text()]
    assert not os.path.lexists(running.data_dir / "clients")


def settings(home: Path) -> list[Path]:
    """Files that a client could have settings in."""
    found = (path for path in home.rglob("*") if path.suffix in (".json", ".jsonc", ".toml") and path.is_file())
    return [path for path in found if "backups" not in path.parts]
