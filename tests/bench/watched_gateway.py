"""A gateway that tells how long its event loop was busy: `mcpproxy` with a watchdog, for `tests.bench.silence`.

The file named by `WATCHED_FILE` holds two numbers: the longest time in seconds that passed between two looks of the
watchdog, and the most that this process itself worked in such a time. Whoever writes zeros begins anew.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import time
from typing import Any

from mcpproxy_py.app import compose
from mcpproxy_py.cli.main import main

EVERY = 0.001
FIGURES = struct.Struct("dd")
serve = compose.serve_until_stopped


class Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop, file: mmap.mmap) -> None:
        self._loop, self._file = loop, file
        self._looked, self._worked = time.perf_counter(), time.process_time()
        self.look()

    def look(self) -> None:
        now, worked = time.perf_counter(), time.process_time()
        gap, own = now - self._looked, worked - self._worked
        self._looked, self._worked = now, worked
        longest, most = FIGURES.unpack_from(self._file)
        FIGURES.pack_into(self._file, 0, max(longest, gap), max(most, min(gap, own)))
        self._loop.call_later(EVERY, self.look)


def shared(path: str) -> mmap.mmap:
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), FIGURES.size)


async def watched(*given: Any) -> None:
    Watchdog(asyncio.get_running_loop(), shared(os.environ["WATCHED_FILE"]))
    await serve(*given)


if __name__ == "__main__":
    compose.serve_until_stopped = watched
    main()
