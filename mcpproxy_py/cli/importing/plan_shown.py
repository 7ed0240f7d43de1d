"""The plan of an import as people read it. A person says yes to commands that will be run, so none is cut short."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy_py.cli.importing.plain_secrets import surroundings_shown
from mcpproxy_py.cli.importing.plan import TAKEN, ImportRow, lines_of
from mcpproxy_py.cli.output import cell, note, table

_INDENT: Final = 10
_STYLES: Final = {"take": "green", "replace": "yellow", "skip": "dim", "cannot": "red"}
_NARROWEST: Final = 30


def show_rows(rows: list[ImportRow], files: Iterable[str]) -> None:
    """A few lines for each server on a terminal; elsewhere a table, and what has to be said besides on stderr."""
    if rows and sys.stdout.isatty():
        _on_terminal(rows)
    else:
        cells = [(row.server.origin, _both_names(row), row.start, _what(row)) for row in rows]
        looked = ", ".join(files) or "any file of a client"
        table(("from", "name", "starts with", "what happens"), cells, empty=f"No servers were found in {looked}.")
        for whose, text in lines_of(rows):
            note(f"{whose}: {text}")
    if rows:
        note(counted(rows))


def _on_terminal(rows: list[ImportRow]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    for row in rows:
        console.print(Text(row.action.ljust(_INDENT), style=_STYLES[row.action]), end="")
        first, *rest = plan_lines(row, width)
        console.print(Text(first[_INDENT:], style="bold"))
        for line in rest:
            console.print(Text(line))


def plan_lines(row: ImportRow, width: int) -> Iterator[str]:
    """All lines of one server, indented as far as the action goes that stands before the first."""
    origin = f"{row.server.origin}, there: {row.server.name}" if row.name != row.server.name else row.server.origin
    yield from _wrapped(f"{cell(row.name)}  ({cell(origin)})", width)
    if row.start:
        yield from _wrapped(cell(row.start), width)
    given = surroundings_shown(row.config or {}) if row.action in TAKEN else ()
    for text in (row.why, *given, *row.notes, _of_secrets(row)):
        if text:
            yield from _wrapped(f"- {cell(text)}", width, "  ")


def _wrapped(text: str, width: int, hanging: str = "") -> list[str]:
    before = " " * _INDENT
    return textwrap.wrap(
        text,
        width,
        initial_indent=before,
        subsequent_indent=before + hanging,
        break_on_hyphens=False,
    )


def _of_secrets(row: ImportRow) -> str:
    names = ", ".join(secret.where for secret in row.secrets)
    return f"plain secrets: {names}" if names else ""


def _both_names(row: ImportRow) -> str:
    return row.server.name if row.server.name == row.name else f"{row.server.name} -> {row.name}"


def _what(row: ImportRow) -> str:
    off = row.action in TAKEN and row.config is not None and not row.config.get("enabled", True)
    action = f"{row.action}, disabled" if off else row.action
    return f"{action}: {row.why}" if row.why else action


def counted(rows: list[ImportRow]) -> str:
    """How many of each, in one line."""
    count = Counter("take" if row.action in TAKEN else row.action for row in rows)
    words = (("take", "to take"), ("skip", "to skip"), ("cannot", "that cannot be taken"))
    return "Servers: " + ", ".join(f"{count[action]} {says}" for action, says in words if count[action]) + "."
