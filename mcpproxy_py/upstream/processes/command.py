"""What a server writes to stderr, kept small and private."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 1024 * 1024
LAST_LINE: Final = 300


class CappedLog:
    """Appends to `<name>.log` and, at the cap, moves it to `<name>.log.1`. Never raises: a full disk must
    not take a server down, and the server itself must never wait for us to read."""

    def __init__(self, path: Path, limit: int = MAX_BYTES) -> None:
        self._file = _Rolling(path, limit)
        self._recent = b""

    def beside(self) -> CappedLog:
        """For another process of the same server: one file, but each has last words of its own."""
        other = CappedLog(self._file.path)
        other._file = self._file
        return other

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def last_line(self) -> str:
        """The last thing said that is not blank, fit for one line of an error message."""
        lines = [line.strip() for line in self._recent.decode("utf-8", "replace").splitlines()]
        spoken = [line for line in lines if line]
        return "".join(c for c in spoken[-1] if c.isprintable())[:LAST_LINE] if spoken else ""

    def write(self, data: bytes) -> None:
        self._recent = (self._recent + data[-2048:])[-2048:]
        self._file.write(data)

    def begin(self, line: str) -> None:
        """Mark a new start; what an earlier process said is no longer the last line."""
        self.write(f"--- {line}\n".encode())
        self._recent = b""

    def close(self) -> None:
        self._file.close()


class _Rolling:
    """The file itself. It is opened with the first thing written, also after it was closed."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self._limit = limit
        self._file: int | None = None
        self._size = 0
        self._complained = False

    def write(self, data: bytes) -> None:
        try:
            self._append(data[-self._limit :])
        except OSError as error:
            self._complain(error)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, data: bytes) -> None:
        if self._file is None:
            self._open()
        if self._size and self._size + len(data) > self._limit:
            self._roll_over()
        assert self._file is not None
        self._size += os.write(self._file, data)

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._size = os.fstat(self._file).st_size

    def _roll_over(self) -> None:
        self.close()
        os.replace(self.path, self.path.with_name(self.path.name + ".1"))
        self._open()

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            logger.warning("%s cannot be written: %s", self.path, error)
