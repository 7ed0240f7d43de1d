"""Files that only their owner may read, and the lock that keeps a second gateway away."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcpproxy_py.store.failure import StoreUnavailable

FOLDER_MODE = 0o700
FILE_MODE = 0o600


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
    with explained(path, "create the folder"):
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
    however it ends, so there is no stale lock to clean up."""

    def __init__(self, path: Path) -> None:
        self._descriptor = private_file(path)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreUnavailable(
                f"another mcpproxy (pid {holder}) uses {path.parent}. "
                "Stop it, attach to it, or choose another --data-dir."
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
