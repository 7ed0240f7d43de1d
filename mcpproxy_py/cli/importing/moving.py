"""Taking servers out of a client's file, and putting the file back: every other byte stays, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mcpproxy_py.cli.clients.documents import Syntax, UnreadableFile, at, parse
from mcpproxy_py.cli.clients.editing import edits
from mcpproxy_py.cli.clients.editing.values import Addition, EditRefused, Undo
from mcpproxy_py.cli.clients.known import KeyPath
from mcpproxy_py.cli.clients.writing import NotWritten, put
from mcpproxy_py.cli.importing.undo import MovedFile, UndoneImport, digest
from mcpproxy_py.errors import GatewayError
from mcpproxy_py.files import PRIVATE_FILE


def take_out_of_file(
    path: Path,
    syntax: Syntax,
    entries: Mapping[KeyPath, Any],
    remember: Callable[[str, str, str, list[list[str]]], object],
) -> bool:
    """Takes these entries out, if they still are what was read. `remember` keeps the text of before in a safe place
    first. Raises `GatewayError`; the file is then as it was."""
    before = _bytes(path)
    text = before.decode("utf-8")
    for keys, raw in entries.items():
        if at(parse(text, syntax, path), keys) != raw:
            raise NotWritten(path, f"{keys[-1]} was changed in it meanwhile", "Run this again to see it anew.")
        # A table of TOML that holds nothing is not written at all.
        stays = 0 if syntax is Syntax.TOML else len(keys) - 1
        text = edits.take_out(text, syntax, Undo(keys, None, made=stays), path)
        if at(parse(text, syntax, path), keys) is not None:
            raise EditRefused("the file is written in a way that mcpproxy does not know how to edit")
    after = text.encode("utf-8")
    if after == before:
        return False
    remember(before.decode("utf-8"), digest(after), syntax.value, [list(keys) for keys in entries])
    put(path, after, expected=before, new_mode=PRIVATE_FILE)
    return True


def restore_file(moved: MovedFile, undone: UndoneImport) -> bool:
    """Puts the file back where it still is what the import left. One that was changed since gets back what was taken
    out, and keeps the rest; where that cannot be, its earlier version is named."""
    path = Path(moved.path)
    try:
        before, now = Path(moved.backup).read_bytes(), _bytes(path)
        if now != before and digest(now) != moved.after:
            put(path, _refilled(moved, before, now), expected=now, new_mode=PRIVATE_FILE)
            undone.refilled.append(moved.path)
            return True
        if now != before:
            put(path, before, expected=now, new_mode=PRIVATE_FILE)
    except OSError as error:
        undone.left[moved.path] = f"it cannot be put back: {error.strerror}; its earlier version is {moved.backup}"
        return False
    except (GatewayError, ValueError) as error:
        why = error.message if isinstance(error, GatewayError) else "it cannot be read any more"
        undone.left[moved.path] = f"{why}; its earlier version is {moved.backup}"
        return False
    undone.files.append(moved.path)
    return True


def _refilled(moved: MovedFile, before: bytes, now: bytes) -> bytes:
    path, syntax, text = Path(moved.path), Syntax(moved.syntax), now.decode("utf-8")
    old = parse(before.decode("utf-8"), syntax, path)
    for keys in map(tuple, moved.entries):
        there, was = at(parse(text, syntax, path), keys), at(old, keys)
        if there is not None and there != was:
            raise EditRefused(f"another {keys[-1]} stands in it now")
        text = edits.add(text, syntax, Addition(keys, was), path)[0]
    return text.encode("utf-8")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableFile(path, (error.strerror or str(error)).lower()) from None
