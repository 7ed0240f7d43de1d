"""A program that listens on a port of this machine and says which, for the length of a block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def listening(command: Sequence[str], *, cwd: Path | None = None, patience: float = 0.0) -> Iterator[str]:
    """Its origin. At the end its input is closed; it is killed if it has not ended after `patience` seconds."""
    process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    try:
        announced = process.stdout.readline().split()
        assert announced[:1] == ["PORT"], "the server did not start"
        yield f"http://127.0.0.1:{announced[1]}"
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
