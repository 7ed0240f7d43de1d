"""`mcpproxy import` in a fresh home with the files of eleven clients."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.cli.clients.documents import Syntax, parse
from mcpproxy_py.cli.importing.moving import take_out_of_file
from mcpproxy_py.errors import GatewayError
from mcpproxy_py.settings import ConfigFile, validate_text

FILES = Path(__file__).parents[1] / "importing" / "home"
SECRETS = ("ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "a1B2c3D4e5F6g7H8i9J0", "s3cret-Pw1")
TAKEN = [
    "time", "web", "filesystem", "github-enterprise", "docs", "tickets", "figma", "fs", "web-2", "time-2", "team-docs",
    "everything", "context7", "sqlite", "fetch", "pages",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with what each client left there, and nothing that leads to the tester's own."""
    path = tmp_path / "home"
    shutil.copytree(FILES, path)
    monkeypatch.setenv("HOME", str(path))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "GOOSE_PATH_ROOT",
                 "CLINE_MCP_SETTINGS_PATH", "CLINE_DATA_DIR", "CLINE_DIR", "FIGMA_TOKEN"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "keyring", None)
    return path


@pytest.fixture
def alone(data_dir: Path) -> Path:
    """The data directory of a gateway that is gone."""
    (data_dir / "gateway.json").unlink()
    (data_dir / "mcp_config.json").write_text('{"//": "kept", "listen": "127.0.0.1:1", "mcpServers": {}}')
    return data_dir


@pytest.fixture
def imported(run: Any, home: Path, alone: Path) -> Callable[..., Any]:
    return lambda *args, **options: run("import", *args, **options)


def servers(data_dir: Path) -> dict[str, Any]:
    return json.loads((data_dir / "mcp_config.json").read_text())["mcpServers"]


