"""One entry of each client, as that client writes it, becomes one of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.cli.importing.convert import ConvertedServer, converted
from mcpproxy_py.cli.importing.variables import AskedFor, ImportPlace, NotCarriedOver, inputs_of

PLACE = ImportPlace("/home/me", {"TOKEN": "t", "HOME": "/home/me"}, "/home/me/.x", "/work/app")


def convert(client: str, raw: Any, place: ImportPlace = PLACE, **inputs: AskedFor) -> ConvertedServer:
    return converted(client, "it", raw, place, inputs)


def taken(client: str, raw: Any, place: ImportPlace = PLACE) -> dict[str, Any]:
    made = convert(client, raw, place)
    assert made.config is not None, made.why
    return made.config


def refused(client: str, raw: Any, place: ImportPlace = PLACE) -> str:
    made = convert(client, raw, place)
    assert made.config is None, made.config
    return made.why


NPX = {"command": "npx", "args": ["-y", "server"]}


@pytest.mark.proves("USE-1")
@pytest.mark.parametrize(
    ("client", "raw", "expected"),
    [
        # Claude Code: `claude mcp add`, with its own way to write variables.
        ("claude-code", {"type": "stdio", **NPX, "env": {"K": "${TOKEN}", "D": "${NONE:-x}"}},
         {**NPX, "env": {"K": "${env:TOKEN}", "D": "${env:NONE:-x}"}}),
        ("claude-code", {"type": "http", "url": "https://a.example/mcp", "headers": {"X": "Bearer ${TOKEN}"}},
         {"transport": "http", "url": "https://a.example/mcp", "headers": {"X": "Bearer ${env:TOKEN}"}}),
        ("claude-code", {"type": "sse", "url": "https://a.example/events"},
         {"transport": "sse", "url": "https://a.example/events"}),
        ("claude-code", {**NPX, "timeout": 90000}, {**NPX, "timeout": 90}),
        # Claude Desktop puts nothing in for a variable.
        ("claude-desktop", {**NPX, "env": {"K": "$HOME ${HOME}"}}, {**NPX, "env": {"K": "$HOME ${HOME}"}}),
        ("cursor", {**NPX, "env": {"K": "${env:TOKEN}", "W": "${workspaceFolder}/x", "H": "${userHome}"}},
         {**NPX, "env": {"K": "${env:TOKEN}", "W": "/work/app/x", "H": "/home/me"}}),
        ("cursor", {"url": "https://a.example/sse"}, {"transport": "sse", "url": "https://a.example/sse"}),
        ("cursor", {"url": "https://a.example/mcp"}, {"transport": "http", "url": "https://a.example/mcp"}),
        ("vscode", {"type": "stdio", **NPX, "env": {"P": 8080, "N": None}, "gallery": True, "version": "1.0.0"},
         {**NPX, "env": {"P": "8080"}}),
        ("vscode", {"type": "http", "url": "https://a.example/mcp", "dev": {"watch": "x"}},
         {"transport": "http", "url": "https://a.example/mcp"}),
        ("vscode", {"command": "node", "args": ["./build/index.js"]},
         {"command": "node", "args": ["./build/index.js"], "cwd": "/work/app"}),
        ("windsurf", {"serverUrl": "https://a.example/mcp", "headers": {"X": "${file:/run/key}"}},
         {"transport": "http", "url": "https://a.example/mcp", "headers": {"X": "${file:/run/key}"}}),
        ("windsurf", {**NPX, "disabled": True, "disabledTools": ["drop"]},
         {**NPX, "enabled": False, "deny_tools": ["drop"]}),
        ("gemini-cli", {**NPX, "env": {"K": "$TOKEN"}, "timeout": 30000, "includeTools": ["a(x)"],
                        "excludeTools": ["b"]},
         {**NPX, "env": {"K": "${env:TOKEN}"}, "timeout": 30, "allow_tools": ["a"], "deny_tools": ["b"]}),
        ("gemini-cli", {"httpUrl": "https://a.example/mcp", "timeout": 5000},
         {"transport": "http", "url": "https://a.example/mcp", "timeout": 5}),
        ("gemini-cli", {"command": "x", "url": "https://a.example/sse"},
         {"transport": "sse", "url": "https://a.example/sse"}),
        ("codex", {**NPX, "env_vars": ["TOKEN", {"name": "HOME", "source": "local"}], "startup_timeout_sec": 20.0,
                   "tool_timeout_sec": 1.5, "enabled_tools": ["a"], "disabled_tools": ["b"], "required": True},
         {**NPX, "env": {"TOKEN": "${env:TOKEN}", "HOME": "${env:HOME}"}, "timeout": 1.5, "connect_timeout": 20,
          "allow_tools": ["a"], "deny_tools": ["b"]}),
        ("codex", {"url": "https://a.example/mcp", "bearer_token_env_var": "TOKEN", "http_headers": {"R": "eu"},
                   "env_http_headers": {"X-Key": "HOME"}},
         {"transport": "http", "url": "https://a.example/mcp",
          "headers": {"R": "eu", "X-Key": "${env:HOME}", "Authorization": "Bearer ${env:TOKEN}"}}),
        ("codex", {**NPX, "enabled": False, "enabled_tools": []}, {**NPX, "enabled": False, "allow_tools": []}),
        ("opencode", {"type": "local", "command": ["npx", "-y", "server"], "environment": {"K": "{env:TOKEN}"},
                      "enabled": True, "timeout": 5000},
         {**NPX, "env": {"K": "${env:TOKEN}"}}),
        ("opencode", {"type": "local", "command": ["npx", "-y", "server"], "timeout": 120000}, {**NPX, "timeout": 120}),
        ("opencode", {"type": "remote", "url": "https://a.example/mcp", "headers": {"X": "Bearer {file:~/key}"}},
         {"transport": "http", "url": "https://a.example/mcp", "headers": {"X": "Bearer ${file:/home/me/key}"}}),
        ("zed", {"source": "custom", **NPX, "env": {}, "timeout": 30}, {**NPX, "timeout": 30}),
        ("zed", {"command": {"path": "npx", "args": ["-y", "server"], "env": {"A": "b"}}}, {**NPX, "env": {"A": "b"}}),
        ("zed", {"url": "https://a.example/mcp", "headers": {"X": "y"}},
         {"transport": "http", "url": "https://a.example/mcp", "headers": {"X": "y"}}),
        ("cline", {**NPX, "disabled": False, "autoApprove": [], "timeout": 60}, NPX),
        ("cline", {"url": "https://a.example/mcp"}, {"transport": "sse", "url": "https://a.example/mcp"}),
        ("cline", {"type": "streamableHttp", "url": "https://a.example/mcp", "timeout": 3600},
         {"transport": "http", "url": "https://a.example/mcp", "timeout": 3600}),
        ("goose", {"type": "stdio", "name": "it", "cmd": "npx", "args": ["-y", "server"], "envs": {"A": "b"},
                   "env_keys": ["TOKEN"], "timeout": 300, "bundled": None, "available_tools": [], "enabled": True},
         {**NPX, "env": {"TOKEN": "${env:TOKEN}", "A": "b"}, "timeout": 300}),
        ("goose", {"type": "streamable_http", "uri": "https://a.example/mcp", "headers": {"X": "Bearer $TOKEN $OTHER"},
                   "env_keys": ["TOKEN"], "timeout": 60},
         {"transport": "http", "url": "https://a.example/mcp", "headers": {"X": "Bearer ${env:TOKEN} $OTHER"}}),
        ("file", {**NPX, "transport": "stdio", "timeout": 45000, "lazy": True}, {**NPX, "timeout": 45, "lazy": True}),
        ("file", {"type": "streamable-http", "url": "https://a.example/mcp"},
         {"transport": "http", "url": "https://a.example/mcp"}),
        ("file", {"transport": {"type": "sse", "url": "https://a.example/x"}},
         {"transport": "sse", "url": "https://a.example/x"}),
    ],
)  # fmt: skip
def test_an_entry_becomes_ours(client: str, raw: dict[str, Any], expected: dict[str, Any]) -> None:
    assert taken(client, raw) == expected


@pytest.mark.parametrize(
    ("client", "raw", "why"),
    [
        ("cursor", None, "it is null, where an object is expected"),
        ("cursor", 5, "it is a number"),
        ("cursor", [], "it is a list"),
        ("cursor", {}, "it has no `command` and no `url`"),
        ("cursor", {"command": 5}, "its `command` is a number"),
        ("cursor", {"command": "  "}, "its `command` is empty"),
        ("opencode", {"type": "local", "command": []}, "its `command` is empty"),
        ("cursor", {"command": "x", "args": "y"}, "its `args` is text, where a list is expected"),
        ("cursor", {"command": "x", "args": [{}]}, "its `args` holds an object"),
        ("cursor", {"command": "x", "env": ["A=b"]}, "its `env` is a list, where an object is expected"),
        ("cursor", {"command": "x", "env": {"A": {}}}, "its `env` holds an object"),
        ("cursor", {"command": "x", "url": "https://a.example"}, "both a `command` and a `url`"),
        ("cursor", {"url": 5}, "its `url` is a number"),
        ("cursor", {"url": "ftp://a.example"}, "url: 'ftp://a.example' is not valid"),
        ("cursor", {"url": "https://a.example", "headers": {"bad name": "x"}}, "the name 'bad name' is not valid"),
        ("cursor", {"url": "https://a.example", "headers": {"X": "a\nb"}}, "one line of text"),
        ("cursor", {"command": "x\0y"}, "NUL"),
        ("cursor", {"command": "x", "args": ["${command:pick}"]}, "stands for something that only cursor knows"),
        ("claude-desktop", {"command": "x", "args": ["${a:b}"]}, "would be read as a reference of ours"),
        ("claude-code", {"type": "ws", "url": "wss://a.example"}, "it speaks WebSocket"),
        ("claude-code", {"type": "carrier pigeon", "url": "https://a.example"}, "none that is known here"),
        ("claude-code", {"type": ["stdio"], "command": "x"}, "none that is known here"),
        ("claude-code", {"type": "http", "command": "x"}, "it says http and has a `command`"),
        ("goose", {"type": "builtin", "name": "developer"}, "it is built into the client"),
        ("goose", {"type": "inline_python", "code": "x"}, "it is code inside the client's file"),
        ("goose", {"type": "streamable_http", "uri": "http://x/", "socket": "@s"}, "through a socket file"),
        ("zed", {"source": "extension", "settings": {}}, "an extension of the client starts it"),
        ("zed", {"settings": {}}, "an extension of the client starts it"),
        ("cursor", {"command": "x", "args": ["y"] * 1001}, "1001 items"),
        ("cursor", {"command": "x", "args": ["y" * 40_000]}, "40000 characters"),
        ("vscode", {"command": "${env:NOT_THERE}/x"}, "needs env NOT_THERE, which has no value here"),
        ("vscode", {"command": "x", "envFile": "${workspaceFolder}/.env"}, "its envFile"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_says_why(client: str, raw: Any, why: str) -> None:
    def unreadable(path: str) -> dict[str, str]:
        raise NotCarriedOver(f"its envFile {path} cannot be read")

    place = ImportPlace("/home/me", {}, "/home/me/.x", "/work/app", read_env_file=unreadable)
    assert why in refused(client, raw, place)


def test_a_workspace_is_needed_where_one_is_meant() -> None:
    place = ImportPlace("/home/me", {})
    assert "say which with --project DIR" in refused("vscode", {"command": "x", "args": ["${workspaceFolder}"]}, place)


def test_what_a_client_ran_without_asking_is_no_class() -> None:
    made = convert("cline", {**NPX, "autoApprove": ["search"], "alwaysAllow": ["x"]})
    assert made.config == NPX
    assert "autoApprove, alwaysAllow" in made.notes[0] and "mcpproxy tools classify" in made.notes[0]
    assert "trust" in convert("gemini-cli", {**NPX, "trust": True}).notes[0]
    assert convert("gemini-cli", {**NPX, "trust": False}).notes == ()
    assert "default_tools_approval_mode" in convert("codex", {**NPX, "default_tools_approval_mode": "approve"}).notes[0]


def test_overrides_of_a_file_lower_no_class() -> None:
    made = convert("file", {**NPX, "tools": {"drop": "read"}, "trust_annotations": True})
    assert made.config == NPX
    assert len(made.notes) == 2


def test_what_is_left_behind_is_said() -> None:
    notes = convert("vscode", {**NPX, "sandboxEnabled": True, "oauth": {"clientId": "x"}, "zebra": 1}).notes
    assert any("sandbox" in note for note in notes)
    assert any("oauth" in note for note in notes)
    assert "not taken over: 'zebra'" in notes
    assert "its timeout 'soon' is no time that can be taken over" in convert("cline", {**NPX, "timeout": "soon"}).notes
    assert "the variable 'NOWHERE' is not set here" in convert("cursor", {**NPX, "env": {"A": "${env:NOWHERE}"}}).notes


def test_an_env_file_is_read_and_its_values_are_secret() -> None:
    place = ImportPlace("/home/me", {}, project="/work/app", read_env_file=lambda path: {"A": "one", "B": path})
    made = convert("vscode", {**NPX, "envFile": "${workspaceFolder}/.env", "env": {"A": "two"}}, place)
    assert made.config is not None and made.config["env"] == {"A": "two", "B": "/work/app/.env"}
    assert made.secrets == {"one", "/work/app/.env"}


def test_an_input_is_asked_for_and_its_answer_is_secret() -> None:
    document = {"inputs": [{"id": "key", "type": "promptString", "description": "The key", "password": True}, 5, {}]}
    inputs = inputs_of(document)
    raw = {**NPX, "env": {"K": "${input:key}", "R": "${input:region}"}}
    made = convert("vscode", raw, PLACE, **inputs)
    assert made.config is None and "asks for 'key', 'region'" in made.why
    assert [each.name for each in made.asks] == ["key", "region"] and made.asks[0].about == "The key"
    answered = ImportPlace("/home/me", {}, answers={"key": "s3cret", "region": "eu"})
    again = convert("vscode", raw, answered, **inputs)
    assert again.config is not None and again.config["env"] == {"K": "s3cret", "R": "eu"}
    assert "s3cret" in again.secrets


def test_a_key_that_goose_keeps_is_asked_for_and_not_needed() -> None:
    raw = {"type": "stdio", "cmd": "x", "args": [], "env_keys": ["GOOSE_KEY"]}
    made = convert("goose", raw)
    assert made.config == {"command": "x", "env": {"GOOSE_KEY": "${env:GOOSE_KEY}"}}
    assert [each.name for each in made.asks] == ["GOOSE_KEY"]
    answered = convert("goose", raw, ImportPlace("/", {}, answers={"GOOSE_KEY": "abcd"}))
    assert answered.config == {"command": "x", "env": {"GOOSE_KEY": "abcd"}}
    assert answered.secrets == {"abcd"}


def test_no_message_repeats_a_secret(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    for raw in (
        {"command": "x", "env": {"TOKEN": {"deep": secret}}},
        {"url": f"ftp://u:{secret}@a.example"},
        {"url": "https://a.example", "headers": {"Authorization": f"Bearer {secret}\n"}},
        {"command": "x", "url": f"https://{secret}@a.example"},
    ):
        made = convert("cursor", raw)
        assert made.config is None
        assert secret not in json.dumps([made.why, made.notes])
