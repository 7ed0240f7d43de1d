"""Activity as CSV for spreadsheets, in which what an agent wrote must stay text."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mcpproxy_py.core.policy.confusables import is_invisible
from mcpproxy_py.serve.http.asgi import json_bytes

Row = Mapping[str, Any]

_FORMULA: Final = frozenset("=+-@")


def _inside(*path: str) -> Callable[[Row], Any]:
    """The value at this place, or nothing: records hold what callers sent, in any shape."""

    def take(row: Row) -> Any:
        value: Any = row
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    return take


_PLAIN: Final = ("id", "timestamp", "type", "source", "status", "server", "tool")
COLUMNS: Final[Mapping[str, Callable[[Row], Any]]] = {
    **{name: _inside(name) for name in _PLAIN},
    "tool_variant": _inside("metadata", "tool_variant"),
    "intent_type": _inside("metadata", "intent", "operation_type"),
    "intent_data_sensitivity": _inside("metadata", "intent", "data_sensitivity"),
    "intent_reason": _inside("metadata", "intent", "reason"),
    "intent_source": _inside("metadata", "intent", "source"),
    "error_code": _inside("error", "code"),
    "error_message": _inside("error", "message"),
    "duration_ms": _inside("duration_ms"),
    "session_id": _inside("session_id"),
    "request_id": _inside("request_id"),
    "client_name": _inside("client", "name"),
    "client_version": _inside("client", "version"),
    "principal": _inside("principal"),
    "arguments": _inside("arguments"),
    "response": _inside("response"),
}


def csv_header() -> str:
    return _written([list(COLUMNS)])


def csv_lines(rows: Iterable[Row]) -> str:
    return _written([_cell(take(row)) for take in COLUMNS.values()] for row in rows)


def _written(rows: Iterable[list[Any]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = value if isinstance(value, str) else json_bytes(value).decode()
    return neutral(text.encode("utf-8", "replace").decode())


def neutral(text: str) -> str:
    """An apostrophe before what a spreadsheet would run: the usual guard against formulas from outside. The first
    character that shows decides, in its plain form."""
    first = next((char for char in text if not (char.isspace() or is_invisible(char))), "")
    is_formula = unicodedata.normalize("NFKC", first) in _FORMULA or text.startswith(("\t", "\r", "\n"))
    return f"'{text}" if is_formula else text
