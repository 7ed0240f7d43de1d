"""The gateway of a data directory as a process: proved to be ours before it is sent anything.

The proof is the private socket: it lies where only its owner can have put it, and the kernel says which process listens
there. A process id alone, from a file, may be of anybody by now.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcpproxy_py.cli.gateway.locate import announcement, is_private
from mcpproxy_py.errors import Code, GatewayError

LOCK: Final = "store.lock"
LOOK_EVERY: Final = 0.1
_MAC_PEER_PID: Final = (0, 2)
"""`SOL_LOCAL` and `LOCAL_PEERPID`, which Python's `socket` has no names for."""


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """A gateway that was proved to be that of this data directory."""

    pid: int
    started: float
    """Tells one run from the next of the same process."""
    restarts: bool
    url: str

    def tell(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(self.pid, number)


def running(data_dir: Path) -> GatewayProcess | None:
    """The gateway of this data directory, `None` where none runs. Raises `GatewayError` for one that cannot be proved
    to be it."""
    said = announcement(data_dir)
    if said is None:
        return None
    path = Path(str(said.get("rest_socket") or data_dir / "api.sock"))
    if not is_private(path, data_dir):
        raise _foreign(data_dir, "its socket is not where only you could have put it")
    listener = _listener(path)
    if listener is None:
        return None
    if listener != said["pid"]:
        raise _foreign(data_dir, f"process {listener or 'of another container'} listens at its socket")
    return GatewayProcess(listener, float(said.get("started") or 0), said.get("restarts") is True, said["url"])


def _foreign(data_dir: Path, why: str) -> GatewayError:
    return GatewayError(
        Code.CONFLICT,
        f"The gateway that {data_dir / 'gateway.json'} names cannot be proved to be yours ({why}), so nothing was sent "
        "to it",
        details={"remedy": "Stop it where it was started."},
    )


def _listener(path: Path) -> int | None:
    """The process that listens there, 0 where this system cannot tell, `None` where nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as joined:
        joined.settimeout(5)
        try:
            joined.connect(str(path))
            if hasattr(socket, "SO_PEERCRED"):
                found = joined.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
                return struct.unpack("iII", found)[0]
            if sys.platform == "darwin":
                return joined.getsockopt(*_MAC_PEER_PID)
        except (OSError, ValueError):
            return None
    return 0


def in_use(data_dir: Path) -> bool:
    """Whether a gateway, or the writer of one that has just ended, holds the data directory."""
    try:
        descriptor = os.open(data_dir / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def waited_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true within that time."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(LOOK_EVERY)
    return True
