"""A shell on a terminal of its own, for commands as a person types them: Bash on a pseudo-terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.readable import readable

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[ -/]*[0-~])")
_ERASED = re.compile(r"[^\n]*\n\r?\x1b\[1A\x1b\[2K")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")
"""A spinner writes the same line again and again, and takes it away at its end."""
_ENDS_WITHIN = 20.0
"""A gateway lets calls end and writes its record before it goes."""


@dataclass(frozen=True)
class Ran:
    """What was printed, and the exit statuses of the commands that failed, in their order."""

    output: str
    failed: tuple[int, ...]


class Terminal:
    """One window: what is run in it shares variables, directory and shell options, as in a person's."""

    def __init__(self, home: Path, cwd: Path, environment: Mapping[str, str], columns: int = 120) -> None:
        self._scripts = Path(tempfile.mkdtemp(dir=home.parent))
        self._statuses, told = os.pipe()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        settings = termios.tcgetattr(slave)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", _LOOP], cwd=cwd, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, pass_fds=[told],
            env={**environment, "HOME": str(home), "TERM": "xterm-256color", "STATUSES": str(told)},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        os.close(told)
        self._count = 0
        self._seen = ""

    def run(self, script: str, *, timeout: float, answers: str = "") -> Ran:
        """Run these lines to their end. `answers` is what a person would type meanwhile. Raises `TimeoutError`."""
        start = len(self._seen)
        self.begin(script)
        if answers:
            os.write(self._master, answers.encode() + b"\n")
        lines = b""
        deadline = time.monotonic() + timeout
        while not lines.endswith(b"ended\n"):
            lines += self._wait(deadline, script)
        failed = tuple(int(status) for status in lines.decode().split()[:-1])
        self._drain()
        return Ran(self._text(start), failed)

    def begin(self, script: str) -> None:
        """Start these lines, and leave them running."""
        self._count += 1
        path = self._scripts / f"{self._count}.sh"
        path.write_text(script.rstrip("\n") + "\n:\n")  # or the failure of the last would count twice
        os.write(self._master, f"{path}\n".encode())

    def until(self, said: str, timeout: float) -> str:
        """Wait until this is on the screen. Raises `TimeoutError`."""
        deadline = time.monotonic() + timeout
        while said not in (text := self._text(0)):
            self._wait(deadline, f"… {said!r}")
        return text

    def seen(self) -> str:
        """What is on the screen and above it."""
        self._drain()
        return self._text(0)

    def interrupt(self) -> None:
        """Ctrl-C, as a key."""
        os.write(self._master, b"\x03")

    def close(self) -> None:
        """Ctrl-C, and then the window is closed."""
        if self._process.returncode is not None:
            return
        with contextlib.suppress(OSError):
            self.interrupt()
        deadline = time.monotonic() + _ENDS_WITHIN
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                os.write(self._master, b"\x04")  # again and again: what runs may read one
            self._drain(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGHUP)
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for end in (self._master, self._statuses):
            os.close(end)

    def _wait(self, deadline: float, what: str) -> bytes:
        """Until something was printed or a status came, which it gives."""
        left = deadline - time.monotonic()
        ready = readable([self._statuses, self._master], left)
        if not ready:
            raise TimeoutError(f"{what}\n{self._text(0)[-3000:]}")
        if self._master in ready:
            self._read()
        if self._statuses not in ready:
            return b""
        if not (told := os.read(self._statuses, 65536)):
            raise EOFError(f"the shell ended: {what}\n{self._text(0)[-3000:]}")
        return told

    def _drain(self, wait: float = 0) -> None:
        while readable([self._master], wait):
            if not self._read():
                return

    def _read(self) -> bool:
        try:
            self._seen += os.read(self._master, 65536).decode("utf-8", "replace")
        except OSError:  # the other end is gone
            return False
        return True

    def _text(self, start: int) -> str:
        text = _ESCAPES.sub("", _ERASED.sub("", self._seen[start:]))
        return _OVERWRITTEN.sub("", text.replace("\r\n", "\n")).replace("\r", "")


# Each script is named on a line of stdin, runs in this very shell, and ends with a line on the other descriptor.
# What was typed and not asked for is left out. A Ctrl-C ends the script and not the shell.
_LOOP = r"""
trap : INT
trap 'printf "%s\n" "$?" >&"$STATUSES"' ERR
while IFS= read -r script; do
  . "$script"
  while read -r -t 0; do IFS= read -r _; done
  printf "ended\n" >&"$STATUSES"
done
"""


@contextlib.contextmanager
def terminal(home: Path, cwd: Path, environment: Mapping[str, str], columns: int = 120) -> Iterator[Terminal]:
    opened = Terminal(home, cwd, environment, columns)
    try:
        yield opened
    finally:
        opened.close()
