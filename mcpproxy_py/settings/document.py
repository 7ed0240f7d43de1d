"""The configuration file as JSON text: read strictly, with comments, before anybody looks at what it means.

Duplicate keys are an error because JSON parsers silently keep the last one, and the operator may be reading
the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_DEPTH: Final = 100
KeyPath = tuple[str | int, ...]
_KEY: Final = re.compile(r'"([^"]+)"|([^."]+)')


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """Something wrong at a place in the configuration; `text` is what a person reads after the place."""

    path: KeyPath
    text: str


class Comment(str):
    """A key that starts with `//`. Compared by identity, so that an object may hold several that read alike."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class Node(dict[str, Any]):
    """A JSON object that remembers which keys it was given more than once."""

    repeated: tuple[str, ...] = ()


def is_comment(key: object) -> bool:
    return isinstance(key, Comment) or (isinstance(key, str) and key.startswith("//"))


def _node(pairs: list[tuple[str, Any]]) -> Node:
    node = Node()
    repeated: list[str] = []
    for key, value in pairs:
        if key in node:
            repeated.append(key)
        node[Comment(key) if is_comment(key) else key] = value
    node.repeated = tuple(dict.fromkeys(repeated))
    return node


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def parse(text: str) -> tuple[Any, list[ConfigProblem]]:
    """The JSON value, comments and all, and what is wrong with the text. Nothing is raised for bad input."""
    try:
        value = json.loads(text, object_pairs_hook=_node, parse_constant=_refuse_constant, parse_float=_number)
        return value, list(flaws(value))
    except json.JSONDecodeError as error:
        return None, [ConfigProblem((), f"not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}")]
    except RecursionError:
        return None, [ConfigProblem((), f"nested deeper than {MAX_DEPTH} levels")]
    except ValueError as error:
        return None, [ConfigProblem((), f"not valid JSON: {error}")]


def flaws(value: Any, path: KeyPath = ()) -> Iterator[ConfigProblem]:
    """What no value may be, whatever it means: ambiguous, bottomless, or text that is not text."""
    if len(path) > MAX_DEPTH:
        yield ConfigProblem(path[:3], f"nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, Mapping):
        yield from (ConfigProblem(path, _repeated(path, key)) for key in getattr(value, "repeated", ()))
        for key, item in value.items():
            if not is_comment(key):
                yield from flaws(key, path)
                yield from flaws(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from flaws(item, (*path, index))
    elif isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        yield ConfigProblem(path, "holds half of a character (a lone surrogate), which cannot be passed on")


def _repeated(path: KeyPath, key: str) -> str:
    if path == ("mcpServers",):
        return f"two servers are named '{key}'; rename or remove one"
    return f"the key '{key}' stands twice; keep one"


def without_comments(value: Any) -> Any:
    """The same value as plain dicts and lists, without the keys that start with `//`."""
    if isinstance(value, Mapping):
        return {str(key): without_comments(item) for key, item in value.items() if not is_comment(key)}
    if isinstance(value, list):
        return [without_comments(item) for item in value]
    return value


def render(value: Any) -> str:
    """The text of an edited file. A lone surrogate keeps its escape, so that any text can be written."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def key_path(text: str) -> tuple[str, ...]:
    """The keys of a dotted path; one that holds a dot stands in double quotes. `ValueError` for what is no path."""
    keys = tuple(quoted or plain for quoted, plain in _KEY.findall(text))
    if not keys or ".".join(f'"{key}"' if f'"{key}"' in text else key for key in keys) != text:
        raise ValueError("a key such as log.level; one that holds a dot stands in double quotes")
    return keys


def put_at(document: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set the value at a path, in its old place or at the end. `ValueError` names what is no object on the way."""
    *above, last = path
    holder: Any = document
    for number, key in enumerate(above):
        below = _entry(holder, key)
        if below is None:
            below = Node()
            if not isinstance(holder, dict):
                raise ValueError(f"{'.'.join(path[:number])} has no {key}")
            holder[key] = below
        holder = below
    if not isinstance(holder, dict):
        raise ValueError(f"{'.'.join(above)} is no object, so nothing can be set in it; set it as a whole")
    holder[last] = value


def take_from(document: dict[str, Any], path: Sequence[str]) -> Any:
    """Take the value at a path out. `KeyError` where there is none."""
    holder: Any = document
    for key in path[:-1]:
        holder = _entry(holder, key)
    if not isinstance(holder, dict):
        raise KeyError(path[-1])
    return holder.pop(path[-1])


def _entry(holder: Any, key: str) -> Any:
    """What is below this key, by its `name` where servers are a list."""
    if isinstance(holder, list):
        return next((item for item in holder if isinstance(item, dict) and item.get("name") == key), None)
    return holder.get(key) if isinstance(holder, dict) else None


def servers_by_name(value: Any) -> Any:
    """The mapping form of `mcpServers`, from either form; `ValueError` says what was expected instead."""
    if not isinstance(value, list):
        return value
    named = [_named(item) for item in value]
    names = [name for name, _ in named]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ValueError("one server of each name; two servers are named " + _listed(twice))
    return dict(named)


def _named(item: Any) -> tuple[str, dict[str, Any]]:
    if not (isinstance(item, Mapping) and isinstance(item.get("name"), str)):
        raise ValueError("an object by name, or a list of objects that each have a `name`")
    return item["name"], {key: value for key, value in item.items() if key != "name"}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
