"""One text for one JSON value, however it was written: the order of keys, escapes and `1.0` for `1` do not matter.

`true` is not `1` here, as it is for Python. Whatever a server sends has such a text: numbers without end, halves of
surrogate pairs and absurd depth too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

from mcpproxy_py.core import json_values

_MAY_BE_FLOAT: Final = re.compile(r"(?:^|[:\[,])-?(?:\d+[.eE]|Infinity)|NaN")
_FAST: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_STRING: Final = json.JSONEncoder().encode
LONG_BITS: Final = 13_000
"""Of a whole number; Python refuses to write longer ones in decimals."""


AT_ONCE: Final = 10_000
"""Values that are written in one call of the C encoder, which holds the interpreter meanwhile: a few milliseconds."""


def canonical(value: Any) -> str:
    """In ASCII. The fast way takes one call of the C encoder; what that cannot write, writes in two ways, or would
    write too long, is written by hand."""
    if _holds_many(value):
        return _by_hand(value)
    try:
        text = _FAST.encode(value)
    except (ValueError, TypeError, RecursionError):  # too many digits, not JSON, too deep
        return _by_hand(value)
    return _by_hand(value) if _MAY_BE_FLOAT.search(text) else text


def _holds_many(value: Any) -> bool:
    level: list[Any] = [value]
    for each in level:
        if (said := json_values.as_object(each)) is not None:
            level += said.values()
        elif (array := json_values.as_array(each)) is not None:
            level += array
        if len(level) > AT_ONCE:
            return True
    return False


def digest(value: Any) -> str:
    return sha256(canonical(value).encode("ascii")).hexdigest()


def _by_hand(value: Any) -> str:
    """The same text as the encoder's, without recursion: texts that are written, and what is still to be written."""
    out: list[str] = []
    left: list[tuple[str, Any]] = [("", value)]
    while left:
        text, each = left.pop()
        out.append(text)
        if (said := json_values.as_object(each)) is not None:
            left += _begun("{", ((f"{_STRING(str(key))}:", said[key]) for key in sorted(said, key=str)), "}")
        elif (array := json_values.as_array(each)) is not None:
            left += _begun("[", (("", item) for item in array), "]")
        elif each is not _NOTHING:
            out.append(_scalar(each))
    return "".join(out)


_NOTHING: Final = object()


def _begun(begin: str, items: Iterable[tuple[str, Any]], end: str) -> list[tuple[str, Any]]:
    """An object or array as texts, each with what is to be written behind it; the last first, as that is taken from the
    end. What holds nothing more is in the texts."""
    todo: list[tuple[str, Any]] = []
    text = [begin]
    between = ""
    for key, item in items:
        text += (between, key)
        between = ","
        if isinstance(item, dict | list) and item:
            todo.append(("".join(text), item))  # pyright: ignore[reportUnknownArgumentType]
            text = []
        else:
            text.append(_scalar(item))
    todo.append(("".join((*text, end)), _NOTHING))
    return todo[::-1]


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return _STRING(value)
    if isinstance(value, float):
        if value.is_integer():
            return _whole(int(value))
        return repr(value)
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    return f"({json_values.kind(value)})"


def _whole(value: int) -> str:
    return str(int(value)) if value.bit_length() <= LONG_BITS else hex(value)
