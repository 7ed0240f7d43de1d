"""A gateway that tells how long its event loop was busy: `mcpproxy` with a watchdog, for `tests.bench.silence`.

The file named by `WATCHED_FILE` holds three numbers: the longest time in seconds that passed between two looks of the
watchdog, the most that this process itself worked in such a time, and the most that the loop's own thread did. Whoever
writes zeros begins anew.
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
FIGURES = struct.Struct("ddd")
serve = compose.serve_until_stopped


class Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop, file: mmap.mmap) -> None:
        self._loop, self._file = loop, file
        self._looked, self._worked, self._own = time.perf_counter(), time.process_time(), time.thread_time()
        self.look()

    def look(self) -> None:
        now, worked, own = time.perf_counter(), time.process_time(), time.thread_time()
        gap, all_worked, own_worked = now - self._looked, worked - self._worked, own - self._own
        self._looked, self._worked, self._own = now, worked, own
        longest, most, most_own = FIGURES.unpack_from(self._file)
        FIGURES.pack_into(self._file, 0, max(longest, gap), max(most, min(gap, all_worked)), max(most_own, own_worked))
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
