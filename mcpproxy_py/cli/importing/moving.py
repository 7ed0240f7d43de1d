"""Taking servers out of a client's file, and putting the file back: every other byte stays, and nothing is lost."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mcpproxy_py.cli.clients import edits
from mcpproxy_py.cli.clients.documents import Syntax, at, parse
from mcpproxy_py.cli.clients.edit_values import EditRefused, Undo
from mcpproxy_py.cli.clients.known import KeyPath
from mcpproxy_py.cli.importing.undo import MovedFile, UndoneImport, digest
from mcpproxy_py.errors import Code, GatewayError


def take_out_of_file(
    path: Path, syntax: Syntax, entries: Mapping[KeyPath, Any], remember: Callable[[str], MovedFile]
) -> bool:
    """Takes these entries out, if they still are what was read. `remember` keeps the text of before in a safe place
    first. Raises `GatewayError`; the file is then as it was."""
    before = _bytes(path)
    text = before.decode("utf-8")
    for keys, raw in entries.items():
        if at(parse(text, syntax, path), keys) != raw:
            raise GatewayError(Code.CONFLICT, f"{keys[-1]} in {path} was changed in the meantime")
        # A table of TOML that holds nothing is not written at all.
        stays = 0 if syntax is Syntax.TOML else len(keys) - 1
        text = edits.take_out(text, syntax, Undo(keys, None, made=stays), path)
        if at(parse(text, syntax, path), keys) is not None:
            raise EditRefused("the file is written in a way that mcpproxy does not know how to edit")
    after = text.encode("utf-8")
    if after == before:
        return False
    moved = remember(before.decode("utf-8"))
    moved.after = digest(after)
    _replace(path, before, after)
    return True


def restore_file(moved: MovedFile, undone: UndoneImport) -> bool:
    """Puts the file back where it still is what the import left. What was changed since stays, and its earlier version
    is named."""
    path = Path(moved.path)
    try:
        before, now = Path(moved.backup).read_bytes(), _bytes(path)
        if now != before and digest(now) != moved.after:
            undone.left[moved.path] = f"it was changed since the import; its earlier version is {moved.backup}"
            return False
        if now != before:
            _replace(path, now, before)
    except OSError as error:
        undone.left[moved.path] = f"it cannot be put back: {error.strerror}; its earlier version is {moved.backup}"
        return False
    except GatewayError as error:
        undone.left[moved.path] = f"{error.message}; its earlier version is {moved.backup}"
        return False
    undone.files.append(moved.path)
    return True


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise GatewayError(Code.CONFLICT, f"{path} cannot be read: {error.strerror}") from None


def _replace(path: Path, before: bytes, after: bytes) -> None:
    """The file as a whole, its mode kept and a link written through, unless somebody changed it just now."""
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        mode = target.stat().st_mode & 0o7777
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if target.read_bytes() != before:
            raise GatewayError(Code.CONFLICT, f"{path} was changed in the meantime, and stays as it is")
        os.replace(temporary, target)
    except OSError as error:
        raise GatewayError(Code.CONFLICT, f"{path} cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
