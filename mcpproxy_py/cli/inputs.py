"""What people type, taken apart: JSON, pairs and times. Wrong input is wrong usage, exit status 2."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import typer

from mcpproxy_py.core import json_values

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def json_text(given: str, option: str) -> str:
    """The text itself, that of a file (`@file`), or that of stdin (`-`), of a JSON object that can be sent on."""
    text = _read(given, option)
    _decoded(text, option)
    return text


def json_object(given: str, option: str) -> dict[str, Any]:
    """Like `json_text`, decoded."""
    return _decoded(_read(given, option), option)


def one_line(given: str, option: str) -> str:
    """The text itself, that of a file (`@file`), or that of stdin (`-`)."""
    return _read(given, option).strip()


def _read(given: str, option: str) -> str:
    try:
        if given == "-":
            return sys.stdin.read()
        if given.startswith("@"):
            return Path(given[1:]).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(f"cannot read {given}: {why}", param_hint=option) from None
    return given


def _decoded(text: str, option: str) -> dict[str, Any]:
    try:
        value = json_values.decode(text)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint=option) from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"must be a JSON object, not {json_values.kind(value)}", param_hint=option)
    if flaw := json_values.flaw(value):
        raise typer.BadParameter(f"cannot be sent on: {flaw}", param_hint=option)
    return value


def key_values(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """`K=V` pairs. What is none is not repeated in the message: it may be a secret."""
    found: dict[str, str] = {}
    for item in given or ():
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise typer.BadParameter("expected K=V", param_hint=option)
        found[key] = value
    return found


def moment(given: str | None, now: datetime | None = None) -> str | None:
    """RFC 3339 from an age such as `10m`, `2h` or `3d`; anything else goes on for the gateway to judge."""
    age = re.fullmatch(r"(\d{1,6})([smhdw])", given or "", re.ASCII)
    if age is None:
        return given
    try:
        then = (now or datetime.now(UTC)) - timedelta(**{_UNITS[age[2]]: int(age[1])})
    except OverflowError:
        raise typer.BadParameter(f"{given} ago was before the first year") from None
    return then.isoformat(timespec="microseconds").replace("+00:00", "Z")
