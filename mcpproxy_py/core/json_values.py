"""JSON as the gateway decides on it: strict text in, values that every peer can read out.

Values from the wire are plain `dict`, `list` and scalars, and are asked for as such: a check against an
abstract base class costs as much as a whole rung of the decision.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 64
KINDS: Final[tuple[tuple[type[Any], str], ...]] = (
    (bool, "boolean"),
    (str, "string"),
    (int, "number"),
    (float, "number"),
    (dict, "object"),
    (list, "array"),
)


def as_object(value: object) -> dict[str, Any] | None:
    """The value where it is a JSON object. Keys of decoded JSON are always strings."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def as_array(value: object) -> list[Any] | None:
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType]


def kind(value: object) -> str:
    """The JSON word for a value, for error messages."""
    if value is None:
        return "null"
    for python, word in KINDS:
        if isinstance(value, python):
            return word
    return type(value).__name__


def decode(text: str) -> Any:
    """Strict JSON. Raises `ValueError` with a sentence; NaN, Infinity and absurd depth are not JSON."""
    try:
        return json.loads(text, parse_constant=_not_json)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno} column {error.colno}") from None


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal. This is the only comparison of JSON values in the package.

    Python's `==` takes `true` for `1` and raises on deep nesting. Here a boolean is no number, `1` equals `1.0` (JSON
    Schema 2020-12, core, section 4.2.2; the digests of pins agree), and the order of keys does not matter.
    """
    pairs: list[tuple[Any, Any]] = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if one is other:
            continue
        if isinstance(one, dict):
            if not isinstance(other, dict) or one.keys() != other.keys():  # pyright: ignore[reportUnknownMemberType]
                return False
            pairs += [(value, other[key]) for key, value in one.items()]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        elif isinstance(one, list):
            if not isinstance(other, list) or len(one) != len(other):  # pyright: ignore[reportUnknownArgumentType]
                return False
            pairs += zip(one, other, strict=True)  # pyright: ignore[reportUnknownArgumentType]
        elif type(one) in _NUMBERS and type(other) in _NUMBERS:
            if one != other and (one == one or other == other):  # NaN is the same as NaN
                return False
        elif type(one) is not type(other) or one != other:
            return False
    return True


_NUMBERS: Final = (int, float)


class ComparableObject(dict[str, Any]):
    """A JSON object inside settings: `==` of the settings compares it by `same`."""

    def __eq__(self, other: object) -> bool:
        return same(self, other)

    def __ne__(self, other: object) -> bool:
        return not same(self, other)


def flaw(value: Any, max_depth: int = MAX_DEPTH, plain: bool = False) -> str | None:
    """Why this value cannot be sent on as JSON that survives, or `None`.

    Python's decoders let NaN, infinities and lone surrogates through, and a peer that reads them
    differently than we do has been told something else than what was decided on. A strict parser vouches for strings
    (`plain`), but no parser does for numbers: `1e400` is valid JSON, and infinite.
    """
    level: list[Any] = [value]
    for _ in range(max_depth + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                if not plain and not item.isascii() and _lone_surrogate(item):
                    return "a string holds half of a surrogate pair, which is not a character"
            elif isinstance(item, dict):
                if not plain:
                    below.extend(item)  # pyright: ignore[reportUnknownArgumentType]
                below.extend(item.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
            elif isinstance(item, list):
                below.extend(item)  # pyright: ignore[reportUnknownArgumentType]
            elif isinstance(item, float):
                if not math.isfinite(item):
                    return "a number is not finite"
            elif isinstance(item, int) and item.bit_length() > 13_000:
                return "a number has more than 3,900 digits"
        if not below:
            return None
        level = below
    return f"it is nested more than {max_depth} levels deep"


def _lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def text_of(value: object) -> str:
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):  # too many digits, too deep, in a circle
        return f"({kind(value)} that cannot be shown)"


def quoted(value: object, limit: int = 80) -> str:
    """A value from outside, short and printable, for a message. Strings come without their quotes."""
    text = value if isinstance(value, str) else text_of(value)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
