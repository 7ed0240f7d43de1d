"""One sync of the journal: everything it has to reach, fixed at the moment it was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mcpproxy_py.store import segments
from mcpproxy_py.store.chain import Head
from mcpproxy_py.store.segment import Segment


class Flush(NamedTuple):
    """`upto` counts the bytes that are safe once `run` has returned, and `head` is the chain as long as they make it;
    `segment` is the one written to at the time, and nothing follows in the `full` ones."""

    upto: int
    head: Head
    segment: Segment
    full: list[Segment]
    folder: Path | None

    def run(self) -> None:
        try:
            for segment in [*self.full, self.segment]:
                segment.sync()
        finally:
            for segment in self.full:
                segment.close()
        if self.folder is not None:
            segments.sync_folder(self.folder)
