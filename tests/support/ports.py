"""Ports for what cannot be asked which one it took, or has to take the same one again."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def kept_port() -> Iterator[int]:
    """One that nobody else is given meanwhile. It refuses connections as long as nobody who is told of it listens."""
    with socket.socket() as keeping:
        keeping.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeping.bind(("127.0.0.1", 0))
        yield keeping.getsockname()[1]
