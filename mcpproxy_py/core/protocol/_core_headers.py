"""The HTTP headers that repeat what a modern request says in its body, so that a proxy can route without reading it.

They are only worth something when they cannot say anything else than the body does: hence one spelling for
every text (`encode_header_value`), and nobody may send one of them twice.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

PROTOCOL_VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
TRACE_CONTEXT: Final = ("traceparent", "tracestate")
"""W3C's names, the same in HTTP headers and, by SEP-414, in `_meta`."""
ROUTING: Final = frozenset({PROTOCOL_VERSION, METHOD, NAME})

NAMED_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }
)
"""Which parameter of a method the `Mcp-Name` header repeats. The tasks are of an extension."""

_PLAIN: Final = re.compile(r"[\x20-\x7E]*")
_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=")


def encode_header_value(text: str) -> str:
    """The text itself where every hop would leave it alone, else base64 between `=?base64?` and `?=`."""
    if _PLAIN.fullmatch(text) and text == text.strip(" ") and not _WRAPPED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_header_value(value: str | None) -> str | None:
    """What `encode_header_value` was given. None for no header, and for base64 that it would not have written:
    two spellings of one text would let a proxy and us read different things."""
    wrapped = _WRAPPED.fullmatch(value) if value is not None and value.startswith("=?") else None
    return _unwrapped(wrapped[1]) if wrapped else value


def _unwrapped(payload: str) -> str | None:
    try:
        content = base64.b64decode(payload, validate=True)
        return content.decode() if base64.b64encode(content).decode() == payload else None
    except ValueError:
        return None


def duplicated_routing_header(lines: Iterable[tuple[str, str]], among: frozenset[str] = ROUTING) -> str | None:
    """The first routing header that is there twice, by its lower-case name. Takes the lines as they came:
    a mapping has already chosen one, and a proxy in front may have chosen the other."""
    seen: set[str] = set()
    for name, _ in lines:
        key = name.lower()
        if key in among:
            if key in seen:
                return key
            seen.add(key)
    return None
