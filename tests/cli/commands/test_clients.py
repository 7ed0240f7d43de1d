"""`mcpproxy connect` and `disconnect` in a fresh home, with the files that clients have, and with what can be wrong
with them."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from mcpproxy_py.cli.clients import documents
from mcpproxy_py.cli.clients.known import CLIENTS
from mcpproxy_py.cli.clients.places import Machine, servers_file
from mcpproxy_py.cli.main import app
from tests.support.gateway import clean_environment, until

pytestmark = pytest.mark.proves("USE-1")

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
READS = ["retrieve_tools", "request_capability", "call_tool_read", "read_result"]
# As they are in the wild: comments, odd keys, other servers, tabs, CRLF, a byte order mark, no newline at the end.
FILES = {
    "claude-code": '{\n  "numStartups": 3,\n  "mcpServers": {"git": {"type": "stdio", "command": "uvx", "args": '
    '["mcp-server-git"], "env": {"GITHUB_TOKEN": "the-secret"}}},\n  "ключ": "\\u00e9\\ud83d\\ude00"\n}',
    "claude-desktop": '{\r\n\t"mcpServers": {\r\n\t\t"fs": {"command": "npx", "args": ["-y", "x"]}\r\n\t},\r\n'
    '\t"globalShortcut": ""\r\n}\r\n',
    "cursor": '\ufeff{"mcpServers": {}}',
    "vscode": '{\n\t// mine\n\t"inputs": [],\n\t"servers": {\n\t\t"gh": {"type": "http", "url": "https://x/"}, // on\n'
    "\t},\n}\n",
    "windsurf": "",
    "gemini-cli": '{ "mcpServers": { "a": { "httpUrl": "https://x/mcp" } }, // c\n "theme": "x" }\n',
    "codex": '# mine\r\nmodel = "o9"\r\n\r\n[mcp_servers.gh]\r\ncommand = "npx"\r\n\r\n[mcp_servers.gh.env]\r\n'
    'GITHUB_TOKEN = "the-secret"\r\n\r\n# the end\r\n[tui]\r\ntheme = "x"',
    "opencode": '{\n  "$schema": "https://opencode.ai/config.json",\n  "mcp": {\n    "a": {"type": "local", "command": '
    '["x"]},\n  },\n  "permission": {"bash": "ask"}, /* odd */\n}\n',
    "zed": '// Zed settings\n//\n{\n  "theme": "One Dark",\n  "context_servers": {\n    // none yet\n  },\n'
    '  "agent": {"tool_permissions": {"default": "confirm"}}\n}\n',
    "cline": '{\n  "mcpServers": {\n    "a": {"command": "x", "disabled": true, "timeout": 60}\n  }\n}\n',
    "goose": "# mine\nGOOSE_MODE: approve\nextensions:\n  developer:\n    enabled: true\n    type: builtin\n"
    "    envs:\n      API_KEY: the-secret\n\n# tail\nGOOSE_MODEL: x\n",
}
FILES = {client: text.replace("the-secret", SECRET) for client, text in FILES.items()}
WAYS = [(client, way) for client in FILES for way in ("--stdio", "--http") if way == "--stdio" or CLIENTS[client].http]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with nothing in it."""
    path = tmp_path / "home"
    path.mkdir()
    return path


Connect = Callable[..., subprocess.CompletedProcess[str]]


THEIRS = ("CLAUDE", "CODEX", "GEMINI", "OPENCODE", "XDG_", "CLINE", "GOOSE", "HOME", "APPDATA", "MCPPROXY_")


def environment_of(home: Path | None, **extra: str) -> dict[str, str]:
    env = {name: value for name, value in clean_environment().items() if not name.startswith(THEIRS)} | extra
    return env if home is None else {**env, "HOME": str(home)}


