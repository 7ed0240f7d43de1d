"""Any value as plain JSON that every encoder and decoder takes: bounded depth, finite numbers, valid Unicode.

What comes from agents and upstreams is not; and a record that cannot be written, or not be read back,
would be a call without a record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

DEEPEST: Final = 64
TOO_DEEP: Final = "[nested too deep to record]"
_LONGEST_INT: Final = 1 << 4096
compact: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class JsonText(bytes):
    """A value that has been encoded already. Who writes what it is part of puts it there as it stands."""

    __slots__ = ()


def encode(value: Any) -> bytes:
    """Compact JSON. Raises `ValueError` or `TypeError` for what JSON cannot say."""
    return compact(value).encode()


def json_text(value: Any, encode: Callable[[Any], bytes] = encode) -> bytes | None:
    """The compact JSON text of a value that is fit as it is; `None` for one that needs `json_safe` first."""
    try:
        text = encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    # Text with few brackets cannot be deep, which spares nearly every value the walk.
    return text if text.count(b"[") + text.count(b"{") <= DEEPEST or _shallow(value, DEEPEST) else None


def _shallow(value: Any, allowed: int) -> bool:
    if not isinstance(value, (dict, list, tuple)):
        return True
    children: Any = list(cast("dict[Any, Any]", value).values()) if isinstance(value, dict) else cast("Any", value)
    return allowed > 0 and all(_shallow(child, allowed - 1) for child in children)


def json_safe(value: Any, depth: int = 0) -> Any:
    """A copy of anything as plain JSON values; what JSON cannot say is said in text."""
    if isinstance(value, str):
        return valid(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_LONGEST_INT < value < _LONGEST_INT else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if depth >= DEEPEST:
        return TOO_DEEP
    return _safe_container(value, depth + 1)


def _safe_container(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {valid(key_text(key)): json_safe(item, depth) for key, item in items}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_safe(item, depth) for item in cast("list[Any]", value)]
    return valid(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def key_text(key: Any) -> str:
    """A key as JSON would write it: `true`, `null` and numbers become their own text."""
    if isinstance(key, str):
        return key
    return json.dumps(key) if key is None or isinstance(key, (bool, float)) else str(json_safe(key))


def valid(text: str) -> str:
    """Lone surrogates cannot be written as UTF-8; they become replacement characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return str(text)


def pruned(value: Any, budget: int) -> Any:
    """The beginning of a value: about `budget` characters of its JSON, walked in order, without reading the rest."""
    return _prune(value, [budget], 0)


def _prune(value: Any, left: list[int], depth: int) -> Any:
    if isinstance(value, str):
        value = value[: max(left[0], 0)]
        left[0] -= len(value) + 2
        return value
    left[0] -= 2
    if depth >= DEEPEST:
        return TOO_DEEP
    if isinstance(value, Mapping):
        return dict(_pruned_items(cast("Mapping[Any, Any]", value), left, depth + 1))
    if isinstance(value, (list, tuple)):
        return [_prune(item, left, depth + 1) for item in _while_left(cast("list[Any]", value), left)]
    return json_safe(value)


def _pruned_items(items: Mapping[Any, Any], left: list[int], depth: int) -> Iterator[tuple[str, Any]]:
    for key in _while_left(items, left):
        name = key_text(key)[: max(left[0], 1)]
        left[0] -= len(name) + 3
        yield name, _prune(items[key], left, depth)


def _while_left(items: Any, left: list[int]) -> Iterator[Any]:
    for item in items:
        if left[0] <= 0:
            return
        yield item
