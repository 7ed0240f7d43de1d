"""Events and payloads as JSON text, in both directions without a case that fails on good data."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from mcpproxy_py.core.record.masking import JsonText, json_safe


def encode(value: Any) -> bytes:
    """One line of JSON. What the encoder cannot take is made plain first, never left out."""
    try:
        return to_json(value, inf_nan_mode="strings")
    except (PydanticSerializationError, ValueError):
        return to_json(json_safe(value), inf_nan_mode="strings")


def text_of(payload: Any) -> bytes:
    """A payload that is text already goes in as it is."""
    return payload if type(payload) is JsonText else encode(payload)


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
