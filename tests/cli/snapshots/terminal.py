"""The real command on a pseudo-terminal of some width, and what stands on it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.support.readable import readable

LINES: Final = 40
PATIENCE: Final = 60.0


def run(
    words: Sequence[str],
    width: int,
    environment: Mapping[str, str],
    program: Sequence[str] = ("-m", "mcpproxy_py"),
    until: Callable[[str], bool] | None = None,
) -> str:
    """All that it wrote to the terminal. With `until`, it is ended by Ctrl-C once that is true."""
    person, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, *program, *words], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        env={"TERM": "xterm-256color", **environment}, preexec_fn=_take_terminal,
    )  # fmt: skip
    os.close(terminal)
    written, deadline = b"", time.monotonic() + PATIENCE
    try:
        while time.monotonic() < deadline:
            if readable([person], 0.2):
                try:
                    chunk = os.read(person, 65536)
                except OSError:  # how Linux says that nobody is at the other end
                    break
                if not chunk:
                    break
                written += chunk
            if until is not None and until(written.decode("utf-8", "replace")):
                os.write(person, b"\x03")
                until = None
        else:
            raise AssertionError(f"{words} did not end; it wrote {written!r}")
        process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)
        os.close(person)
    return written.decode("utf-8", "replace").replace("\r\n", "\n")


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
