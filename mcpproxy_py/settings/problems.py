"""From what pydantic found to sentences for people: which key, what it holds, what was expected, what is near.

A value that may be a secret is never repeated: not of a key that holds one, not of a key nobody knows, and
not of text that stands where an object should.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import reduce
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcpproxy_py.settings.document import ConfigProblem, KeyPath
from mcpproxy_py.settings.environment import fields_by_key, is_model, known_keys, type_at
from mcpproxy_py.settings.masking import is_secret_place, masked_text
from mcpproxy_py.settings.models import Settings

_EXPECTED: Final[Mapping[str, str]] = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "path_type": "a path, as text",
    "dict_type": "an object",
    "model_type": "an object",
    "tuple_type": "a list",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than_equal": "{le:g} or less",
    "literal_error": "{expected}",
    "string_too_short": "text that is not empty",
    "string_too_long": "at most {max_length} characters",
}
_CONTAINERS: Final = ("dict_type", "model_type", "tuple_type")
_LONGEST_SHOWN: Final = 80


def problems_in(error: ValidationError, written: Any) -> list[ConfigProblem]:
    """Every problem, in the order of the models. Values are shown as `written`, before secrets were filled in."""
    return [_problem(detail, written) for detail in error.errors(include_url=False)]


def unknown_key(path: KeyPath) -> ConfigProblem:
    """For a key that no model has; its value stays unsaid, because nobody knows whether it is a secret."""
    near = _nearest(path)
    return ConfigProblem(path, "is not a known key" + (f"; did you mean `{near}`?" if near else _choices(path[:-1])))


def _problem(detail: ErrorDetails, written: Any) -> ConfigProblem:
    path, kind = detail["loc"], detail["type"]
    if kind == "extra_forbidden":
        return unknown_key(path)
    if kind == "missing":
        return ConfigProblem(path, "is missing")
    expected = _expected(detail)
    if path and path[-1] == "[key]":
        return ConfigProblem(path[:-2], f"the name {_quoted(path[-2])} is not valid; expected {expected}")
    path = _as_far_as_written(path, written)
    return ConfigProblem(path, _about_value(path, kind, expected, written))


def _about_value(path: KeyPath, kind: str, expected: str, written: Any) -> str:
    found = _at(written, path)
    if isinstance(found, (dict, list)) and kind not in _CONTAINERS:
        return f"expected {expected}"
    near = get_close_matches(found, re.findall(r"'([^']*)'", expected), n=1) if isinstance(found, str) else []
    hint = f"; did you mean '{near[0]}'?" if near and kind == "literal_error" else ""
    return f"{_shown(path, kind, found)} is not valid; expected {expected}{hint}"


def _expected(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "value_error":
        return str(context["error"])
    template = _EXPECTED.get(detail["type"])
    return template.format(**context) if template else detail["msg"]


def _as_far_as_written(path: KeyPath, written: Any) -> KeyPath:
    """Validation may look deeper than people write: `"tool": "read"` is short for a list of one object."""
    for depth, key in enumerate(path):
        if isinstance(written, str):
            return path[:depth]
        written = _inside(written, key)
    return path


def _at(value: Any, path: KeyPath) -> Any:
    return reduce(_inside, path, value)


def _inside(value: Any, key: str | int) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        return None


def _shown(path: KeyPath, kind: str, value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if is_secret_place(path):
        return "***"
    if kind in _CONTAINERS and isinstance(value, str):
        return "text"
    return _quoted(value)


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        text = "".join(char if char.isprintable() else "\ufffd" for char in masked_text(value))
        return f"'{_cut(text)}'"
    return _cut(json.dumps(value, default=str))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _nearest(path: KeyPath) -> str | None:
    """The right key beside this one; else the same key in another section, a common slip."""
    key = str(path[-1])
    siblings = {name.lower(): name for name in _keys_at(path[:-1])}
    near = get_close_matches(key.lower(), siblings, n=1)
    if near:
        return siblings[near[0]]
    return next((known for known, _ in known_keys() if known.rpartition(".")[2] == key and known != key), None)


def _choices(path: KeyPath) -> str:
    keys = sorted(_keys_at(path))
    return f"; known here are {', '.join(keys)}" if keys else ""


def _keys_at(path: KeyPath) -> list[str]:
    at: type[BaseModel] | Any = type_at(path) if path else Settings
    return list(fields_by_key(at)) if is_model(at) else []


def dotted(path: KeyPath) -> str:
    return ".".join(str(part) for part in path)


def sentences(problems: list[ConfigProblem], place: Callable[[KeyPath], str]) -> Iterator[str]:
    """One sentence each; `place` says where a path was written: in the file, a variable, a flag."""
    for problem in dict.fromkeys(problems):
        joint = " " if problem.text.startswith(("is ", "holds ")) else ": "
        yield place(problem.path) + joint + problem.text
