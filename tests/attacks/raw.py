"""Bytes to a socket of a gateway and back, with nothing in between that would make HTTP of them."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

WAIT = 30.0
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@dataclass
class RawClient:
    sock: socket.socket

    def send(self, data: bytes) -> bool:
        """False when the other side has hung up."""
        try:
            self.sock.sendall(data)
        except OSError:
            return False
        return True

    def until(self, mark: bytes, timeout: float = WAIT) -> bytes:
        """All that comes up to and with `mark`; or all there was, when the other side hangs up."""
        found, deadline = b"", time.monotonic() + timeout
        while mark not in found:
            self.sock.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                more = self.sock.recv(1 << 16)
            except ConnectionError:
                return found
            if not more:
                return found
            found += more
        return found

    def rest(self, timeout: float = WAIT) -> bytes:
        """Until the other side hangs up, which it has to in time."""
        return self.until(b"\0 never \0", timeout)

    def line(self) -> Any:
        return json.loads(self.until(b"\n"))


@contextlib.contextmanager
def connected(url: str, source: str | None = None, receive_buffer: int | None = None) -> Iterator[RawClient]:
    """From an address of this machine, which has all of 127.0.0.0/8."""
    parts = urlsplit(url)
    with socket.socket() as sock:
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            sock.bind((source, 0))
        sock.settimeout(WAIT)
        sock.connect((parts.hostname, parts.port))
        yield RawClient(sock)


@contextlib.contextmanager
def attached(path: Path, hello: bytes) -> Iterator[RawClient]:
    """Over the gateway's own socket, after this first line."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(WAIT)
        sock.connect(str(path))
        sock.sendall(hello)
        yield RawClient(sock)


def statuses(said: bytes) -> list[int]:
    return [int(found) for found in _STATUS.findall(said)]


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([line, "Host: 127.0.0.1", *headers, "", ""]).encode("latin-1") + body


def memory(pid: int) -> int:
    """What this process has in memory now, in bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024
