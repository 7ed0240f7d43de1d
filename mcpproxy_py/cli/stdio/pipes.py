"""Lines over pipes and sockets, for `mcpproxy stdio`: read as they come, written as a whole."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from mcpproxy_py.cli.stdio.conversation import not_sent, read_line
from mcpproxy_py.errors import EXIT_FAILED

CHUNK: Final = 1 << 16
LONGEST_LINE: Final = 256 << 20
_WRITING: Final = threading.Lock()


class ClientGone(Exception):
    """Nobody reads our stdout any more."""


class LineStream:
    """Whole lines, as many as come at once."""

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self._begun: list[bytes] = []
        self._size = 0

    def read(self) -> list[bytes]:
        """At least one, without its newline; none when there are no more. Raises `OSError`."""
        while chunk := self._receive():
            *whole, rest = chunk.split(b"\n")
            if whole:
                whole[0] = b"".join([*self._begun, whole[0]])
                self._begun, self._size = [], 0
            if rest:
                self._begun.append(rest)
                self._size += len(rest)
            if self._size > LONGEST_LINE:
                raise OSError(f"a line is longer than {LONGEST_LINE} bytes")
            if whole:
                return whole
        return []


def answer_to(request_id: object, lines: LineStream) -> tuple[dict[str, Any], list[bytes]]:
    """And what came beside it. Raises `OSError`."""
    others: list[bytes] = []
    while several := lines.read():
        for place, line in enumerate(several):
            found = read_line(line).message
            if found is not None and found.get("id") == request_id and "method" not in found:
                return found, [*others, *several[place + 1 :]]
            others.append(line)
    raise ConnectionResetError("it closed the connection")


def sent(gateway: socket.socket, line: bytes) -> bool:
    """False where nothing of it left, so that it may be sent elsewhere."""
    view = memoryview(line)
    try:
        while view:
            view = view[gateway.send(view) :]
    except OSError:
        return len(view) < len(line)
    return True


def write_out(data: bytes) -> None:
    """To the client, in one piece: more than one thread may have something to say. Raises `ClientGone`."""
    view = memoryview(data)
    try:
        with _WRITING:
            while view:
                view = view[os.write(1, view) :]
    except OSError:
        raise ClientGone from None


def complain(what: str) -> None:
    if not what.isprintable():  # what listens there may not drive a terminal
        from mcpproxy_py.cli.output import note

        return note(f"mcpproxy: {what}")
    with contextlib.suppress(OSError, ValueError):
        print(f"mcpproxy: {what}", file=sys.stderr, flush=True)
    return None


def write_if_read(data: bytes) -> None:
    with contextlib.suppress(ClientGone):
        write_out(data)


def refuse_everything(why: str) -> int:
    """To a client that must not get more than it was meant to: each of its requests is answered with the reason, which
    is where a person looks who does not see our stderr."""
    complain(why)
    if not os.isatty(0):
        lines = LineStream(lambda: os.read(0, CHUNK))
        with contextlib.suppress(OSError, ClientGone):
            while several := lines.read():
                requests = [line for each in several if (line := read_line(each)).is_request]
                write_out(b"".join(not_sent(line, why) for line in requests))
    return EXIT_FAILED
