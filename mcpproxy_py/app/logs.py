"""Logging: to stderr, as text or JSON, with the request id, and never a secret (OPS-1).

The same in a file of the data directory, where `mcpproxy logs` finds it however the gateway was started.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mcpproxy_py import __version__
from mcpproxy_py.core.policy.confusables import is_invisible
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.files import private_file
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.serve.http.guard import request_id

QUIET = ("mcp", "httpx2", "httpcore2", "uvicorn", "alembic", "asyncio", "sse_starlette", "client")
"""Libraries that narrate: below warning only where debugging is asked for."""

FILE: Final = "gateway.log"
LARGEST: Final = 5 << 20
"""Bytes of the file; one before it is kept, with `.1` behind its name."""


class _Masking:
    masker: Masker = MASKER


def mask_with(masker: Masker) -> None:
    """From now on, with what the operator wants masked too."""
    _Masking.masker = masker


def configure(level: str, style: str) -> None:
    """Set up the root logger once, for the whole process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    if level.lower() != "debug":
        for name in QUIET:
            logging.getLogger(name).setLevel(logging.WARNING)


def keep(path: Path) -> None:
    """From now on into this file too. Where stderr leads there already, only into it, and stdout and stderr follow."""
    root = logging.getLogger()
    ours = next(handler for handler in root.handlers if isinstance(handler.formatter, _Json | _Text))
    detached = _is_stderr(path)
    handler = _LogFile(path, detached)
    handler.setFormatter(ours.formatter)
    if detached:
        root.removeHandler(ours)
    said = {"name": __name__, "levelname": "INFO", "msg": f"mcpproxy {__version__} starts, pid {os.getpid()}"}
    handler.handle(logging.makeLogRecord(said))
    root.addHandler(handler)


def _is_stderr(path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(2), os.stat(path))
    return False


class _LogFile(logging.Handler):
    """A private file of a bounded size. Where it cannot be written the gateway goes on."""

    def __init__(self, path: Path, takes_streams: bool) -> None:
        super().__init__()
        self._path = path
        self._takes_streams = takes_streams
        self._descriptor = -1
        self._open()

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            if os.fstat(self._descriptor).st_size > LARGEST:
                os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
                self._open()
            os.write(self._descriptor, f"{self.format(record)}\n".encode("utf-8", "backslashreplace"))

    def _open(self) -> None:
        before, self._descriptor = self._descriptor, private_file(self._path, os.O_APPEND | os.O_NOFOLLOW)
        if before >= 0:
            os.close(before)
        if self._takes_streams:
            for stream in (1, 2):
                os.dup2(self._descriptor, stream)


def _parts(record: logging.LogRecord) -> dict[str, Any]:
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
    parts: dict[str, Any] = {"time": when, "level": record.levelname.lower(), "logger": record.name}
    if (current := request_id.get()) is not None:
        parts["request_id"] = _masked(current)
    return {**parts, "message": _masked(record.getMessage())}


def _masked(text: str) -> str:
    return _Masking.masker.mask(text)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = _parts(record)
        tag = f" [{parts['request_id']}]" if "request_id" in parts else ""
        line = f"{parts['time']} {parts['level']:<7} {parts['logger']}{tag}: {_one_line(parts['message'])}"
        if not record.exc_info:
            return line
        trace = _masked(self.formatException(record.exc_info))
        return "\n".join([line, *(f"  {_one_line(each)}" for each in trace.split("\n"))])


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = _parts(record)
        if record.exc_info:
            parts["exception"] = _masked(self.formatException(record.exc_info))
        return json.dumps(parts, default=str)  # ASCII: no mark in it that a terminal obeys


def _one_line(message: str) -> str:
    """Text from outside must not forge a second log line or drive the terminal."""
    if message.isascii() and message.isprintable():
        return message
    hidden = (char for char in set(message) if char != " " and (not char.isprintable() or is_invisible(char)))
    return message.translate({ord(char): f"\\x{ord(char):02x}" for char in hidden})
