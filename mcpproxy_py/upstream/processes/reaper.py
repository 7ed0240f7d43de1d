"""Ends what a gateway leaves behind. Run as `python -I -S reaper.py <run>`, one per gateway, in its own session.

It holds one end of a pipe. When the gateway dies, by -9 too, that pipe ends, and the reaper kills every
process of the run: parent-death signals miss grandchildren, and process groups miss what called setsid
(UP-3). The gateway uses the same `sweep` to end one server. Standard library only, importing nothing of
mcpproxy: it has to start in milliseconds and go on when everything else is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from typing import NamedTuple

COOKIE = "MCP_GATEWAY_RUN"
"""Every child has this variable, valued `<run>:<server>`, and whatever the child starts inherits it."""
TERM_GRACE = 1.0
KILL_LIMIT = 5.0
REMEMBER_EVERY = 2.0
"""Without /proc there are no cookies, so descent has to be noted while the parents still live."""
HAS_PROC = os.path.exists("/proc/self/environ")
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


class Process(NamedTuple):
    pid: int
    parent: int
    session: int  # the process group where there is no /proc: both equal the pid of what we started
    started: str  # a pid alone may have been given to somebody else by now


def marker_of_run(run: str) -> bytes:
    return f"{COOKIE}={run}:".encode()


def marker_of_server(run: str, server: str) -> bytes:
    return f"{COOKIE}={run}:{server}\0".encode()


def processes() -> dict[int, Process]:
    """Everything that runs here now; what is already dead and only waits to be reaped is left out."""
    return _from_proc() if HAS_PROC else _from_ps()


def _from_proc() -> dict[int, Process]:
    found = (_read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def _read_stat(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()  # the name before it may hold anything
    except OSError:
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[3]), fields[19].decode())


def _from_ps() -> dict[int, Process]:
    command = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "pgid=", "-o", "stat=", "-o", "lstart="]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = (line.split(None, 4) for line in listing.splitlines())
    return {
        int(row[0]): Process(int(row[0]), int(row[1]), int(row[2]), row[4])
        for row in rows
        if len(row) == 5 and not row[3].startswith("Z")
    }


def birth(pid: int) -> str:
    """When this process started, in whatever words this system has for it; empty when it is gone."""
    process = _read_stat(pid) if HAS_PROC else _from_ps().get(pid)
    return process.started if process else ""


def carries(pid: int, marker: bytes) -> bool:
    """Whether this process was started with the cookie."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return (b"\0" + marker) in b"\0" + environ.read() + b"\0"
    except OSError:
        return False


class ProcessTree:
    """Everything that descends from what one gateway, or one of its servers, started."""

    def __init__(self, marker: bytes) -> None:
        self.marker = marker
        self.roots: dict[int, str] = {}
        self._known: dict[int, str] = {}

    def add_root(self, pid: int, started: str) -> None:
        """`started` as `birth` gave it while it surely still was that process."""
        self.roots[pid] = started

    def living(self) -> list[int]:
        """Who of the family runs now. What was seen once stays known, also when its parents are gone."""
        table = processes()
        table.pop(os.getpid(), None)
        own = {pid for pid, process in table.items() if pid > 1 and self._belongs(process, table)}
        _add_descendants(own, table)
        self._known = {pid: table[pid].started for pid in own}
        return sorted(own)

    def _belongs(self, process: Process, table: dict[int, Process]) -> bool:
        if self._known.get(process.pid) == process.started or self.roots.get(process.pid) == process.started:
            return True
        return self._in_a_session(process, table) or (HAS_PROC and carries(process.pid, self.marker))

    def _in_a_session(self, process: Process, table: dict[int, Process]) -> bool:
        started = self.roots.get(process.session)
        if started is None:
            return False
        leader = table.get(process.session)
        return leader is None or leader.started == started


def _add_descendants(own: set[int], table: dict[int, Process]) -> None:
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    waiting = list(own)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in own:
                own.add(child)
                waiting.append(child)


def sweep(family: ProcessTree, grace: float = TERM_GRACE, limit: float = KILL_LIMIT) -> list[int]:
    """Ask everybody in the family to end, then make them; again and again, since they may still be forking.

    Returns who is left after `grace + limit` seconds, which is nobody unless the system itself is stuck.
    """
    begun = 0.0
    asked: set[int] = set()
    while living := family.living():
        begun = begun or time.monotonic()  # looking takes its time on a busy machine, and nobody was asked yet
        waited = time.monotonic() - begun
        if waited > grace + limit:
            return living
        if waited > grace:
            _signal(living, KILL)
        else:
            _signal([pid for pid in living if pid not in asked], signal.SIGTERM)
            asked.update(living)
        time.sleep(0.05)
    return []


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        if sys.platform == "win32":
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(pid)], capture_output=True, check=False)
        else:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def _obey(family: ProcessTree, line: bytes) -> None:
    verb, _, rest = line.decode("utf-8", "replace").partition(" ")
    pid, _, started = rest.partition(" ")
    if not pid.isdigit():
        return
    if verb == "pid":
        family.add_root(int(pid), started)
    elif verb == "gone":
        family.roots.pop(int(pid), None)


def _next_chunk(family: ProcessTree) -> bytes:
    """What the gateway wrote; empty when it is gone. Notes descent meanwhile where nothing else will tell it."""
    while not HAS_PROC and sys.platform != "win32" and not select.select([0], [], [], REMEMBER_EVERY)[0]:
        if family.roots:
            family.living()
    return os.read(0, 65536)


def watch(run: str) -> None:
    """Until the pipe ends; then end the family. A clean exit of the gateway comes this way too."""
    family = ProcessTree(marker_of_run(run))
    unread = b""
    while chunk := _next_chunk(family):
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            _obey(family, line)
    if sys.platform == "win32":
        _signal(list(family.roots), signal.SIGTERM)
    else:
        sweep(family)


if __name__ == "__main__":
    # A Ctrl-C, a hangup or a stop meant for the gateway must not take its reaper first.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    watch(sys.argv[1])
