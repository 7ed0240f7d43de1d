"""An entry in the person's own editor, until it is right or they give up. What they typed is never lost."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from mcpproxy_py.cli.output import note
from mcpproxy_py.core import json_values
from mcpproxy_py.errors import Code, GatewayError

FALLBACKS: Final = ("nano", "vi")


def edit_entry(name: str, entry: Mapping[str, Any], put: Callable[[dict[str, Any]], Any]) -> Any:
    """What `put` gave for what the person made of the entry, or None where they left it as it was."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        message = "there is no terminal to edit on; say what to change with --env, --arg, --unset, ... or --json"
        raise typer.BadParameter(message, param_hint="NAME")
    before = json.dumps(entry, indent=2, ensure_ascii=False) + "\n"
    handle, path = tempfile.mkstemp(prefix=f"mcpproxy-{name}-", suffix=".json")  # readable by its owner alone
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(before)
    kept = Path(path)
    while True:
        _open(kept)
        text = kept.read_text(encoding="utf-8", errors="replace")
        if text.strip() == before.strip():
            kept.unlink()
            return None
        try:
            done = put(_decoded(text))
        except GatewayError as error:
            if error.code not in (Code.CONFIG_INVALID, Code.BAD_REQUEST):
                note(f"What you wrote is in {kept}.")
                raise
            _explain(error)
            if not _again(kept):
                raise typer.Exit(2) from None
            continue
        except BaseException:
            note(f"What you wrote is in {kept}.")
            raise
        kept.unlink()
        return done


def _decoded(text: str) -> dict[str, Any]:
    try:
        value = json_values.decode(text)
    except ValueError as error:
        raise GatewayError(Code.BAD_REQUEST, f"this is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise GatewayError(Code.BAD_REQUEST, f"an entry is a JSON object, and not {json_values.kind(value)}")
    return value


def _explain(error: GatewayError) -> None:
    note(f"Not written: {error.message}")
    if remedy := error.details.get("remedy"):
        note(f"  {remedy}")


def _again(kept: Path) -> bool:
    try:
        again = typer.confirm("Edit again?", default=True, err=True)
    except typer.Abort:
        again = False
    if not again:
        note(f"Nothing was changed. What you wrote is in {kept}.")
    return again


def _open(path: Path) -> None:
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    for editor in [chosen] if chosen else FALLBACKS:
        try:
            status = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise GatewayError(Code.BAD_REQUEST, f"the editor `{editor}` cannot be started: {error}") from None
        if status:
            raise GatewayError(Code.UPSTREAM_ERROR, f"the editor `{editor}` ended with status {status}")
        return
    named = f"`{chosen}` was not found" if chosen else "none was found"
    raise GatewayError(Code.NOT_FOUND, f"No editor: {named}; set EDITOR, or use the flags of `mcpproxy upstream edit`")
