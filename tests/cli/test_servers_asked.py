"""What is asked of a person on a terminal: an entry in their editor, and what a server of the catalog needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import clean_environment
from tests.support.terminal import on_terminal

SECRET = "hunter2-typed-by-hand"
# Puts in its place what the next file of a queue holds, and keeps what it was given.
EDITOR = """\
import pathlib, sys
queue, path = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
first = sorted(queue.glob("*.json"))[0]
(queue / (first.stem + ".given")).write_text(path.read_text())
path.write_text(first.read_text())
first.unlink()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    entry = {"//": "why", "command": "x", "env": {"TOKEN": SECRET}}
    (path / "mcp_config.json").write_text(json.dumps({"listen": "127.0.0.1:1", "mcpServers": {"a": entry}}))
    return path


def entries(home: Path) -> dict[str, Any]:
    return json.loads((home / "mcp_config.json").read_text())["mcpServers"]


def asked(home: Path, *words: str, answers: list[tuple[str, str]] | None = None, **env: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "mcpproxy_py", "upstream", *words]
    return on_terminal(command, clean_environment(MCPPROXY_DATA_DIR=str(home), **env), answers or [])


def editor(tmp_path: Path, *texts: str) -> str:
    queue = tmp_path / "queue"
    queue.mkdir()
    for number, text in enumerate(texts):
        (queue / f"{number}.json").write_text(text)
    (tmp_path / "editor.py").write_text(EDITOR)
    return f"{sys.executable} {tmp_path / 'editor.py'} {queue}"


@pytest.mark.proves("USE-6", "CONF-1")
def test_an_entry_that_is_wrong_comes_back_to_the_editor_as_it_was_typed(tmp_path: Path, home: Path) -> None:
    wrong = '{"command": "x", "env": {"TOKEN": "***"}, "tiemout": 3}'
    right = '{"command": "x", "env": {"TOKEN": "***"}, "timeout": 3}'
    visual = editor(tmp_path, "{ no JSON", wrong, right)
    status, shown = asked(
        home, "edit", "a", answers=[("Edit again?", "\n"), ("Edit again?", "y\n")], VISUAL=visual,
        TMPDIR=str(tmp_path),
    )  # fmt: skip
    assert status == 0, shown
    assert "this is not JSON" in shown and "did you mean `timeout`?" in shown and "Changed a." in shown
    given = [(tmp_path / "queue" / f"{number}.given").read_text() for number in range(3)]
    assert json.loads(given[0]) == {"command": "x", "env": {"TOKEN": "***"}}
    assert given[1:] == ["{ no JSON", wrong]
    assert entries(home)["a"] == {"//": "why", "command": "x", "env": {"TOKEN": SECRET}, "timeout": 3}
    assert SECRET not in shown + "".join(given)
    assert list(tmp_path.glob("mcpproxy-*")) == []


@pytest.mark.proves("USE-6")
def test_who_gives_up_finds_what_was_typed(tmp_path: Path, home: Path) -> None:
    before = entries(home)
    status, shown = asked(
        home, "edit", "a", answers=[("Edit again?", "n\n")], EDITOR=editor(tmp_path, "{ no JSON"), TMPDIR=str(tmp_path)
    )
    assert (status, entries(home)) == (2, before)
    (kept,) = tmp_path.glob("mcpproxy-*")
    assert "What you wrote is in" in shown and kept.read_text() == "{ no JSON"
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.proves("USE-6")
@pytest.mark.parametrize(("chosen", "says"), [("no-such-editor-at-all", "was not found"), ("false", "ended with")])
def test_an_editor_that_does_not_work_changes_nothing(home: Path, chosen: str, says: str) -> None:
    before = entries(home)
    status, shown = asked(home, "edit", "a", EDITOR=chosen)
    assert (status, says in shown, entries(home)) == (1, True, before)
    status, shown = asked(home, "edit", "a", EDITOR="true")
    assert (status, "Nothing was changed." in shown, entries(home)) == (0, True, before)


@pytest.mark.proves("USE-6")
def test_what_a_server_of_the_catalog_needs_is_asked(home: Path) -> None:
    status, shown = asked(
        home, "add", "--from-catalog", "brave-search", BRAVE_API_KEY="x",
        answers=[("Choose", "\n"), ("Name of the variable", "\n")],
    )  # fmt: skip
    assert status == 0, shown
    assert "BRAVE_API_KEY is a secret. Where is it?" in shown and "(is set here)" in shown
    assert entries(home)["brave-search"]["env"] == {"BRAVE_API_KEY": "${env:BRAVE_API_KEY}"}


@pytest.mark.proves("USE-6")
def test_a_secret_that_is_typed_is_not_shown(home: Path) -> None:
    status, shown = asked(
        home, "add", "es", "--from-catalog", "elasticsearch",
        answers=[("ES_URL", "http://127.0.0.1:9200\n"), ("Choose", "v\n"), ("ES_API_KEY: ", f"{SECRET}\n")],
    )  # fmt: skip
    assert (status, SECRET in shown) == (0, False)
    assert entries(home)["es"]["env"] == {"ES_URL": "http://127.0.0.1:9200", "ES_API_KEY": SECRET}


@pytest.mark.proves("USE-6")
def test_a_directory_is_asked_until_there_is_one_and_means_the_same_everywhere(home: Path, tmp_path: Path) -> None:
    status, shown = asked(
        home, "add", "--from-catalog", "filesystem",
        answers=[("allowed_directory", "\n"), ("allowed_directory", "~/docs\n")], HOME=str(tmp_path),
    )  # fmt: skip
    assert status == 0, shown
    assert entries(home)["filesystem"]["args"][-1] == str(tmp_path / "docs")
