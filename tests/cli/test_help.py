"""What every command says of itself: how to ask, an example that can be typed, and lines as wide as the terminal."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from mcpproxy_py.cli.main import COMMANDS, SECTIONS, app, loaded
from tests.house.test_docs import parse

MARK = "For example: "


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
    for name, child in (below or {}).items():
        yield from commands(child, (*path, name))


EVERY = [found for name in COMMANDS for found in commands(loaded(name), (name,))]
every_command = pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(path) for path, _ in EVERY])


@pytest.mark.proves("USE-6")
@every_command
def test_the_example_in_a_help_text_can_be_typed(path: tuple[str, ...], command: Any) -> None:
    examples = [" ".join(part.split()) for part in (command.help or "").split("\n\n") if MARK in part]
    assert examples, f"the docstring of `{' '.join(path)}` has no line '{MARK}mcpproxy ...'"
    for example in examples:
        words = shlex.split(example.removeprefix(MARK))
        assert tuple(words[: len(path) + 1]) == ("mcpproxy", *path)
        parse(words[1:])


@every_command
def test_h_is_help(path: tuple[str, ...], command: Any) -> None:
    short, long = (CliRunner().invoke(app, [*path, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert short.stdout.startswith(f"Usage: {'root'} {' '.join(path)}")


def test_every_command_stands_under_one_heading() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert len(listed) == len(set(listed))
    assert set(COMMANDS) <= set(listed)
    shown = CliRunner().invoke(app, ["-h"]).stdout
    assert [shown.count(f"\n  {name} ") for name in COMMANDS] == [1] * len(COMMANDS)


@pytest.mark.parametrize(("columns", "widest"), [("60", 60), ("100", 100), ("300", 110)])
def test_help_uses_the_width_of_the_terminal_up_to_where_lines_are_hard_to_read(columns: str, widest: int) -> None:
    command = [sys.executable, "-m", "mcpproxy_py", "serve", "-h"]
    done = subprocess.run(command, env={**os.environ, "COLUMNS": columns}, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert widest - 15 < max(map(len, lines)) <= widest


def test_the_list_of_a_group_has_whole_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, ["upstream", "--help"]).output
    assert "and wait until it is connected or has failed." in " ".join(shown.split())
    assert "..." not in shown.partition("Commands:")[2]
