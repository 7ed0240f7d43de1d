"""Changing one thing in a client's file and keeping every other byte, whatever the syntax.

Each syntax has its editor, which works on the text. None of them is believed: what it wrote is parsed again and has to
be the old data with exactly that change, or the edit is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.cli.clients import documents
from mcpproxy_py.cli.clients.documents import Syntax
from mcpproxy_py.cli.clients.editing import json_edit, toml_edit, yaml_edit
from mcpproxy_py.cli.clients.editing.values import Addition, EditRefused, Undo

_EDITORS: Final = {Syntax.JSON: json_edit, Syntax.TOML: toml_edit, Syntax.YAML: yaml_edit}


def add(text: str, syntax: Syntax, addition: Addition, path: Path) -> tuple[str, Undo | None]:
    """The text with this in it, and how to take it out again; `None` if it was there already."""
    data = documents.parse(text, syntax, path)
    wanted = merged(data, addition)
    if _same(wanted, data):
        return text, None
    edited, undo = _EDITORS[syntax].add(text, data, addition)
    _check(edited, syntax, wanted, path)
    return edited, undo


def take_out(text: str, syntax: Syntax, undo: Undo, path: Path) -> str:
    """The text without what was added, and as it was where nothing of it is left. A plain value that somebody changed
    since is theirs."""
    data = documents.parse(text, syntax, path)
    if isinstance(undo.value, str) and not undo.is_item and documents.at(data, undo.path) != undo.value:
        return text
    wanted = _without(data, undo, syntax)
    if _same(wanted, data):
        return text
    edited = _EDITORS[syntax].take_out(text, data, undo)
    _check(edited, syntax, wanted, path)
    return edited


def add_all(text: str, syntax: Syntax, additions: Sequence[Addition], path: Path) -> tuple[str, list[Undo]]:
    undos: list[Undo] = []
    for addition in additions:
        text, undo = add(text, syntax, addition, path)
        undos += [undo] if undo else []
    return text, undos


def _opened(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """A copy of what stands along this path, so that it can be changed; the rest is shared."""
    data = dict(data)
    below = data.get(path[0]) if path else None
    if isinstance(below, dict):
        data[path[0]] = _opened(below, path[1:])
    elif isinstance(below, list) and len(path) == 1:
        data[path[0]] = list(below)
    return data


def _check(text: str, syntax: Syntax, wanted: Any, path: Path) -> None:
    try:
        found = documents.parse(text, syntax, path)
    except documents.UnreadableFile:
        found = None
    if not _same(found, wanted):
        raise EditRefused("the file is written in a way that mcpproxy does not know how to edit")


def merged(data: dict[str, Any], addition: Addition) -> dict[str, Any]:
    """The data with this in it."""
    data = _opened(data, addition.path)
    *parents, last = addition.path
    holder: Any = data
    for depth, key in enumerate(parents, 1):
        if holder.get(key) is None:
            holder[key] = {}
        holder = holder[key]
        if not isinstance(holder, dict):
            raise EditRefused(f"{'.'.join(addition.path[:depth])} is not an object")
    if not addition.is_item:
        holder[last] = addition.value
        return data
    items = holder.get(last)
    if items is None:
        items = holder[last] = []
    if not isinstance(items, list):
        raise EditRefused(f"{'.'.join(addition.path)} is not a list")
    if addition.value not in items:
        items.append(addition.value)
    return data


def _without(data: dict[str, Any], undo: Undo, syntax: Syntax) -> dict[str, Any]:
    data = _opened(data, undo.path)
    holders = [data]
    for key in undo.path[:-1]:
        below = holders[-1].get(key)
        if not isinstance(below, dict):
            return data
        holders.append(below)
    last = undo.path[-1]
    if last not in holders[-1]:
        return data
    if undo.is_item:
        items = holders[-1][last]
        if not isinstance(items, list) or undo.value not in items:
            return data
        items.remove(undo.value)
        if items or undo.made > len(undo.path) - 1:
            return data
    if undo.replaced is not None and not undo.is_item:
        holders[-1][last] = documents.parse(f'{{"x": {undo.replaced}}}', Syntax.JSON, Path("x"))["x"]
        return data
    del holders[-1][last]
    for depth in range(len(undo.path) - 1, undo.made, -1):
        if holders[depth]:
            break
        del holders[depth - 1][undo.path[depth - 1]]
    return data


def _same(left: Any, right: Any) -> bool:
    """Whether these are the same data: what is one object is not looked into, for files can be large."""
    if left is right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return all(_same(left.get(key), right.get(key)) for key in left.keys() | right.keys())
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return all(map(_same, left, right))
    return _plain(left) == _plain(right)


def _plain(value: Any) -> Any:
    """An empty object or list and nothing are one, and `1` is not `True`."""
    if isinstance(value, dict):
        return {key: _plain(below) for key, below in value.items()} or None
    if isinstance(value, list):
        return [_plain(item) for item in value] or None
    return (type(value).__name__, repr(value)) if isinstance(value, bool | int | float) else value
