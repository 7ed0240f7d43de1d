"""Starting `tests.wire.everything`, the server that passes the conformance suite."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.wire.everything"]


def over_stdio(*args: str, **extra: Any) -> dict[str, Any]:
    """The configuration of one that the gateway starts itself."""
    return {"command": COMMAND[0], "args": [*COMMAND[1:], *args], "cwd": str(ROOT), **extra}


@contextlib.contextmanager
def over_http(*args: str) -> Iterator[str]:
    """The address of one that runs as long as the block."""
    process = subprocess.Popen(
        [*COMMAND, "--http", "0", *args], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    try:
        announced = process.stdout.readline().split()
        assert announced[:1] == ["PORT"], "the server did not start"
        yield f"http://127.0.0.1:{announced[1]}/mcp"
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
