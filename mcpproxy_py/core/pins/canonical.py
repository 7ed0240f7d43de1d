"""One text for one JSON value, however it was written: the order of keys, escapes and `1.0` for `1` do not matter.

`true` is not `1` here, as it is for Python. Whatever a server sends has such a text: numbers without end, halves of
surrogate pairs and absurd depth too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from mcpproxy_py.core import json_values

_MAY_BE_FLOAT: Final = re.compile(r"[-:\[, ]\d+(?:\.|[eE])|Infinity|NaN")
_FAST: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_STRING: Final = json.JSONEncoder().encode
LONG_BITS: Final = 13_000
"""Of a whole number; Python refuses to write longer ones in decimals."""


def canonical(value: Any) -> str:
    """In ASCII. The fast way takes one call of the C encoder; what that cannot write, or writes in two ways, is written
    by hand."""
    try:
        text = _FAST.encode(value)
    except (ValueError, TypeError, RecursionError):  # too many digits, not JSON, too deep
        return _by_hand(value)
    return _by_hand(value) if _MAY_BE_FLOAT.search(f" {text}") else text


def digest(value: Any) -> str:
    return sha256(canonical(value).encode("ascii")).hexdigest()


def same(before: Any, after: Any) -> bool:
    return before is after or canonical(before) == canonical(after)


class _Raw(str):
    """What is written as it stands."""

    __slots__ = ()


def _by_hand(value: Any) -> str:
    """The same text as the encoder's, without recursion."""
    out: list[str] = []
    left: list[Any] = [value]
    while left:
        each = left.pop()
        if isinstance(each, _Raw):
            out.append(each)
        elif isinstance(each, Mapping):
            left.extend(reversed(_object(each)))  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(each, list | tuple):
            left.extend(reversed(_array(each)))  # pyright: ignore[reportUnknownArgumentType]
        else:
            out.append(_scalar(each))
    return "".join(out)


def _object(value: Mapping[Any, Any]) -> list[Any]:
    parts: list[Any] = [_Raw("{")]
    for number, (key, item) in enumerate(sorted(value.items(), key=lambda pair: str(pair[0]))):
        parts += [_Raw(("," if number else "") + _STRING(str(key)) + ":"), item]
    return [*parts, _Raw("}")]


def _array(value: list[Any] | tuple[Any, ...]) -> list[Any]:
    parts: list[Any] = [_Raw("[")]
    for number, item in enumerate(value):
        if number:
            parts.append(_Raw(","))
        parts.append(item)
    return [*parts, _Raw("]")]


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return _STRING(value)
    if isinstance(value, float):
        if value.is_integer():
            return _whole(int(value))
        return repr(value) if value == value and value not in (float("inf"), float("-inf")) else _STRING(repr(value))
    if isinstance(value, int):
        return _whole(value)
    return _STRING(f"({json_values.kind(value)})")


def _whole(value: int) -> str:
    return str(int(value)) if value.bit_length() <= LONG_BITS else _STRING(hex(value))
