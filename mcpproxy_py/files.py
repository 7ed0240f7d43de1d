"""Files that only their owner may read, and the lock that keeps a second gateway away.

Writing a file so that a reader, or a power cut, finds the old one or the new one, never half of one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mcpproxy_py.errors import Code, GatewayError, StoreUnavailable

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
        sync_directory(path.parent)


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


def sync_directory(directory: Path) -> None:
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


FOLDER_MODE = 0o700
FILE_MODE = 0o600
PATIENCE = 20.0
"""Seconds for the batch that the writer of a killed gateway is at: it gives way to everybody else on a busy machine."""


@contextmanager
def explained(path: Path, action: str) -> Iterator[None]:
    """Turns an `OSError` into a refusal that says what was tried, where, and how to mend it."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"cannot {action} {path}: {error.strerror or error}. {_remedy(error, path)}") from error


def _remedy(error: OSError, path: Path) -> str:
    if isinstance(error, PermissionError) or error.errno == 30:  # EROFS has no exception type of its own
        return f"Give the user that runs mcpproxy write access to {path.parent}, or choose another --data-dir."
    if error.errno in (28, 122):  # ENOSPC, EDQUOT
        return "Free some disk space."
    return "Check the data directory, or choose another --data-dir."


def private_folder(path: Path) -> None:
    with explained(path, "create the directory"):
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if path.stat().st_mode & 0o077:
            path.chmod(FOLDER_MODE)
    if not os.access(path, os.W_OK | os.X_OK):
        with explained(path / "x", "write into"):
            raise PermissionError(13, "Permission denied")


def private_file(path: Path, flags: int = 0) -> int:
    """A descriptor of this file, made if need be, that nobody else may read."""
    with explained(path, "open"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, FILE_MODE)
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, FILE_MODE)
        return descriptor


class FolderLock:
    """Held by the one gateway that uses a data directory. The kernel lets go of it when that process ends,
    however it ends, so there is no stale lock to clean up.

    A process that inherits `descriptor` holds the lock too. It outlives a killed gateway by moments, so a lock
    whose gateway is gone is waited for, and one whose gateway lives is not.
    """

    def __init__(self, path: Path) -> None:
        self.descriptor = private_file(path)
        give_up = time.monotonic() + PATIENCE
        while not _taken(self.descriptor):
            holder = _named_in(self.descriptor)
            if _lives(holder) or time.monotonic() > give_up:
                self.release()
                raise StoreUnavailable(
                    f"another mcpproxy (pid {holder or 'unknown'}) uses {path.parent}. "
                    "Stop it, attach to it, or choose another --data-dir."
                )
            time.sleep(0.02)
        disown(self.descriptor)
        os.pwrite(self.descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Not by unlocking: that would take the lock from those who inherited it as well."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def disown(descriptor: int) -> None:
    """The lock is still held, but no longer by the gateway it names; who finds it so may wait."""
    os.ftruncate(descriptor, 0)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _named_in(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else 0


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return pid > 0
