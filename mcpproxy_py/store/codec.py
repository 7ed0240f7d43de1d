"""Events and payloads as JSON text, in both directions without a case that fails on good data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from mcpproxy_py.core.plain import JsonText, json_safe

PAYLOADS = ("arguments", "response")


def encode(value: Any) -> bytes:
    """One line of JSON. What the encoder cannot take is made plain first, never left out."""
    try:
        return to_json(value, inf_nan_mode="strings")
    except (PydanticSerializationError, ValueError):
        return to_json(json_safe(value), inf_nan_mode="strings")


def line(event: Mapping[str, Any]) -> bytes:
    """An event as a line of the journal. Its payloads are text already, and go in as they are."""
    rest = dict(event)
    payloads = [f',"{key}":'.encode() + rest.pop(key) for key in PAYLOADS if type(rest.get(key)) is JsonText]
    return b"".join([encode(rest)[:-1], *payloads, b"}\n"])


def decode(text: bytes | str) -> Any:
    """The value of a JSON text. Raises `ValueError` for what is not JSON at all."""
    try:
        return from_json(text, cache_strings="keys")
    except ValueError:
        # The quick decoder has limits (depth, digits) that the encoder does not have.
        return json.loads(text, parse_int=_any_int)


def _any_int(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits
