"""One sync of the journal: everything it has to reach, fixed at the moment it was asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from mcpproxy_py.store import segments
from mcpproxy_py.store.chain import Head


class Flush(NamedTuple):
    """`upto` counts the bytes that are safe once `run` has returned, and `head` is the chain as long as they make it;
    `segment` is the one written to at the time."""

    upto: int
    head: Head
    segment: int
    descriptor: int
    older: list[Path]
    folder: Path | None

    def run(self) -> None:
        try:
            for path in self.older:
                _sync_file(path)
            os.fdatasync(self.descriptor)
        finally:
            os.close(self.descriptor)
        if self.folder is not None:
            segments.sync_folder(self.folder)


def _sync_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # in the database by now, and deleted
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
