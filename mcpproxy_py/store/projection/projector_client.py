"""The gateway's side of the writer apart: start it, say how far the journal goes, hear how far the database is,
replace it if it dies. Nothing depends on its life: what it has not written is in the journal."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import anyio

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.journal.segment_files import JournalPosition
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.projection.follower import FALLS_BEHIND, SLOWEST_RETRY, JournalFollower, JournalSource

log = logging.getLogger(__name__)

PROGRAM = "mcpproxy_py.store.projection.projector_process"
PASSED_ON = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What an interpreter needs to be found and to find its modules. Keys and tokens have no business there."""


class ProjectorProcess(JournalFollower):
    """A `JournalFollower` whose step is a line to the process. That inherits `lock`, so no other gateway opens this
    directory while it still writes. `unreadable` counts on from what was read before it started."""

    def __init__(
        self,
        journal: JournalSource,
        data_dir: Path,
        place: JournalPosition,
        lock: int,
        options: Options,
        unreadable: int = 0,
    ) -> None:
        super().__init__(journal, place)
        self.unreadable = unreadable
        self._options = options
        self._command = [sys.executable, "-P", "-m", PROGRAM, str(data_dir.resolve()), str(lock)]
        self._lock = lock
        self._process: subprocess.Popen[bytes] | None = None
        self._changing = Lock()
        """Around every use of the process's stdin, and every change of process."""
        self._told: JournalPosition | None = None
        self._counted = (0, 0, 0)
        """What this process has reported of failures, unreadable events and deleted rows; its successor begins at
        nothing."""
        self._last_words: str | None = None
        self._listener = Thread(target=self._keep, name="mcpproxy-store-apart", daemon=True)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        super().start()
        self._listener.start()

    def halt(self, timeout: float | None = None) -> None:
        super().halt(timeout)
        with self._changing:
            process = self._process
            if process is not None and process.stdin is not None:
                process.stdin.close()
        if process is not None:
            _end(process, timeout)
        self._listener.join(timeout)

    # -- telling

    def _step(self) -> bool:
        with self._changing:
            end = self._journal.end
            stdin = self._process.stdin if self._process else None
            if stdin is None or stdin.closed or end == self._told:
                return False
            with contextlib.suppress(OSError):
                if stdin.write(b"%d %d\n" % end) is None:
                    return True  # it reads nothing at the moment, so it is told a little later
            self._told = end
            return True

    # -- hearing, in a thread of its own

    def _keep(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            before = self.place
            status = self._one_life()
            if self._stopping.is_set():
                return
            pause = 0.05 if self.place > before else min(SLOWEST_RETRY, pause * 2 or 0.05)
            self._died(status)
            self._stopping.wait(pause)

    def _one_life(self) -> str:
        """From start to end of one process; how it ended."""
        self._last_words = None
        try:
            process = self._launched()
        except OSError as error:
            return f"cannot be started: {error.strerror or error}"
        if process is None or process.stdout is None:
            return "is not needed any more"
        with open(process.stdout.fileno(), "rb", closefd=False) as reports:
            for line in reports:
                with contextlib.suppress(ValueError):  # half a line, from one that was killed
                    self._hear(json.loads(line))
        status = process.wait()
        self._buried(process)
        return f"ended with status {status}"

    def _launched(self) -> subprocess.Popen[bytes] | None:
        with self._changing:
            if self._stopping.is_set():
                return None
            # A session of its own, because a terminal's Ctrl-C is for the gateway; no folder that others fill.
            process = subprocess.Popen(
                self._command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                pass_fds=[self._lock], start_new_session=True, cwd=os.sep, env=_bare_environment(),
            )  # fmt: skip
            if process.stdin is not None:
                process.stdin.write(f"{self._options.as_line()}\n".encode())
                os.set_blocking(process.stdin.fileno(), False)
            self._process, self._told, self._counted = process, None, (0, 0, 0)
        self.flush_soon()
        return process

    def _buried(self, process: subprocess.Popen[bytes]) -> None:
        with self._changing:
            self._process = None
            for pipe in filter(None, (process.stdin, process.stdout)):
                pipe.close()

    def _hear(self, report: dict[str, Any]) -> None:
        self._last_words = error = report["last_error"]
        if error is not None and self.last_error is None:
            log.error(FALLS_BEHIND, error)
        self.last_error = error
        if "segment" in report:
            self._count(report["failures"], report["unreadable"], report["deleted"])
            self._at(max(self.place, JournalPosition(report["segment"], report["offset"])))

    def _count(self, failures: int, unreadable: int, deleted: int) -> None:
        self.failures += failures - self._counted[0]
        self.unreadable += unreadable - self._counted[1]
        self.deleted += deleted - self._counted[2]
        self._counted = (failures, unreadable, deleted)

    def _died(self, how: str) -> None:
        self.failures += 1
        reason = f": {self._last_words}" if self._last_words else ""
        self.last_error = f"the projector process {how}{reason}"
        log.error("%s. Nothing is lost; another is started.", self.last_error)


async def run_apart(program: str, data_dir: Path, told: str) -> bytes:
    """What a program of ours has to say about a data directory, whatever its exit status. Raises `StoreUnavailable`
    with its last words for one that fails without a word."""
    command = [sys.executable, "-P", "-m", program, str(Path.cwd() / data_dir)]
    done = await anyio.run_process(command, input=told.encode(), check=False, cwd=os.sep, env=_bare_environment())
    if not done.stdout:
        raise StoreUnavailable(done.stderr.decode("utf-8", "replace").strip() or f"{program} failed.")
    return done.stdout


def _end(process: subprocess.Popen[bytes], timeout: float | None) -> None:
    """Killing it costs nothing but time: its transaction is taken back, and the next start reads those lines again."""
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)


def _bare_environment() -> dict[str, str]:
    """It must find the same package as we run, installed or not."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    ours = str(Path(__file__).resolve().parents[2])
    if ours != sysconfig.get_path("purelib"):
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, [ours, kept.get("PYTHONPATH")]))
    return kept
