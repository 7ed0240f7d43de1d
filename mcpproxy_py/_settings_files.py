"""Writing a file so that a reader, or a power cut, finds the old one or the new one, never half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mcpproxy_py.errors import Code, GatewayError

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def write_private(path: Path, text: str) -> None:
    """Replace `path` as a whole, readable by its owner only. Raises `GatewayError` that names it."""
    with _explained(path):
        temporary = _write_beside(path, text)
        try:
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)


def _write_beside(path: Path, text: str) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _sync_directory(directory: Path) -> None:
    """The new name has to survive a power cut too. Windows opens no directories, and needs not."""
    with suppress(PermissionError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """One editor at a time, across processes, without leaving a lock file. Windows goes without."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with _explained(directory):
        descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GatewayError(Code.CONFIG_INVALID, f"{path} cannot be written: {error.strerror}") from None
