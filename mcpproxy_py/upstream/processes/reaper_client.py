"""The gateway's side of the reaper: start it before the first child, tell it who was started, replace it if it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import sys
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

from mcpproxy_py.upstream.processes import reaper

logger = logging.getLogger(__name__)

RESTART_PAUSE: Final = 0.5
"""Between two reapers, so that one that cannot live does not keep the machine busy."""
FAREWELL: Final = reaper.TERM_GRACE + reaper.KILL_LIMIT + 1.0
SWEEPERS: Final = 16
"""Threads of their own: a hundred servers that end together must not starve the rest of the gateway."""
PROGRAM: Final = str(Path(reaper.__file__).resolve())


class ReaperClient:
    """One per `Supervisor.run`. `run_id` marks every child of this gateway, and only of this one."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self.run_id = secrets.token_hex(16)
        self._tasks = tasks
        self._roots: dict[int, str] = {}
        self._sweepers = anyio.CapacityLimiter(SWEEPERS)
        self._process: asyncio.subprocess.Process | None = None
        self._starting = anyio.Lock()
        self._begun = False
        self._complained = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def cookie(self, server: str) -> dict[str, str]:
        return {reaper.COOKIE: f"{self.run_id}:{server}"}

    async def ensure(self) -> None:
        """Must return before a child is started: a gateway killed in between would leave it behind."""
        async with self._starting:
            if not self._begun:
                await self._start()
                self._begun = True
                self._tasks.start_soon(self._replace_when_dead)

    def announce(self, pid: int) -> None:
        """Right after the start, while the pid surely is still that process."""
        self._roots[pid] = reaper.birth(pid)
        self._tell(f"pid {pid} {self._roots[pid]}\n")

    def forget(self, pid: int) -> None:
        self._roots.pop(pid, None)
        self._tell(f"gone {pid}\n")

    async def end(self, server: str, pid: int, grace: float = reaper.TERM_GRACE) -> None:
        """End the whole tree of one server. Blocks nobody: the looking and waiting is done in a thread."""
        family = reaper.ProcessTree(reaper.marker_of_server(self.run_id, server))
        family.add_root(pid, self._roots.get(pid, ""))
        left = await anyio.to_thread.run_sync(reaper.sweep, family, grace, limiter=self._sweepers)
        if left:
            logger.error("%s: processes %s did not end", server, left)
        self.forget(pid)

    async def aclose(self) -> None:
        """Let the reaper finish; it finds nothing to do unless something was missed."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            async with asyncio.timeout(FAREWELL):
                await process.wait()
        except TimeoutError:
            process.kill()

    async def _start(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", PROGRAM, self.run_id,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
                cwd=os.sep, env=_bare_environment(), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._process = None
            self._complain(error)
        self._tell("".join(f"pid {pid} {started}\n" for pid, started in self._roots.items()))

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            logger.error(
                "the reaper process cannot be started (%s); if the gateway is killed, its servers keep running", error
            )

    async def _replace_when_dead(self) -> None:
        while True:
            if self._process is not None:
                await self._process.wait()
                logger.warning("the reaper process ended; starting another")
            await anyio.sleep(RESTART_PAUSE)
            await self._start()

    def _tell(self, text: str) -> None:
        if text and self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._process.stdin.write(text.encode())


def _bare_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("SYSTEMROOT", "PATH") if name in os.environ}
