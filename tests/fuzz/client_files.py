"""The settings files of clients, which `mcpproxy connect` reads and edits."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path

from mcpproxy_py.cli.clients import diff, documents, jsonc
from mcpproxy_py.cli.clients.documents import Syntax, UnreadableFile
from mcpproxy_py.cli.clients.editing import edits
from mcpproxy_py.cli.clients.editing.values import Addition, EditRefused

FILE = Path("/home/somebody/settings")
ENTRY = {"type": "stdio", "command": "/opt/mcp proxy/mcpproxy", "args": ["stdio", "--data-dir", "/däta"], "tools": {}}
SERVER = Addition(("mcpServers", "mcpproxy"), ENTRY)
RULE = Addition(("permissions", "allow"), "mcp__mcpproxy__call_tool_read", is_item=True)


def edit_json(data: bytes) -> Hashable:
    """Any text: what is wrong with it and where, or the same values as any parser of JSON finds where it is plain JSON.
    What is put in can be taken out again, and every byte is as before."""
    text = data.decode("utf-8", "replace")
    try:
        strict = json.loads(text)
    except (ValueError, RecursionError):
        strict = None
    if isinstance(strict, dict) and not any(sign in text for sign in ("NaN", "Infinity")):
        root = jsonc.parse(text)
        assert root is not None and root.value() == strict
    return _edited(text, Syntax.JSON, (SERVER, RULE))


def edit_toml(data: bytes) -> Hashable:
    """The same of TOML."""
    return _edited(data.decode("utf-8", "replace"), Syntax.TOML, (SERVER,))


def edit_yaml(data: bytes) -> Hashable:
    """The same of YAML."""
    return _edited(data.decode("utf-8", "replace"), Syntax.YAML, (SERVER, RULE))


def _edited(text: str, syntax: Syntax, additions: tuple[Addition, ...]) -> Hashable:
    assert diff.masked(text, syntax).count("\n") >= 0
    try:
        documents.parse(text, syntax, FILE)
    except UnreadableFile as error:
        assert error.line is None or 1 <= error.line <= len(text) + 2
        assert len(error.message) < 2000
        return "unreadable", error.line is None
    found: list[str] = []
    for addition in additions:
        try:
            after, undo = edits.add(text, syntax, addition, FILE)
        except EditRefused:
            found.append("refused")
            continue
        if undo is None:
            found.append("there")
            continue
        value = documents.at(documents.parse(after, syntax, FILE), addition.path)
        assert addition.value in value if addition.is_item else value == addition.value
        try:
            again = edits.take_out(after, syntax, undo, FILE)
        except EditRefused:
            assert undo.replaced is not None, "what was put in cannot be taken out"
            found.append("stays")
            continue
        if undo.replaced is None or syntax is Syntax.JSON:
            assert again == text, "taking it out leaves something else"
        found.append("edited")
    return tuple(found)
