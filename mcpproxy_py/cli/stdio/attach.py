"""The way to the one gateway of a data directory, over its private socket (SURF-5).

Little but the standard library: an IDE waits for `mcpproxy stdio`, so it starts fast. If no gateway runs, one is
started, detached, under a lock, so that two IDEs starting at once share it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

START_TIMEOUT = 30.0
IDLE_EXIT = 600.0
LONGEST_HELLO = 1 << 16
LONGEST_TOKEN = 1024
HELLO_TIMEOUT = 15.0
ATTEMPTS = 5
"""To attach to a gateway; each is given up only because that one ended."""


class SomebodyElse(Exception):
    """Another user listens at the socket: nothing that an agent asks is told to them."""


class NotAttached(Exception):
    """The gateway does not serve what was wished for, and says why."""


def connect(data_dir: Path) -> socket.socket | None:
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


def start_and_connect(data_dir: Path, config: Path | None) -> socket.socket | None:
    from mcpproxy_py.settings import ensure_data_dir  # costs a fifth of a second, and a start takes longer anyway

    ensure_data_dir(data_dir)
    with _locked(data_dir / "start.lock"):
        joined = connect(data_dir)  # whoever held the lock before us has started it
        if joined is not None:
            return joined
        child = _spawn(data_dir, config)
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            joined = connect(data_dir)
            if joined is not None or child.poll() is not None:
                return joined or connect(data_dir)
            time.sleep(0.02)
    return None


def attached(data_dir: Path, config: Path | None, greet: Callable[[socket.socket], None]) -> socket.socket | None:
    """Greeted by the gateway that runs, or by one that is started for it. One that ends in this very moment is not
    waited for: there is a next one. `None` where none could be started."""
    failed = 0
    while (joined := connect(data_dir) or start_and_connect(data_dir, config)) is not None:
        try:
            greet(joined)
            break
        except ConnectionError:
            joined.close()
            failed += 1
            if failed == ATTEMPTS:
                raise
    return joined


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


def _with_token(wish: dict[str, Any]) -> dict[str, Any]:
    """Where it names a file with a token, with that token. Read anew each time: it may have been rotated."""
    wish = dict(wish)
    if (file := wish.pop("token_file", None)) is None:
        return wish
    try:
        with open(file, encoding="ascii") as opened:
            token = opened.read(LONGEST_TOKEN).strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds no token"
        raise NotAttached(f"the token cannot be read from {file}: {why}") from None
    if not token:
        raise NotAttached(f"there is no token in {file}")
    return {**wish, "token": token}


def hello(joined: socket.socket, wish: dict[str, Any]) -> dict[str, Any]:
    """Say what we want; the gateway answers in one line, of which nothing else has followed yet. Raises `NotAttached`,
    and `OSError` where it ended meanwhile."""
    wish = _with_token(wish)
    joined.settimeout(HELLO_TIMEOUT)
    joined.sendall(json.dumps(wish).encode() + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        byte = joined.recv(1)
        if not byte:
            raise ConnectionResetError("the gateway closed the connection")
        answer += byte
        if len(answer) > LONGEST_HELLO:
            raise NotAttached("what listens there is not an mcpproxy gateway")
    try:
        found = json.loads(answer)
        error = found.get("error")
    except (ValueError, AttributeError, RecursionError):
        raise NotAttached("what listens there is not an mcpproxy gateway") from None
    if error is not None:
        raise NotAttached(str(error))
    joined.settimeout(None)
    return found
