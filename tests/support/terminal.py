"""A command on a terminal of its own, with somebody who answers what it asks."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

from tests.support.readable import readable

PATIENCE = 60.0


def on_terminal(
    command: Sequence[str], env: Mapping[str, str], answers: Sequence[tuple[str, str]] = (), columns: int = 100
) -> tuple[int, str]:
    """Its exit status and all that stood on the terminal. Each of the `answers` is typed once its prompt is there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**env, "TERM": "xterm"}, start_new_session=True
    )
    os.close(theirs)
    shown, seen, waiting, give_up = b"", 0, list(answers), time.monotonic() + PATIENCE
    try:
        while time.monotonic() < give_up:
            if not readable([ours], 0.1):
                continue
            try:
                more = os.read(ours, 65536)
            except OSError:  # what a terminal says whose last user has left
                break
            if not more:
                break
            shown += more
            while waiting and (at := shown.find(waiting[0][0].encode(), seen)) >= 0:
                seen = at + len(waiting[0][0].encode())
                os.write(ours, waiting.pop(0)[1].encode())
        text = shown.decode("utf-8", "replace").replace("\r\n", "\n")
        assert not waiting, f"never asked: {waiting[0][0]}\n{text}"
        return process.wait(PATIENCE), text
    finally:
        os.close(ours)
        if process.poll() is None:
            process.kill()
            process.wait()
