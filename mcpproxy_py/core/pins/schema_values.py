"""What a change of one keyword of a JSON Schema comes to, where the keyword holds no schemas: a table of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from mcpproxy_py.core import json_values
from mcpproxy_py.core.pins.canonical import canonical

Accepts = Literal["wider", "narrower", "either", "same"]
Judged = tuple[Accepts, str]


class _Missing:
    """Where a keyword is not."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

TEXTS: Final = frozenset(
    ("title", "description", "$comment", "examples", "example", "deprecated", "markdownDescription")
)
"""What says something to people and models, and checks nothing."""
_MEANS_THE_SAME: Final[Judged] = ("same", "is written differently and means the same")
_TYPES: Final = frozenset(("null", "boolean", "object", "array", "number", "string", "integer"))


def leaf_change(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Judged:
    """Of a keyword that is not the same in these two schemas."""
    if key in TEXTS:
        return "same", _said(before, after, key, "is reworded")
    way = _WAYS.get(key)
    if way is None:
        return "either", "is a keyword that the gateway does not know, and is different"
    return way(before, after, key)


def for_default(old: Any, new: Any, is_input: bool) -> Judged:
    """A call that leaves an argument out means its default, so another one is another call."""
    if not is_input or old is MISSING:
        return "same", "is new" if old is MISSING else "is different"
    return "either", "is gone" if new is MISSING else "is different: a call that leaves it out does something else"


def _said(before: Mapping[str, Any], after: Mapping[str, Any], key: str, both: str) -> str:
    return "is new" if key not in before else "is gone" if key not in after else both


def _moved(gained: bool, lost: bool, text: str) -> Judged:
    """`gained`: takes something that was not taken before."""
    if gained and lost:
        return "either", text
    return ("wider", text) if gained else ("narrower", text) if lost else _MEANS_THE_SAME


def _type(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> Judged:
    old, new = _types(before.get(key, MISSING)), _types(after.get(key, MISSING))
    if old is None or new is None:
        return "either", "is no type, or was none"
    return _moved(bool(new - old), bool(old - new), _said(before, after, key, "is another"))


def _types(value: Any) -> frozenset[str] | None:
    """With `integer` beside every `number`."""
    if value is MISSING:
        return _TYPES
    names = [value] if isinstance(value, str) else json_values.as_array(value)
    if names is None or not all(isinstance(each, str) and each in _TYPES for each in names):
        return None
    return frozenset((*names, *(("integer",) if "number" in names else ())))


def _values(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> Judged:
    """`enum` and `const` together: the values that both let through."""
    old, new = _allowed(before), _allowed(after)
    if old == "?" or new == "?":
        return "either", "is no list of values, or was none"
    gained = new is None or (old is not None and bool(new - old))
    lost = old is None or (new is not None and bool(old - new))
    if old is None and new is None:
        return _MEANS_THE_SAME
    return _moved(gained and old is not None, lost and new is not None, _said(before, after, key, "has other values"))


def _allowed(schema: Mapping[str, Any]) -> frozenset[str] | Literal["?"] | None:
    """`None`: any."""
    listed = None
    if "enum" in schema:
        values = json_values.as_array(schema["enum"])
        if values is None:
            return "?"
        listed = frozenset(map(canonical, values))
    if "const" in schema:
        only = frozenset((canonical(schema["const"]),))
        listed = only if listed is None else listed & only
    return listed


def _required(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> Judged:
    old, new = _names(before.get(key, MISSING)), _names(after.get(key, MISSING))
    if old is None or new is None:
        return "either", "is no list of names, or was none"
    return _moved(bool(old - new), bool(new - old), "has other names")


def _names(value: Any) -> frozenset[str] | None:
    if value is MISSING:
        return frozenset()
    names = json_values.as_array(value)
    return None if names is None or not all(isinstance(each, str) for each in names) else frozenset(names)


def _dependent_required(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> Judged:
    old, new = (_pairs(each.get(key, MISSING)) for each in (before, after))
    if old is None or new is None:
        return "either", "is no table of names, or was none"
    return _moved(bool(old - new), bool(new - old), "has other names")


def _pairs(value: Any) -> frozenset[tuple[str, str]] | None:
    said = {} if value is MISSING else json_values.as_object(value)
    if said is None:
        return None
    names = {key: _names(each) for key, each in said.items()}
    if any(each is None for each in names.values()):
        return None
    return frozenset((key, name) for key, each in names.items() for name in each or ())


def _bound(least: float, lower: bool) -> Callable[[Mapping[str, Any], Mapping[str, Any], str], Judged]:
    """`least`: what it is where it is missing."""

    def judged(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> Judged:
        old, new = before.get(key, least), after.get(key, least)
        if not _is_number(old) or not _is_number(new):
            return "either", "is no number, or was none"
        return _moved(new < old if lower else new > old, new > old if lower else new < old,
                      _said(before, after, key, "is another"))  # fmt: skip

    return judged


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _multiple(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> Judged:
    old, new = before.get(key, MISSING), after.get(key, MISSING)
    if type(old) is int and type(new) is int and old > 0 and new > 0 and (old % new == 0 or new % old == 0):
        return _moved(old % new == 0, new % old == 0, "is another")
    return _presence(before, after, key)


def _presence(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> Judged:
    """`pattern`, `format`: nobody tells which of two lets more through."""
    if key not in before:
        return "narrower", "is new"
    return ("wider", "is gone") if key not in after else ("either", "is another")


def _unique(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> Judged:
    old, new = before.get(key, False), after.get(key, False)
    if type(old) is not bool or type(new) is not bool:
        return "either", "is neither true nor false, or was not"
    return _moved(old and not new, new and not old, "is another")


_INFINITE: Final = float("inf")
_WAYS: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any], str], Judged]]] = {
    "type": _type,
    **dict.fromkeys(("enum", "const"), _values),
    "required": _required,
    "dependentRequired": _dependent_required,
    **dict.fromkeys(("minimum", "exclusiveMinimum"), _bound(-_INFINITE, True)),
    **dict.fromkeys(("maximum", "exclusiveMaximum"), _bound(_INFINITE, False)),
    **dict.fromkeys(("minLength", "minItems", "minProperties"), _bound(0, True)),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties"), _bound(_INFINITE, False)),
    "multipleOf": _multiple,
    **dict.fromkeys(("pattern", "format"), _presence),
    "uniqueItems": _unique,
}
