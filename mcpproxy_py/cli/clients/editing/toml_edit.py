"""TOML, edited in its text: a table is put at the end, and taken out by its headers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from mcpproxy_py.cli.clients import documents
from mcpproxy_py.cli.clients.editing.values import Addition, EditRefused, Undo, as_json_text

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_HEADER: Final = re.compile(
    r"[ \t]*\[(?!\[)\s*((?:[A-Za-z0-9_-]+|\"[^\"\n]*\"|'[^'\n]*'|[ \t]*\.[ \t]*)+)\s*\][ \t]*(?:#.*)?$"
)
_PART: Final = re.compile(r"[A-Za-z0-9_-]+|\"[^\"\n]*\"|'[^'\n]*'")


def add(text: str, data: Any, addition: Addition) -> tuple[str, Undo]:
    if addition.is_item or not isinstance(addition.value, dict):
        raise EditRefused("only whole tables can be put into a TOML file")
    old = documents.at(data, addition.path)
    made = next((n for n in range(len(addition.path)) if documents.at(data, addition.path[: n + 1]) is None), None)
    before = text
    if old is not None:
        before = _without_table(text, addition.path)
    newline = "\r\n" if "\r\n" in text else "\n"
    body = newline.join(_table(addition.path, addition.value)) + newline
    gap = "" if not before.strip("\ufeff") else newline if before.endswith("\n") else newline * 2
    replaced = None if old is None else as_json_text(old)
    undo = Undo(
        addition.path,
        addition.value,
        made=len(addition.path) if made is None else made,
        replaced=replaced,
        inserted=gap + body,
    )
    return before + gap + body, undo


def table_text(path: tuple[str, ...], value: dict[str, Any]) -> str:
    return "\n".join(_table(path, value))


def _table(path: tuple[str, ...], value: dict[str, Any]) -> Iterator[str]:
    plain = {key: each for key, each in value.items() if not isinstance(each, dict)}
    if plain or len(plain) == len(value):
        yield f"[{'.'.join(map(_key, path))}]"
        yield from (f"{_key(key)} = {_literal(each)}" for key, each in plain.items())
    for number, (key, each) in enumerate((k, v) for k, v in value.items() if isinstance(v, dict)):
        if plain or number:
            yield ""
        yield from _table((*path, key), each)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _literal(key)


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def take_out(text: str, data: Any, undo: Undo) -> str:
    if undo.inserted and text.count(undo.inserted) == 1:
        left = text.replace(undo.inserted, "")
    else:
        left = _without_table(text, undo.path)
    if undo.replaced is None:
        return left
    old = json.loads(undo.replaced)
    if not isinstance(old, dict):
        raise EditRefused("what stood there before was no table; the backup has it")
    return add(left, documents.parse(left, documents.Syntax.TOML, documents.Path("x")), Addition(undo.path, old))[0]


def _without_table(text: str, path: tuple[str, ...]) -> str:
    """Without the lines of this table and those below it. What follows the last key stays: a comment or an empty line
    belongs to the next table."""
    kept: list[str] = []
    ours: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        found = _HEADER.match(line.rstrip("\r\n"))
        if found or line.lstrip().startswith("[["):
            kept += _trailing(ours)
            ours.clear()
            parts = tuple(part.strip("\"'") for part in _PART.findall(found[1])) if found else ()
            inside = parts[: len(path)] == path
        (ours if inside else kept).append(line)
    return "".join(kept + _trailing(ours))


def _trailing(lines: list[str]) -> list[str]:
    """The comments and empty lines at the end of these."""
    at = len(lines)
    while at and (not lines[at - 1].strip() or lines[at - 1].lstrip().startswith("#")):
        at -= 1
    return lines[at:]
