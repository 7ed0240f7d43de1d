"""Starting `tests.wire.everything`, the server that passes the conformance suite."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.listening import listening

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.wire.everything"]


def over_stdio(*args: str, **extra: Any) -> dict[str, Any]:
    """The configuration of one that the gateway starts itself."""
    return {"command": COMMAND[0], "args": [*COMMAND[1:], *args], "cwd": str(ROOT), **extra}


@contextlib.contextmanager
def over_http(*args: str) -> Iterator[str]:
    """The address of one that runs as long as the block."""
    with listening([*COMMAND, "--http", "0", *args], cwd=ROOT, patience=10) as origin:
        yield f"{origin}/mcp"
