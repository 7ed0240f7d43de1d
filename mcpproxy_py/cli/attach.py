"""`mcpproxy stdio`: a client's pipes, joined to the one gateway of its data directory (SURF-5).

Little but the standard library: an IDE waits for this process, so it starts fast and copies bytes. If no
gateway runs, one is started, detached, under a lock, so that two IDEs starting at once share it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE

START_TIMEOUT = 30.0
IDLE_EXIT = 600.0
CHUNK = 1 << 16
LONGEST_HELLO = 1 << 16


class SomebodyElse(Exception):
    """Another user listens at the socket: nothing that an agent asks is told to them."""


def run(data_dir: Path, *, surface: str = "gate", server: str | None = None, config: Path | None = None) -> int:
    """Join stdin and stdout to the gateway until either side ends. Returns the exit status."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        joined = _connect(data_dir) or _start_and_connect(data_dir, config)
    except SomebodyElse as found:
        print(f"mcpproxy: {found}", file=sys.stderr)
        return EXIT_FAILED
    except OSError as error:
        print(f"mcpproxy: {error.filename} cannot be used: {error.strerror}", file=sys.stderr)
        return EXIT_FAILED
    if joined is None:
        print(f"mcpproxy: no gateway could be started; see {data_dir / 'gateway.log'}", file=sys.stderr)
        return EXIT_UNREACHABLE
    with joined:
        problem = _hello(joined, {"surface": surface, "server": server})
        if problem:
            from mcpproxy_py.cli.output import note

            note(f"mcpproxy: {problem}")
            return EXIT_FAILED
        return _pump(joined)


def _connect(data_dir: Path) -> socket.socket | None:
    """The gateway's socket, if one is listening there."""
    try:
        path = json.loads((data_dir / "gateway.json").read_text())["socket"]
        joined = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        joined.connect(path)
    except (OSError, TypeError, ValueError):
        joined.close()
        return None
    listener = _listener(joined, path)
    if listener not in (os.geteuid(), 0):
        joined.close()
        raise SomebodyElse(
            f"the gateway at the socket of {data_dir} is run by another user (uid {listener}), so nothing was sent; "
            "choose another --data-dir"
        )
    return joined


def _listener(joined: socket.socket, path: str) -> int:
    """The user who listens there, as the kernel says; where it does not, the owner of the file."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.stat(path).st_uid
    credentials = joined.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    return struct.unpack("iII", credentials)[1]


def _start_and_connect(data_dir: Path, config: Path | None) -> socket.socket | None:
    from mcpproxy_py.settings import ensure_data_dir  # costs a fifth of a second, and a start takes longer anyway

    ensure_data_dir(data_dir)
    with _locked(data_dir / "start.lock"):
        joined = _connect(data_dir)  # whoever held the lock before us has started it
        if joined is not None:
            return joined
        child = _spawn(data_dir, config)
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            joined = _connect(data_dir)
            if joined is not None or child.poll() is not None:
                return joined or _connect(data_dir)
            time.sleep(0.02)
    return None


def _spawn(data_dir: Path, config: Path | None) -> subprocess.Popen[bytes]:
    """A gateway of its own session: closing the IDE that started it must not take it from the others."""
    command = [sys.executable, "-m", "mcpproxy_py", "serve", "--detached", "--idle-exit", str(IDLE_EXIT)]
    command += ["--data-dir", str(data_dir)] + (["--config", str(config)] if config else [])
    descriptor = os.open(data_dir / "gateway.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, start_new_session=True, cwd="/"
        )
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _hello(joined: socket.socket, wish: dict[str, str | None]) -> str | None:
    """Say what we want; the gateway answers in one line, of which nothing else has followed yet."""
    joined.sendall(json.dumps(wish).encode() + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        byte = joined.recv(1)
        if not byte:
            return "the gateway closed the connection"
        answer += byte
        if len(answer) > LONGEST_HELLO:
            return "what listens there is not an mcpproxy gateway"
    try:
        error = json.loads(answer).get("error")
    except (ValueError, AttributeError, RecursionError):
        return "what listens there is not an mcpproxy gateway"
    return None if error is None else str(error)


def _pump(joined: socket.socket) -> int:
    """Bytes both ways. Ends well when the client hangs up, and with a message when the gateway does."""
    hung_up = threading.Event()

    def upward() -> None:
        with contextlib.suppress(OSError):
            _copy(lambda: os.read(0, CHUNK), joined.sendall)
        hung_up.set()
        with contextlib.suppress(OSError):
            joined.shutdown(socket.SHUT_WR)

    threading.Thread(target=upward, daemon=True).start()
    try:
        _copy(lambda: joined.recv(CHUNK), _write_out)
    except OSError:
        hung_up.set()  # our own stdout is gone, so is the client
    if hung_up.is_set():
        return EXIT_OK
    print("mcpproxy: the gateway ended", file=sys.stderr)
    return EXIT_UNREACHABLE


def _copy(read: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
    while chunk := read():
        write(chunk)


def _write_out(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