def tree(path: Path) -> dict[str, str]:
    return {
        str(each.relative_to(path)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in sorted(path.rglob("*"))
        if each.is_file()
    }


@pytest.mark.proves("USE-1")
def test_the_servers_of_all_clients_are_taken_and_what_is_not_is_said(imported: Any, home: Path, alone: Path) -> None:
    before = tree(home)
    ran = imported("--yes")
    assert ran.status == 0, ran.err
    assert list(servers(alone)) == TAKEN
    assert tree(home) == before, "an import without --move leaves every file of a client alone"
    assert not any(secret in ran.out + ran.err for secret in SECRETS)
    assert not any(secret in (alone / "mcp_config.json").read_text() for secret in SECRETS)
    found = servers(alone)
    kept = alone / "secrets" / "github-enterprise.GITHUB_PERSONAL_ACCESS_TOKEN"
    assert found["github-enterprise"]["env"] == {"GITHUB_PERSONAL_ACCESS_TOKEN": f"${{file:{kept}}}"}
    assert kept.read_text() == SECRETS[0] and stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert found["docs"]["headers"] == {"Authorization": f"Bearer ${{file:{alone}/secrets/docs.Authorization}}"}
    assert found["web"]["headers"] == {"X-Tenant": "${env:TENANT:-acme}"}
    assert found["web-2"]["enabled"] is False, "Gemini CLI leaves it out by mcp.excluded"
    assert found["figma"] == {
        "transport": "http", "url": "https://mcp.figma.example/mcp", "headers": {"X-Figma": "${env:FIGMA_TOKEN}"},
        "enabled": False, "deny_tools": ["delete_file"],
    }  # fmt: skip
    assert found["fs"]["timeout"] == 30 and found["team-docs"]["connect_timeout"] == 20
    said = [*ran.out.splitlines(), *ran.err.splitlines()]
    for part in (
        "goose developer - cannot: it is built into the client",
        "zed postgres-context-server - cannot: an extension of the client starts it",
        "vscode search - cannot: the client asks for 'search_key' when it starts it, and nobody answered",
        "claude-code mcpproxy http://127.0.0.1:8080/mcp skip: it is this gateway",
        "claude-desktop time uvx mcp-server-time skip: it is the same as time of claude-code",
        "time (codex): the name time is taken; it becomes time-2",
        "trust (tools it runs without asking) is not taken over",
        "autoApprove (tools it runs without asking) is not taken over",
        "the variable 'FIGMA_TOKEN' is not set here",
        "To undo: mcpproxy import --undo",
    ):
        assert any(part in " ".join(line.split()) for line in said), part


@pytest.mark.proves("USE-1")
def test_undo_takes_everything_back(imported: Any, home: Path, alone: Path) -> None:
    before = (alone / "mcp_config.json").read_text()
    imported("--yes")
    ran = imported("--undo", "--yes")
    assert ran.status == 0, ran.err
    assert json.loads((alone / "mcp_config.json").read_text()) == json.loads(before)
    assert list((alone / "secrets").iterdir()) == list((alone / "imports").iterdir()) == []
    ran = imported("--undo", "--yes")
    assert (ran.status, ran.err) == (1, "Error: There is no import that could be undone\n  " + ran.err.split("\n  ")[1])


@pytest.mark.proves("USE-1")
def test_move_takes_them_out_of_the_clients_and_undo_puts_every_byte_back(
    imported: Any, home: Path, alone: Path
) -> None:
    before = tree(home)
    (home / ".cursor/mcp.json").chmod(0o640)
    ran = imported("--move", "--yes")
    assert ran.status == 0, ran.err
    assert (home / ".cursor/mcp.json").read_bytes().startswith(b"\xef\xbb\xbf{\n  // what I use every day\n")
    assert b"GitHub" not in (home / ".cursor/mcp.json").read_bytes()
    assert stat.S_IMODE((home / ".cursor/mcp.json").stat().st_mode) == 0o640
    claude = json.loads((home / ".claude.json").read_text())
    assert list(claude["mcpServers"]) == ["mcpproxy"] and claude["projects"]["/work/app"]["mcpServers"] == {}
    assert json.loads((home / ".config/Claude/claude_desktop_config.json").read_text())["mcpServers"] == {}
    codex = (home / ".codex/config.toml").read_text()
    assert "mcp_servers" not in codex and 'model = "gpt-5" # mine' in codex and "[tui]" in codex
    goose = (home / ".config/goose/config.yaml").read_text()
    assert "developer:" in goose and "mcp-server-pages" not in goose
    zed = (home / ".config/zed/settings.json").read_text()
    assert "postgres-context-server" in zed and "sqlite" not in zed and zed.startswith("// Zed settings")
    assert "Cursor has no way to the gateway yet: mcpproxy connect cursor" in ran.err
    assert "Claude Code has no way" not in ran.err
    ran = imported("--undo", "--yes")
    assert ran.status == 0, ran.err
    assert tree(home) == before
    assert servers(alone) == {}
    assert list((alone / "imports").iterdir()) == []


def test_a_file_that_was_changed_since_gets_its_servers_back_and_keeps_the_change(
    imported: Any, home: Path, alone: Path
) -> None:
    for client in ("cursor", "codex", "goose"):
        imported(client, "--move", "--yes")
    cursor, codex, goose = home / ".cursor/mcp.json", home / ".codex/config.toml", home / ".config/goose/config.yaml"
    cursor.write_text('{"mcpServers": {"mcpproxy": {"command": "mcpproxy", "args": ["stdio"]}}} // new')
    codex.write_text('[mcp_servers.mcpproxy]\nurl = "http://127.0.0.1:8080/mcp"\n')
    goose.write_text("extensions:\n  mine:\n    type: builtin\n")
    for _ in range(3):
        ran = imported("--undo", "--yes")
        assert ran.status == 0 and "keeps its changes" in ran.out
    found = parse(cursor.read_text(), Syntax.JSON, cursor)["mcpServers"]
    was = parse((FILES / ".cursor/mcp.json").read_text("utf-8-sig"), Syntax.JSON, cursor)["mcpServers"]
    assert found == {"mcpproxy": {"command": "mcpproxy", "args": ["stdio"]}, **was}
    assert cursor.read_text().endswith("// new")
    assert set(parse(codex.read_text(), Syntax.TOML, codex)["mcp_servers"]) == {"mcpproxy", "time", "team-docs"}
    assert set(parse(goose.read_text(), Syntax.YAML, goose)["extensions"]) == {"mine", "pages"}
    assert servers(alone) == {} and list((alone / "imports").iterdir()) == []


def test_a_file_that_cannot_be_mended_is_left_by_undo_and_its_copy_named(
    imported: Any, home: Path, alone: Path
) -> None:
    imported("cursor", "--move", "--yes")
    (home / ".cursor/mcp.json").write_text('{"mcpServers": {"docs": {"command": "another"}}}')
    ran = imported("--undo", "--yes")
    assert ran.status == 1
    assert "another docs stands in it now" in ran.err
    assert (home / ".cursor/mcp.json").read_text() == '{"mcpServers": {"docs": {"command": "another"}}}'
    copy = Path(ran.err.partition("its earlier version is ")[2].strip())
    assert copy.read_bytes() == (FILES / ".cursor/mcp.json").read_bytes()
    assert servers(alone) == {}


def test_a_server_that_was_changed_since_is_left_by_undo(imported: Any, home: Path, alone: Path) -> None:
    imported("cursor", "--yes")
    ConfigFile(alone / "mcp_config.json").put_server("docs", {"command": "other"}, replace=True)
    ran = imported("--undo", "--yes")
    assert ran.status == 1 and "docs: it was changed since the import, and stays as it is" in ran.err
    assert servers(alone) == {"docs": {"command": "other"}}


def test_a_second_import_takes_nothing_twice(imported: Any, home: Path, alone: Path) -> None:
    imported("--yes")
    before = servers(alone)
    ran = imported("--yes")
    assert ran.status == 0 and servers(alone) == before
    assert "There is nothing to take." in ran.err
    ran = imported("--move", "--yes", "cursor")
    assert "Took GitHub Enterprise, docs out of" in ran.out
    assert json.loads((home / ".cursor/mcp.json").read_text("utf-8-sig").split("//")[0] + "}") == {}


def test_a_name_that_is_taken_is_numbered_or_replaced(imported: Any, home: Path, alone: Path) -> None:
    ConfigFile(alone / "mcp_config.json").put_server("sqlite", {"command": "mine", "env": {"A": "b"}})
    imported("zed", "--yes")
    assert list(servers(alone)) == ["sqlite", "sqlite-2"]
    imported("--undo", "--yes")
    ran = imported("zed", "--yes", "--replace")
    assert "replace: in place of the sqlite that is here" in ran.out
    assert servers(alone)["sqlite"]["command"] == "uvx"
    imported("--undo", "--yes")
    assert servers(alone) == {"sqlite": {"command": "mine", "env": {"A": "b"}}}


def test_dry_run_changes_nothing_and_asks_nothing(imported: Any, home: Path, alone: Path) -> None:
    before = tree(home) | tree(alone)
    ran = imported("--dry-run", "--move")
    assert ran.status == 0 and "take" in ran.out
    assert tree(home) | tree(alone) == before


def test_without_a_terminal_a_yes_is_needed(imported: Any, home: Path, alone: Path) -> None:
    ran = imported("cursor")
    assert ran.status == 2 and "add --yes" in ran.err
    assert servers(alone) == {} and not (alone / "secrets").exists()


def test_only_what_was_named(imported: Any, home: Path, alone: Path) -> None:
    ran = imported("--only", "GitHub Enterprise", "--only", "context7", "--yes")
    assert ran.status == 0 and list(servers(alone)) == ["github-enterprise", "context7"]
    ran = imported("--only", "nothing", "--yes")
    assert ran.status == 2 and "no server is called nothing" in ran.err


def test_json_gives_the_plan_and_the_result(imported: Any, home: Path, alone: Path) -> None:
    plan = imported("cursor", "--dry-run", "-o", "json").json
    assert plan["result"] is None
    assert plan["servers"][0] == {
        "from": "cursor", "file": str(home / ".cursor/mcp.json"), "project": None, "name_there": "GitHub Enterprise",
        "name": "github-enterprise", "starts": "npx -y @modelcontextprotocol/server-github",
        "given": ["sets GITHUB_PERSONAL_ACCESS_TOKEN"], "action": "take",
        "why": None, "notes": [], "plain_secrets": ["env.GITHUB_PERSONAL_ACCESS_TOKEN"],
    }  # fmt: skip
    ran = imported("cursor", "--yes", "-o", "json")
    assert ran.json["result"]["taken"] == ["github-enterprise", "docs"]
    assert ran.json["result"]["secrets"] == "file"
    assert not any(secret in ran.out + ran.err for secret in SECRETS)


def test_secrets_can_stay_as_they_are(imported: Any, home: Path, alone: Path) -> None:
    imported("cursor", "--yes", "--secrets", "keep")
    assert servers(alone)["github-enterprise"]["env"] == {"GITHUB_PERSONAL_ACCESS_TOKEN": SECRETS[0]}
    assert not (alone / "secrets").exists()


class Locked(Exception):
    pass


def keyring_module(kept: dict[tuple[str, str], str], locked: bool = False) -> Any:
    """The interface of `keyring` over a dictionary: the extra is not part of the test environment."""

    def put(service: str, name: str, value: str) -> None:
        if locked:
            raise Locked
        kept[service, name] = value

    module: Any = types.ModuleType("keyring")
    module.get_keyring = lambda: kept
    module.set_password = put
    module.get_password = lambda service, name: kept.get((service, name))
    module.delete_password = lambda service, name: kept.pop((service, name))
    return module


def test_secrets_go_to_the_keyring_and_undo_takes_them_out(
    imported: Any, home: Path, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[tuple[str, str], str] = {("mcpproxy", "docs.Authorization"): "somebody else's"}
    monkeypatch.setitem(sys.modules, "keyring", keyring_module(kept))
    ran = imported("cursor", "--yes")
    assert ran.status == 0 and "2 plain secrets: to the system's keyring" in ran.err
    assert servers(alone)["docs"]["headers"] == {"Authorization": "Bearer ${keyring:docs.Authorization-2}"}
    assert kept["mcpproxy", "docs.Authorization-2"] == SECRETS[1]
    imported("--undo", "--yes")
    assert kept == {("mcpproxy", "docs.Authorization"): "somebody else's"}


def test_a_locked_keyring_is_said_and_files_are_used_unless_it_was_asked_for(
    imported: Any, home: Path, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", keyring_module({}, locked=True))
    ran = imported("cursor", "--yes", "--secrets", "keyring")
    assert ran.status == 1 and "it is locked" in ran.err and "--secrets file" in ran.err
    assert servers(alone) == {} and not (alone / "imports").exists()
    ran = imported("cursor", "--yes")
    assert ran.status == 0 and "it is locked" in ran.err
    assert "${file:" in json.dumps(servers(alone)["docs"])


def test_without_the_extra_the_keyring_is_not_there(imported: Any, home: Path, alone: Path) -> None:
    ran = imported("cursor", "--yes", "--secrets", "keyring")
    assert ran.status == 1 and "pip install 'mcpproxy-py[keyring]'" in ran.err
    ran = imported("cursor", "--yes", "--secrets", "somewhere")
    assert ran.status == 2 and "must be one of keyring, file, keep" in ran.err


@pytest.mark.proves("USE-1")
def test_a_running_gateway_is_asked_and_one_refusal_stops_no_other(run: Any, home: Path, gateway: Any) -> None:
    gateway.answer("GET", "/config", {"listen": "127.0.0.1:8080", "mcpServers": {}})
    gateway.answers["POST", "/api/v1/servers"] = [
        (400, {"error": {"code": "CONFIG_INVALID", "message": "no such thing", "hint": "", "details": {}}}),
        (201, {"server": {"name": "docs"}}),
    ]
    before = tree(home)
    ran = run("import", "cursor", "--move", "--yes", "--secrets", "keep")
    assert ran.status == 1
    assert "Not done: github-enterprise: no such thing" in ran.err and "Took docs." in ran.out
    assert [each.body["name"] for each in gateway.seen if each.method == "POST"] == ["github-enterprise", "docs"]
    text = (home / ".cursor/mcp.json").read_text("utf-8")
    assert "GitHub Enterprise" in text and "docs.example.com" not in text, "only what was accepted is taken out"
    assert {name for name, digest in tree(home).items() if before[name] != digest} == {".cursor/mcp.json"}


def test_a_gateway_that_was_named_must_be_there(imported: Any, home: Path, alone: Path) -> None:
    ran = imported("cursor", "--yes", "--listen", "127.0.0.1:1")
    assert ran.status == 4 and servers(alone) == {}


def test_a_project_has_its_own(imported: Any, home: Path, alone: Path, tmp_path: Path) -> None:
    project = tmp_path / "app"
    (project / ".vscode").mkdir(parents=True)
    (project / ".env").write_text("# keys\nexport MAIN_KEY='abc-Def-123'\nOTHER=\"two words\" \nthird = 3 # three\n\n")
    entry = {"command": "node", "args": ["./server.js"], "envFile": "${workspaceFolder}/.env", "env": {"OTHER": "x"}}
    (project / ".vscode/mcp.json").write_text(json.dumps({"servers": {"local": entry}}))
    ran = imported("--project", str(project), "--yes", "--secrets", "keep")
    assert ran.status == 0, ran.err
    assert servers(alone) == {
        "local": {
            "command": "node", "args": ["./server.js"], "cwd": str(project),
            "env": {"MAIN_KEY": "abc-Def-123", "OTHER": "x", "third": "3"},
        }
    }  # fmt: skip
    assert imported("--project", str(tmp_path / "none"), "--yes").status == 2


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("snippet.json", '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}', ["time"]),
        ("bare", '{"time": {"command": "uvx"}, // mine\n}', ["time"]),
        ("codex.toml", '[mcp_servers.time]\ncommand = "uvx"\n', ["time"]),
        ("goose", "extensions:\n  time:\n    type: stdio\n    cmd: uvx\n    args: []\n", ["time"]),
        ("settings.json", '{"mcp": {"servers": {"time": {"command": "uvx"}}}}', ["time"]),
        ("opencode.json", '{"mcp": {"time": {"type": "local", "command": ["uvx"]}}}', ["time"]),
        ("ours.json", '{"mcpServers": [{"name": "time", "command": "uvx", "timeout": 5}]}', ["time"]),
    ],
)
def test_any_file_in_one_of_these_shapes(
    imported: Any, home: Path, alone: Path, tmp_path: Path, name: str, text: str, expected: list[str]
) -> None:
    (tmp_path / name).write_text(text)
    ran = imported(str(tmp_path / name), "--yes")
    assert ran.status == 0, ran.err
    assert list(servers(alone)) == expected


def test_a_snippet_may_be_pasted(imported: Any, home: Path, alone: Path) -> None:
    ran = imported("-", "--yes", stdin='{"mcpServers": {"time": {"command": "uvx"}}}')
    assert ran.status == 0 and servers(alone) == {"time": {"command": "uvx"}}
    assert imported("-", "--yes", "--move", stdin="{}").status == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"mcpServers": {\n  "a": {"command": }}}', "line 2, column 20"),
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("{}", "has no servers in it that are known here"),
        ('{"mcpServers": null}', "has no servers in it that are known here"),
        ("[1, 2]", "it should hold an object"),
        ("\xff", "it is not UTF-8"),
        ('{"a": ' * 3000 + "1" + "}" * 3000, "nested"),
    ],
)
def test_a_file_that_says_nothing_useful_is_refused(
    imported: Any, home: Path, alone: Path, tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(text.encode("latin-1"))
    ran = imported(str(path), "--yes")
    assert ran.status == 1 and why in ran.err
    assert servers(alone) == {}


def test_files_that_are_none(imported: Any, home: Path, alone: Path, tmp_path: Path) -> None:
    assert "There is no client called 'nobody' and no file" in imported("nobody", "--yes").err
    assert "it is not a file" in imported(str(tmp_path), "--yes").err
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(9 << 20)
    assert "it is larger than 8 MB" in imported(str(huge), "--yes").err
    (home / ".cursor/mcp.json").unlink()
    assert "Cursor has no file with servers" in imported("cursor", "--yes").err


def test_one_broken_file_stops_no_other(imported: Any, home: Path, alone: Path) -> None:
    (home / ".cursor/mcp.json").write_text("{")
    (home / ".config/zed/settings.json").write_text('{"context_servers": []}')
    ran = imported("--yes")
    assert ran.status == 0 and "time" in servers(alone)
    assert f"Not read: {home}/.cursor/mcp.json cannot be read (line 1" in ran.err
    assert "context_servers is a list, where an object of servers by name is expected" in ran.err


def test_a_link_is_followed_and_stays_a_link(imported: Any, home: Path, alone: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_bytes((home / ".cursor/mcp.json").read_bytes())
    (home / ".cursor/mcp.json").unlink()
    (home / ".cursor/mcp.json").symlink_to(real)
    assert imported("cursor", "--move", "--yes").status == 0
    assert (home / ".cursor/mcp.json").is_symlink() and b"GitHub" not in real.read_bytes()
    assert imported("--undo", "--yes").status == 0
    assert real.read_bytes() == (FILES / ".cursor/mcp.json").read_bytes()


def test_ten_thousand_servers_are_too_many_and_said(imported: Any, home: Path, alone: Path, tmp_path: Path) -> None:
    many = {f"s{number}": {"command": "x", "args": [str(number)]} for number in range(10_000)}
    (tmp_path / "many.json").write_text(json.dumps({"mcpServers": many}))
    ran = imported(str(tmp_path / "many.json"), "--yes")
    assert ran.status == 0 and "has 10000 servers; the first 500 of them are looked at" in ran.err
    assert len(servers(alone)) == 500


def test_names_and_texts_that_would_drive_a_terminal(imported: Any, home: Path, alone: Path, tmp_path: Path) -> None:
    evil = {"\x1b[2Jname\u202e": {"command": "x\x1b]0;t\x07", "args": ["\x1b[31m"]}, "": {"command": "y"}}
    (tmp_path / "evil.json").write_text(json.dumps({"mcpServers": evil}))
    ran = imported(str(tmp_path / "evil.json"), "--yes")
    assert ran.status == 0, ran.err
    assert "\x1b" not in ran.out + ran.err and "\u202e" not in ran.out + ran.err
    assert list(servers(alone)) == ["2jname", "server"]


def test_other_ways_to_this_gateway_are_skipped(imported: Any, home: Path, alone: Path, tmp_path: Path) -> None:
    entries = {
        "a": {"command": "/opt/bin/mcpproxy", "args": ["stdio"]},
        "b": {"command": "uvx", "args": ["--from", "mcpproxy-py", "mcpproxy", "stdio"]},
        "c": {"command": "npx", "args": ["-y", "mcp-remote", "http://localhost:8080/mcp"]},
        "d": {"url": "http://127.0.0.1:1/mcp/direct"},
        "e": {"command": "uvx", "args": ["mcp-server-git", "--repository", "/work/mcpproxy"]},
        "f": {"command": "uvx", "args": ["mcp-server-git", "--repository", "mcpproxy"]},
    }
    (tmp_path / "file.json").write_text(json.dumps({"mcpServers": entries}))
    imported(str(tmp_path / "file.json"), "--yes")
    assert list(servers(alone)) == ["e", "f"]


def test_what_was_written_is_what_our_settings_take(imported: Any, home: Path, alone: Path) -> None:
    imported("--yes")
    assert validate_text((alone / "mcp_config.json").read_text(), origin="it") == []
    assert json.loads((alone / "mcp_config.json").read_text())["//"] == "kept"


def test_a_file_that_cannot_be_written_keeps_its_servers_and_ours_are_taken(
    imported: Any, home: Path, alone: Path
) -> None:
    before = (home / ".cursor/mcp.json").read_bytes()
    (home / ".cursor/mcp.json").chmod(0o400)
    ran = imported("cursor", "--move", "--yes")
    assert ran.status == 1 and "the servers are taken, and still in this file" in ran.err and "read-only" in ran.err
    assert (home / ".cursor/mcp.json").read_bytes() == before and list(servers(alone)) == ["github-enterprise", "docs"]
    assert imported("--undo", "--yes").status == 0
    assert servers(alone) == {}


def test_an_entry_that_was_changed_meanwhile_is_not_taken_out(home: Path) -> None:
    path, kept = home / ".cursor/mcp.json", list[str]()
    before = path.read_bytes()
    with pytest.raises(GatewayError, match="docs was changed in it meanwhile"):
        take_out_of_file(path, Syntax.JSON, {("mcpServers", "docs"): {"url": "other"}}, lambda *said: kept.append("x"))
    assert path.read_bytes() == before and kept == []


def test_what_a_server_would_read_from_this_machine_is_shown_before_a_yes(
    imported: Any, home: Path, alone: Path, tmp_path: Path
) -> None:
    entry = {"url": "https://a.example/mcp", "headers": {"X-Data": "${file:/home/me/.ssh/id_rsa}", "X-Plain": "abc"}}
    other = {
        "command": "x",
        "env": {"LD_PRELOAD": "/tmp/x.so", "K": "${AWS_SECRET_ACCESS_KEY:-hunter2hunter2}"},
        "cwd": "/somewhere",
    }
    (tmp_path / "file.json").write_text(json.dumps({"mcpServers": {"a": entry, "b": other}}))
    ran = imported(str(tmp_path / "file.json"), "--dry-run")
    assert "a (file.json): sends X-Data from ${file:/home/me/.ssh/id_rsa}, X-Plain" in ran.err
    assert "b (file.json): sets LD_PRELOAD, K from ${env:AWS_SECRET_ACCESS_KEY}" in ran.err
    assert "b (file.json): starts in /somewhere" in ran.err
    assert "hunter2" not in ran.out + ran.err, "a default may be a secret"
