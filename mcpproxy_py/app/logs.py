"""Logging: to stderr, as text or JSON, with the request id, and never a secret (OPS-1)."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.serve.http.guard import request_id

QUIET = ("mcp", "httpx2", "httpcore2", "uvicorn", "alembic", "asyncio", "sse_starlette", "client")
"""Libraries that narrate: below warning only where debugging is asked for."""


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
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in message)