@pytest.fixture
def mcpproxy(home: Path) -> Connect:
    """The command: in this process, which is faster, or as one of its own with an environment or limits of its own."""

    def run(
        *args: str, env: dict[str, str] | None = None, before: Callable[[], None] | None = None
    ) -> subprocess.CompletedProcess[str]:
        if env is None and before is None:
            ours = {name: None for name in os.environ if name.startswith(THEIRS)} | {"HOME": str(home)}
            result = CliRunner().invoke(app, list(args), env=ours)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            return subprocess.CompletedProcess(args, result.exit_code, result.stdout, result.stderr)
        return subprocess.run(
            [sys.executable, "-m", "mcpproxy_py", *args], env=env or environment_of(home),
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, cwd=home, preexec_fn=before,
        )  # fmt: skip

    return run


def done(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def file_of(client: str, home: Path) -> Path:
    path = servers_file(CLIENTS[client], Machine("linux", home, {}))
    assert path is not None
    return path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def entry(client: str, home: Path, name: str = "mcpproxy") -> Any:
    known = CLIENTS[client]
    data = documents.load(file_of(client, home), known.syntax).data
    return documents.at(data, (*known.servers, name))


def everything_in(home: Path) -> dict[str, bytes]:
    """Every file below, but for what the gateway keeps for itself."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and ".mcpproxy" not in path.parts
    }


@pytest.mark.parametrize(("client", "way"), WAYS)
def test_a_file_is_edited_and_put_back_byte_for_byte(client: str, way: str, home: Path, mcpproxy: Connect) -> None:
    path = write(file_of(client, home), FILES[client])
    path.chmod(0o640)
    before = everything_in(home)
    data = documents.parse(FILES[client], CLIENTS[client].syntax, path)
    said = done(mcpproxy("connect", client, way, "--yes"))
    assert f"Connected {CLIENTS[client].title} over {way[2:]}" in said
    assert SECRET not in said
    after = documents.load(path, CLIENTS[client].syntax).data
    assert path.stat().st_mode & 0o777 == 0o640
    wanted = entry(client, home)
    ours = {"mcpproxy"}
    servers = documents.at(data, CLIENTS[client].servers) or {}
    assert {
        key: each for key, each in documents.at(after, CLIENTS[client].servers).items() if key not in ours
    } == servers
    assert ("stdio" in json.dumps(wanted)) if way == "--stdio" else ("http://127.0.0.1:8080/mcp" in json.dumps(wanted))
    assert done(mcpproxy("connect", client, way, "--yes")).startswith(f"{CLIENTS[client].title} is already connected")
    done(mcpproxy("disconnect", client, "--yes"))
    assert everything_in(home) == before
    assert path.stat().st_mode & 0o777 == 0o640
    assert not (home / ".mcpproxy" / "clients").exists()
    assert "not connected" in done(mcpproxy("disconnect", client, "--yes"))


@pytest.mark.parametrize("client", FILES)
def test_what_others_write_meanwhile_stays_and_only_our_part_goes(client: str, home: Path, mcpproxy: Connect) -> None:
    path = write(file_of(client, home), FILES[client])
    known = CLIENTS[client]
    data = documents.load(path, known.syntax).data
    done(mcpproxy("connect", client, "--yes"))
    for each in everything_in(home):
        comment = (
            "\n# theirs\n" if known.syntax != "json" or not each.endswith((".json", ".jsonc")) else "\n// theirs\n"
        )
        with (home / each).open("a") as file:
            file.write(comment)
    said = done(mcpproxy("disconnect", client, "--yes"))
    assert "the rest of it stays" in said
    assert documents.load(path, known.syntax).data == data
    assert path.read_text().endswith("theirs\n")
    for name, raw in everything_in(home).items():
        assert b"mcpproxy" not in raw, name


@pytest.mark.parametrize("client", FILES)
def test_files_and_folders_that_were_not_there_are_made_and_removed_again(
    client: str, home: Path, mcpproxy: Connect
) -> None:
    done(mcpproxy("connect", client, "--yes"))
    path = file_of(client, home)
    assert path.stat().st_mode & 0o777 == 0o600
    assert entry(client, home)
    done(mcpproxy("disconnect", client, "--yes"))
    assert [each.name for each in home.iterdir()] == [".mcpproxy"]


def test_the_rules_of_each_client_let_reads_run_and_ask_about_the_rest(home: Path, mcpproxy: Connect) -> None:
    for client in FILES:
        done(mcpproxy("connect", client, "--yes"))
    claude = json.loads((home / ".claude/settings.json").read_text())["permissions"]
    assert claude["allow"] == [f"mcp__mcpproxy__{tool}" for tool in READS]
    assert claude["ask"] == ["mcp__mcpproxy__call_tool_write", "mcp__mcpproxy__call_tool_destructive"]
    cursor = json.loads((home / ".cursor/permissions.json").read_text())
    assert cursor == {"mcpAllowlist": [f"mcpproxy:{tool}" for tool in READS]}
    rules = tomllib.loads((home / ".gemini/policies/mcpproxy.toml").read_text())["rule"]
    assert [(rule["toolName"][-1], rule["decision"]) for rule in rules] == [
        ("read_result", "allow"), ("call_tool_destructive", "ask_user")]  # fmt: skip
    codex = entry("codex", home)
    assert codex["default_tools_approval_mode"] == "prompt"
    assert codex["tools"] == {tool: {"approval_mode": "approve"} for tool in READS}
    opencode = json.loads((home / ".config/opencode/opencode.jsonc").read_text())["permission"]
    assert opencode["mcpproxy_call_tool_read"] == "allow" and opencode["mcpproxy_call_tool_destructive"] == "ask"
    zed = json.loads((home / ".config/zed/settings.json").read_text())["agent"]["tool_permissions"]["tools"]
    assert zed["mcp:mcpproxy:call_tool_read"] == {"default": "allow"}
    assert zed["mcp:mcpproxy:call_tool_write"] == {"default": "confirm"}
    assert entry("cline", home)["autoApprove"] == READS
    goose = yaml.safe_load((home / ".config/goose/permission.yaml").read_text())["user"]
    assert goose["always_allow"] == [f"mcpproxy__{tool}" for tool in READS]
    assert goose["ask_before"] == ["mcpproxy__call_tool_write", "mcpproxy__call_tool_destructive"]


def test_without_rules_only_the_entry_is_written_and_rules_can_follow(home: Path, mcpproxy: Connect) -> None:
    done(mcpproxy("connect", "claude-code", "--yes", "--no-rules"))
    assert list(everything_in(home)) == [".claude.json"]
    done(mcpproxy("connect", "claude-code", "--yes", "--rules"))
    assert set(everything_in(home)) == {".claude.json", ".claude/settings.json"}
    done(mcpproxy("disconnect", "claude-code", "--yes"))
    assert everything_in(home) == {}


def test_rules_that_a_person_set_otherwise_stay(home: Path, mcpproxy: Connect) -> None:
    mine = '{"agent": {"tool_permissions": {"tools": {"mcp:mcpproxy:call_tool_read": {"default": "deny"}}}}}'
    path = write(file_of("zed", home), mine)
    policy = write(home / ".gemini/policies/mcpproxy.toml", "# my own\n")
    for client in ("zed", "gemini-cli"):
        done(mcpproxy("connect", client, "--yes"))
    tools = json.loads(path.read_text())["agent"]["tool_permissions"]["tools"]
    assert tools["mcp:mcpproxy:call_tool_read"] == {"default": "deny"}
    assert policy.read_text() == "# my own\n"
    for client in ("zed", "gemini-cli"):
        done(mcpproxy("disconnect", client, "--yes"))
    assert path.read_text() == mine and policy.read_text() == "# my own\n"


def test_the_entry_names_the_program_by_its_whole_path_and_passes_on_where_the_gateway_is(
    home: Path, mcpproxy: Connect, tmp_path: Path
) -> None:
    where = ("--data-dir", str(tmp_path / "my data"), "--config", str(tmp_path / "c.json"))
    done(mcpproxy("connect", "cursor", "--yes", *where))
    said = entry("cursor", home)
    assert Path(said["command"]).is_absolute()
    assert said["args"][-5:] == ["stdio", *where]
    assert (tmp_path / "my data" / "clients").is_dir() and not (home / ".mcpproxy").exists()
    listed = json.loads(done(mcpproxy("connect", "-o", "json", *where)))["clients"]
    assert [row["state"] for row in listed if row["name"] == "cursor"] == ["connected"]
    listed = json.loads(done(mcpproxy("connect", "-o", "json")))["clients"]
    assert [row["state"] for row in listed if row["name"] == "cursor"] == ["another gateway"]
    done(mcpproxy("disconnect", "cursor", "--yes"))  # of a data directory that does not know of it
    assert json.loads((home / ".cursor/mcp.json").read_text()) == {"mcpServers": {}}
    assert json.loads((home / ".cursor/permissions.json").read_text()) == {}


def test_without_a_name_the_clients_of_this_machine_are_listed(home: Path, mcpproxy: Connect, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    write(programs / "goose", "#!/bin/sh\n").chmod(0o755)
    write(file_of("codex", home), 'a = "b"\nc = \n')
    write(file_of("zed", home), "{}")
    (home / ".cursor").mkdir()
    done(mcpproxy("connect", "opencode", "--yes"))
    done(mcpproxy("connect", "windsurf", "--http", "--yes"))
    env = environment_of(home, PATH=str(programs))
    rows = {row["name"]: row for row in json.loads(done(mcpproxy("connect", "-o", "json", env=env)))["clients"]}
    assert list(rows) == list(CLIENTS)
    states = {name: row["state"] for name, row in rows.items()}
    assert states == {
        "claude-code": "not found", "claude-desktop": "not found", "cursor": "found", "vscode": "not found",
        "windsurf": "connected", "gemini-cli": "not found", "codex": "file broken", "opencode": "connected",
        "zed": "found", "cline": "not found", "goose": "found",
    }  # fmt: skip
    assert (rows["opencode"]["way"], rows["windsurf"]["way"]) == ("stdio", "http")
    assert "line 2, column" in rows["codex"]["problem"]
    ran = mcpproxy("connect", env=env)
    assert re.search(r"^windsurf +connected +http +~/\.codeium/windsurf/mcp_config\.json$", done(ran), re.MULTILINE)
    assert str(file_of("codex", home)) in ran.stderr and "Connect one: mcpproxy connect cursor" in ran.stderr
    assert "Not found: claude-code, claude-desktop, vscode, gemini-cli, cline" in ran.stderr


def test_another_entry_of_that_name_is_not_overwritten_without_a_yes(home: Path, mcpproxy: Connect) -> None:
    mine = '{"mcpServers": {"mcpproxy": {"command": "npx", "args": ["other-proxy"]}, "b": {"command": "x"}}}'
    path = write(file_of("cursor", home), mine)
    ran = mcpproxy("connect", "cursor")
    assert ran.returncode == 2 and "--yes" in ran.stderr
    assert path.read_text() == mine
    done(mcpproxy("connect", "cursor", "--yes"))
    assert entry("cursor", home)["args"] == ["stdio"]
    with path.open("a") as file:
        file.write("\n")
    done(mcpproxy("disconnect", "cursor", "--yes"))
    assert path.read_text() == mine + "\n"


def test_connecting_again_another_way_keeps_what_others_wrote_in_between(home: Path, mcpproxy: Connect) -> None:
    path = write(file_of("opencode", home), FILES["opencode"])
    done(mcpproxy("connect", "opencode", "--yes", "--stdio"))
    path.write_text(path.read_text().replace('"bash": "ask"', '"bash": "deny"'))
    done(mcpproxy("connect", "opencode", "--yes", "--http", "--no-rules"))
    assert entry("opencode", home)["url"] == "http://127.0.0.1:8080/mcp"
    assert "mcpproxy_call_tool_read" not in path.read_text()
    done(mcpproxy("disconnect", "opencode", "--yes"))
    assert path.read_text() == FILES["opencode"].replace('"bash": "ask"', '"bash": "deny"')


def test_an_entry_and_a_rule_that_somebody_made_their_own_stay(home: Path, mcpproxy: Connect) -> None:
    path = file_of("zed", home)
    done(mcpproxy("connect", "zed", "--yes"))
    data = json.loads(path.read_text())
    data["context_servers"]["mcpproxy"] = {"command": "npx", "args": ["theirs"]}
    data["agent"]["tool_permissions"]["tools"]["mcp:mcpproxy:call_tool_read"]["default"] = "deny"
    path.write_text(json.dumps(data))
    done(mcpproxy("disconnect", "zed", "--yes"))
    assert json.loads(path.read_text()) == {
        "context_servers": {"mcpproxy": {"command": "npx", "args": ["theirs"]}},
        "agent": {"tool_permissions": {"tools": {"mcp:mcpproxy:call_tool_read": {"default": "deny"}}}},
    }


def test_an_entry_of_another_name_that_leads_here_is_enough(home: Path, mcpproxy: Connect) -> None:
    done(mcpproxy("connect", "cursor", "--yes", "--name", "proxy"))
    before = everything_in(home)
    assert "already connected" in done(mcpproxy("connect", "cursor", "--yes"))
    assert everything_in(home) == before
    done(mcpproxy("disconnect", "cursor", "--yes", "--name", "proxy"))
    assert everything_in(home) == {}


def test_a_gateway_elsewhere_is_called_by_its_address_and_told_the_token(home: Path, mcpproxy: Connect) -> None:
    said = done(mcpproxy("connect", "cursor", "--yes", "--url", "http://gateway.example:9000"))
    assert entry("cursor", home) == {
        "url": "http://gateway.example:9000/mcp", "headers": {"Authorization": "Bearer ${env:MCPPROXY_MCP_TOKEN}"}
    }  # fmt: skip
    assert "MCPPROXY_MCP_TOKEN" in said and not (home / ".mcpproxy" / "agent.token").exists()
    ran = mcpproxy("connect", "claude-desktop", "--yes", "--url", "http://gateway.example:9000")
    assert ran.returncode == 2 and "starts the gateway itself" in " ".join(re.sub(r"[│╭╮╰╯─]", " ", ran.stderr).split())


def test_a_file_keeps_its_owner(home: Path, mcpproxy: Connect) -> None:
    path = write(file_of("cursor", home), "{}")
    owner = (12345, 12345) if os.geteuid() == 0 else (os.geteuid(), os.getgroups()[-1])
    os.chown(path, *owner)
    for command in ("connect", "disconnect"):
        done(mcpproxy(command, "cursor", "--yes"))
        assert (path.stat().st_uid, path.stat().st_gid) == owner


def test_print_shows_and_changes_nothing(home: Path, mcpproxy: Connect) -> None:
    write(file_of("claude-code", home), FILES["claude-code"])
    before = everything_in(home)
    said = done(mcpproxy("connect", "claude-code", "--print"))
    assert (
        '"mcpproxy": {"type": "stdio"' in said
        and '+      "mcp__mcpproxy__call_tool_read"' in said
        and SECRET not in said
    )
    made = json.loads(done(mcpproxy("connect", "claude-code", "--print", "-o", "json")))
    assert made["state"] == "would be connected" and [file["outcome"] for file in made["files"]] == ["changed", "made"]
    assert everything_in(home) == before and not (home / ".mcpproxy").exists()


def test_a_backup_is_kept_where_only_its_owner_can_read_it(home: Path, mcpproxy: Connect) -> None:
    write(file_of("claude-code", home), FILES["claude-code"])
    done(mcpproxy("connect", "claude-code", "--yes"))
    (folder,) = (home / ".mcpproxy" / "clients").iterdir()
    assert (folder / "0.before").read_bytes() == FILES["claude-code"].encode()
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_file_of_a_project_is_written_where_the_client_has_one(
    home: Path, mcpproxy: Connect, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for client, name in (("claude-code", ".mcp.json"), ("vscode", ".vscode/mcp.json"), ("codex", ".codex/config.toml")):
        done(mcpproxy("connect", client, "--yes", "--project", str(project)))
        assert (project / name).stat().st_mode & 0o777 == 0o644
    assert (project / ".claude/settings.json").exists()
    assert everything_in(home) == {}
    ran = mcpproxy("connect", "windsurf", "--yes", "--project", str(project))
    assert ran.returncode == 2 and "no file of a project" in ran.stderr
    for client in ("claude-code", "vscode", "codex"):
        done(mcpproxy("disconnect", client, "--yes", "--project", str(project)))
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("leads", ["somewhere", "nowhere"])
def test_a_symlink_stays_and_the_file_that_it_leads_to_is_written(leads: str, home: Path, mcpproxy: Connect) -> None:
    real = home / "dotfiles" / "claude.json"
    real.parent.mkdir()
    if leads == "somewhere":
        real.write_text(FILES["claude-code"])
    link = home / ".claude.json"
    link.symlink_to("dotfiles/claude.json")
    done(mcpproxy("connect", "claude-code", "--yes"))
    assert link.is_symlink() and "mcpproxy" in real.read_text()
    done(mcpproxy("disconnect", "claude-code", "--yes"))
    assert link.is_symlink()
    assert real.read_text() == FILES["claude-code"] if leads == "somewhere" else not real.exists()


@pytest.mark.parametrize(
    ("client", "text", "says"),
    [
        ("claude-code", '{"mcpServers": {"a": 1}\n "b": 2}', r"\(line 2, column 2\): expected ','"),
        ("cursor", "[1]", r"\(line 1, column 1\): it should hold an object"),
        ("codex", 'a = "b"\n[x\n', r"\(line 2, column 3\)"),
        ("goose", "a: [1\nb: 2\n", r"\(line 2, column 2\)"),
        ("zed", '{"a": "\xff', "is not UTF-8|never closed"),
        ("opencode", '{"mcp": []}', "mcp is not an object"),
        ("codex", 'mcp_servers = {gh = {command = "x"}}\n', r"\[mcp_servers.mcpproxy\]"),
        ("goose", "extensions: []\n", "extensions is not an object"),
        ("cline", '{"mcpServers": ' + "[" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_understood_is_left_alone_and_the_message_says_where(
    client: str, text: str, says: str, home: Path, mcpproxy: Connect
) -> None:
    path = write(file_of(client, home), text)
    before = everything_in(home)
    ran = mcpproxy("connect", client, "--yes")
    assert ran.returncode == 1 and re.search(says, ran.stderr), ran.stderr
    assert str(path) in ran.stderr and "Traceback" not in ran.stderr
    assert everything_in(home) == before


def test_a_file_that_is_none_and_links_that_lead_in_a_circle_are_told(home: Path, mcpproxy: Connect) -> None:
    file_of("cursor", home).mkdir(parents=True)
    (home / ".claude.json").symlink_to(".claude.json")
    write(file_of("zed", home), "{}").chmod(0o440)
    for client, says in (
        ("cursor", "it is not a file"),
        ("claude-code", "symbolic links|circle"),
        ("zed", "read-only"),
    ):
        ran = mcpproxy("connect", client, "--yes")
        assert ran.returncode == 1 and re.search(says, ran.stderr), ran.stderr
        assert "Traceback" not in ran.stderr
    assert file_of("zed", home).read_text() == "{}"


def test_a_full_disk_loses_nothing_and_says_what_to_do(home: Path, mcpproxy: Connect) -> None:
    path = write(file_of("claude-code", home), json.dumps({"history": ["x" * 100] * 100}, indent=2))
    size = path.stat().st_size
    before = everything_in(home)
    ran = mcpproxy("connect", "claude-code", "--yes", before=lambda: _at_most(size + 40))
    assert ran.returncode == 1 and "Free some disk space" in ran.stderr, ran.stderr
    assert everything_in(home) == before
    assert not (home / ".mcpproxy" / "clients").exists()


def test_what_was_written_before_a_file_that_failed_is_put_back(home: Path, mcpproxy: Connect) -> None:
    write(home / ".claude/settings.json", "{}").chmod(0o444)
    before = everything_in(home)
    ran = mcpproxy("connect", "claude-code", "--yes")
    assert ran.returncode == 1 and "settings.json was not written: it is read-only" in ran.stderr
    assert everything_in(home) == before
    assert not (home / ".mcpproxy" / "clients").exists()


def _at_most(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("said", ["unset", "empty"])
def test_without_a_home_it_says_so(said: str, home: Path, mcpproxy: Connect) -> None:
    env = environment_of(None, HOME="") if said == "empty" else environment_of(None)
    if said == "unset" and os.getuid() == 0:
        env["HOME"] = "relative"
    for args in (("connect",), ("connect", "cursor", "--yes"), ("disconnect", "cursor", "--yes")):
        ran = mcpproxy(*args, env=env)
        assert ran.returncode == 1 and "HOME is not set" in ran.stderr, ran.stderr
    assert everything_in(home) == {}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("connect", "claud-code"), "did you mean claude-code"),
        (("connect", "emacs"), "one of claude-code"),
        (("connect", "cursor", "--stdio", "--http"), "choose one"),
        (("connect", "cursor", "--name", "a b"), "letters, digits"),
        (("connect", "claude-desktop", "--http"), "starts commands only"),
        (("connect", "cursor", "--project", "/nowhere"), "is not a folder"),
        (("connect", "cursor"), "--yes"),
        (("disconnect", "emacs"), "no client is called"),
    ],
)
def test_wrong_usage_is_told_and_changes_nothing(
    args: tuple[str, ...], says: str, home: Path, mcpproxy: Connect
) -> None:
    ran = mcpproxy(*args)
    assert ran.returncode == 2
    assert says in " ".join(re.sub(r"[│╭╮╰╯─]", " ", ran.stderr).split())
    assert everything_in(home) == {}


def test_a_token_is_made_where_one_is_needed_and_the_clients_refer_to_it(home: Path, mcpproxy: Connect) -> None:
    config = write(home / ".mcpproxy/mcp_config.json", '{\n  "// mine": "odd",\n  "require_mcp_auth": true\n}\n')
    config.parent.chmod(0o700)
    said = done(mcpproxy("connect", "claude-code", "--http", "--yes"))
    token = home / ".mcpproxy/agent.token"
    secret = token.read_text().strip()
    assert len(secret) > 40 and token.stat().st_mode & 0o777 == 0o600
    assert str(token) in said and "MCPPROXY_MCP_TOKEN" in said and secret not in said
    assert "// mine" in config.read_text() and f"${{file:{token}}}" in config.read_text()
    references = {
        "claude-code": "Bearer ${MCPPROXY_MCP_TOKEN}", "cursor": "Bearer ${env:MCPPROXY_MCP_TOKEN}",
        "vscode": "Bearer ${input:mcpproxy-token}", "windsurf": "Bearer ${env:MCPPROXY_MCP_TOKEN}",
        "gemini-cli": "Bearer ${MCPPROXY_MCP_TOKEN}", "opencode": "Bearer {env:MCPPROXY_MCP_TOKEN}",
        "goose": "Bearer ${MCPPROXY_MCP_TOKEN}",
    }  # fmt: skip
    for client, reference in references.items():
        done(mcpproxy("connect", client, "--http", "--yes"))
        assert entry(client, home)["headers"] == {"Authorization": reference}
    done(mcpproxy("connect", "codex", "--http", "--yes"))
    assert entry("codex", home)["bearer_token_env_var"] == "MCPPROXY_MCP_TOKEN"
    assert json.loads(file_of("vscode", home).read_text())["inputs"][0]["id"] == "mcpproxy-token"
    for client in ("zed", "cline"):
        ran = mcpproxy("connect", client, "--http", "--yes")
        assert ran.returncode == 1 and "--stdio" in ran.stderr
    assert token.read_text().strip() == secret
    for name, raw in everything_in(home).items():
        assert secret.encode() not in raw, name


class Typist:
    """The command on a terminal, and what is typed there."""

    def __init__(self, home: Path, *args: str, columns: int = 80, **env: str) -> None:
        self.out, inner = pty.openpty()
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mcpproxy_py", *args], stdin=inner, stdout=inner, stderr=inner, cwd=home,
            env={**environment_of(home), "TERM": "xterm-256color", "COLUMNS": str(columns), **env},
        )  # fmt: skip
        os.close(inner)

    def read_until(self, wanted: str) -> None:
        def there() -> bool:
            self.text += os.read(self.out, 65536).decode(errors="replace")
            return wanted in self.text

        until(there, what=wanted)

    def answer(self, text: str) -> None:
        os.write(self.out, text.encode())

    def end(self) -> int:
        try:
            while chunk := os.read(self.out, 65536):
                self.text += chunk.decode(errors="replace")
        except OSError:
            pass
        os.close(self.out)
        return self.process.wait(60)


def test_on_a_terminal_it_asks_shows_colour_and_a_no_changes_nothing(home: Path) -> None:
    typist = Typist(home, "connect", "claude-code")
    typist.read_until("run reads without asking")
    typist.answer("n\n")
    typist.read_until("Write this?")
    assert "\x1b[32m" in typist.text and "settings.json" not in typist.text
    typist.answer("n\n")
    assert typist.end() == 1
    assert everything_in(home) == {}
    typist = Typist(home, "connect", "claude-code", NO_COLOR="1")
    typist.read_until("run reads without asking")
    typist.answer("\n")
    typist.read_until("Write this?")
    assert "\x1b[32m" not in typist.text and "settings.json" in typist.text
    typist.answer("y\n")
    assert typist.end() == 0
    assert "Connected Claude Code" in typist.text
    assert set(everything_in(home)) == {".claude.json", ".claude/settings.json"}


def test_a_file_that_changes_while_the_question_stands_is_not_written(home: Path) -> None:
    path = write(file_of("claude-code", home), "{}")
    typist = Typist(home, "connect", "claude-code", "--no-rules")
    typist.read_until("Write this?")
    path.write_text('{"theirs": 1}')
    typist.answer("y\n")
    assert typist.end() == 1
    assert "changed by something else" in " ".join(typist.text.split())
    assert path.read_text() == '{"theirs": 1}'
    assert not (home / ".mcpproxy" / "clients").exists()


@pytest.mark.parametrize(
    "variable", ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "CLINE_DIR", "GOOSE_PATH_ROOT"]
)
def test_the_variables_that_a_client_honours_are_honoured(variable: str, home: Path, mcpproxy: Connect) -> None:
    client, name = {
        "CLAUDE_CONFIG_DIR": ("claude-code", ".claude.json"), "CODEX_HOME": ("codex", "config.toml"),
        "GEMINI_CLI_HOME": ("gemini-cli", ".gemini/settings.json"), "GOOSE_PATH_ROOT": ("goose", "config/config.yaml"),
        "CLINE_DIR": ("cline", "data/settings/cline_mcp_settings.json"),
    }[variable]  # fmt: skip
    env = environment_of(home, **{variable: str(home / "elsewhere")})
    done(mcpproxy("connect", client, "--yes", env=env))
    assert (home / "elsewhere" / name).exists()
    assert all(each.startswith("elsewhere/") for each in everything_in(home))
    done(mcpproxy("disconnect", client, "--yes", env=env))
    assert everything_in(home) == {}
