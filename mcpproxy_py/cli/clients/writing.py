"""Putting a client's file in its place: whole, with its mode and owner, through a symlink, and only if it is still what
was read."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.files import sync_directory

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NotWritten(GatewayError):
    """A client's file could not be written, and is as it was."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(Code.CONFLICT, f"{path} was not written: {problem}", details={"remedy": remedy})


@contextmanager
def _explained(path: Path, target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = f"Nothing was changed. Give yourself write access to {target.parent}, or paste what --print shows."
        if error.errno in _FULL:
            remedy = "The file is as it was. Free some disk space, then run this again."
        raise NotWritten(path, (error.strerror or str(error)).lower(), remedy) from None


def real_path(path: Path) -> Path:
    """The file that a symlink leads to, there or not."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        raise NotWritten(path, "its symlinks lead in a circle", "Mend the link first; nothing was changed.") from None


def missing_folders(path: Path) -> list[Path]:
    """The folders that have to be made for it, outermost first."""
    return [folder for folder in reversed(real_path(path).parents) if not folder.exists()]


def put(path: Path, raw: bytes, *, expected: bytes | None, new_mode: int) -> None:
    """Put this into the file that held `expected`, or into a new one. All of it, or nothing."""
    target = real_path(path)
    with _explained(path, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        kept = _still(path, target, expected)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                _like(path, file.fileno(), kept, new_mode)
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            _still(path, target, expected)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # it is there already
            sync_directory(target.parent)


def remove(path: Path, *, expected: bytes, folders: list[Path]) -> None:
    """Take the file away that held `expected`, and the folders made for it where nothing else is in them."""
    target = real_path(path)
    with _explained(path, target):
        _still(path, target, expected)
        target.unlink()
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def _still(path: Path, target: Path, expected: bytes | None) -> os.stat_result | None:
    """The file as it is, after making sure that it holds what was read."""
    try:
        found: bytes | None = target.read_bytes()
        kept: os.stat_result | None = target.stat()
    except FileNotFoundError:
        found = kept = None
    if found != expected:
        raise NotWritten(
            path, "it was changed by something else meanwhile", "Nothing was changed. Run this again to see it anew."
        )
    if kept is not None and not (kept.st_mode & 0o222 and os.access(target, os.W_OK)):
        raise NotWritten(path, "it is read-only", f"Nothing was changed. Make it writable: chmod u+w {target}")
    return kept


def _like(path: Path, descriptor: int, kept: os.stat_result | None, new_mode: int) -> None:
    if kept is None:
        os.fchmod(descriptor, new_mode)
        return
    own = os.fstat(descriptor)
    if (kept.st_uid, kept.st_gid) != (own.st_uid, own.st_gid):
        try:
            os.fchown(descriptor, kept.st_uid, kept.st_gid)
        except PermissionError:
            if kept.st_uid != own.st_uid:
                problem = f"it belongs to another user (uid {kept.st_uid})"
                raise NotWritten(path, problem, "Nothing was changed. Run this as that user.") from None
    os.fchmod(descriptor, stat.S_IMODE(kept.st_mode))
