"""The segment that is being written, with room reserved beyond its last line: a sync that has to make the file longer
as well takes half as long again. So zeros may follow the last line; no line contains one."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from mcpproxy_py.store.files import FILE_MODE, explained
from mcpproxy_py.store.segments import path_of

RESERVED_BYTES: Final = 1 << 20
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Segment:
    """New and empty. Written by one thread at a time; `sync` may be any other's."""

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.path = path_of(folder, number)
        with explained(self.path, "create"):
            self._descriptor = os.open(self.path, _NEW, FILE_MODE)
        self.size = 0
        """Everything before this is whole lines."""
        self._file_size = 0

    @property
    def spare(self) -> int:
        """What the file takes beyond its lines."""
        return self._file_size - self.size

    def write(self, block: bytes) -> None:
        """Raises `OSError`, and then half of it may be behind the last line, until `trim`."""
        size = self.size + len(block)
        if size > self._file_size:
            self._reserve(size + RESERVED_BYTES)
        if os.pwrite(self._descriptor, block, self.size) != len(block):
            raise OSError(errno.ENOSPC, "no space left for the whole record")
        self.size = size
        self._file_size = max(size, self._file_size)

    def _reserve(self, size: int) -> None:
        with suppress(OSError, AttributeError):  # a full disk may yet have room for the line; macOS cannot reserve any
            os.posix_fallocate(self._descriptor, self.size, size - self.size)
            self._file_size = size

    def trim(self) -> None:
        """Nothing follows the last line any more. Raises `OSError`."""
        os.ftruncate(self._descriptor, self.size)
        self._file_size = self.size

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)
