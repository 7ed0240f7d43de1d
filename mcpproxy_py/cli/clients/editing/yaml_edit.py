"""YAML, edited in its text: lines are put in, and taken out, where the parser says that a value begins and ends."""

from __future__ import annotations

import json
from typing import Any

from mcpproxy_py.cli.clients import documents
from mcpproxy_py.cli.clients.editing.values import Addition, EditRefused, Undo, as_json_text


def add(text: str, data: Any, addition: Addition) -> tuple[str, Undo]:
    if not addition.is_item and len(_chain(text, addition.path)) == len(addition.path) + 1:
        old = documents.at(data, addition.path)
        left = _cut(text, addition.path)
        again, undo = add(left, documents.parse(left, documents.Syntax.YAML, documents.Path("x")), addition)
        return again, Undo(undo.path, undo.value, made=len(undo.path), replaced=as_json_text(old),
                           inserted=undo.inserted)  # fmt: skip
    newline = "\r\n" if "\r\n" in text else "\n"
    chain = _chain(text, addition.path)
    made = len(chain) - 1
    at, said = _place(text, chain, addition, newline)
    undo = Undo(addition.path, addition.value, addition.is_item, max(made, 0), inserted=said)
    return text[:at] + said + text[at:], undo


def root_of(text: str) -> Any:
    """The tree of the one document in this text, with where each value stands; `None` where there is none."""
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _chain(text: str, path: tuple[str, ...]) -> list[Any]:
    """The root and what stands below it along the path, as far as there is any. A key with nothing after it ends it."""
    root = root_of(text)
    if root is None:
        return []
    chain = [root]
    for key in path:
        found = _pair(chain[-1], key)
        if found is None:
            break
        chain.append(found[1])
    return chain


def _pair(node: Any, key: str) -> tuple[Any, Any] | None:
    if node.id != "mapping":
        return None
    return next((pair for pair in reversed(node.value) if pair[0].id == "scalar" and pair[0].value == key), None)


def _is_nothing(node: Any) -> bool:
    return node.id == "scalar" and node.tag.endswith(":null") and node.start_mark.index == node.end_mark.index


def _place(text: str, chain: list[Any], addition: Addition, newline: str) -> tuple[int, str]:
    """Where something goes, and what it is."""
    depth = len(chain) - 1
    if depth == 0 and chain[0].id != "mapping":
        raise EditRefused("the file holds no object with keys")
    if depth < 0 or (depth == 0 and not chain[0].flow_style):
        return len(text), _at_the_end(text, addition, newline)
    node = chain[-1]
    if _is_nothing(node):
        parent_key = _pair(chain[-2], addition.path[depth - 1])
        assert parent_key is not None
        indent = " " * (parent_key[0].start_mark.column + 2)
        at = text.find("\n", parent_key[0].end_mark.index)
        if at < 0:
            return len(text), newline + _lines(_below(addition, depth), indent, newline).removesuffix(newline)
        return at + 1, _lines(_below(addition, depth), indent, newline)
    value = _below(addition, depth)
    if node.id not in ("mapping", "sequence") or (node.id == "sequence") != isinstance(value, list):
        kind = "a list" if isinstance(value, list) else "an object"
        raise EditRefused(f"{'.'.join(addition.path[:depth])} is not {kind}")
    if node.id == "sequence":
        return _after_last(text, node, value, newline)
    if node.flow_style:
        said = json.dumps(value, ensure_ascii=False)[1:-1]
        return node.start_mark.index + 1, said + (", " if node.value else "")
    start = node.start_mark.index
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].strip(" \ufeff"):
        raise EditRefused("the file is written in a way that mcpproxy does not know how to edit")
    return line, _lines(value, " " * node.start_mark.column, newline)


def _after_last(text: str, node: Any, value: list[Any], newline: str) -> tuple[int, str]:
    """After the last item of a list, in its style."""
    if node.flow_style:
        said = json.dumps(value, ensure_ascii=False)[1:-1]
        return (node.value[-1].end_mark.index, f", {said}") if node.value else (node.start_mark.index + 1, said)
    lines = _lines(value, " " * node.start_mark.column, newline)
    end = text.find("\n", node.value[-1].end_mark.index)
    return (len(text), newline + lines) if end < 0 else (end + 1, lines)


def _below(addition: Addition, depth: int) -> Any:
    """All that has to stand below what is there: an object with one member, or a list with one item."""
    value: Any = [addition.value] if addition.is_item else addition.value
    for key in reversed(addition.path[depth:]):
        value = {key: value}
    return value


def _at_the_end(text: str, addition: Addition, newline: str) -> str:
    gap = "" if not text.strip("\ufeff") or text.endswith("\n") else newline
    return gap + _lines(_below(addition, 0), "", newline)


def _lines(value: Any, indent: str, newline: str) -> str:
    import yaml

    said = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=2**31, default_flow_style=False)
    return "".join(f"{indent}{line}{newline}" for line in said.splitlines())


def take_out(text: str, data: Any, undo: Undo) -> str:
    if undo.inserted and text.count(undo.inserted) == 1:
        left = text.replace(undo.inserted, "")
    elif undo.is_item:
        left = _without_item(text, undo)
    else:
        left = _cut(text, undo.path)
    left = _without_empty(left, undo)
    if undo.replaced is None:
        return left
    again = documents.parse(left, documents.Syntax.YAML, documents.Path("x"))
    return add(left, again, Addition(undo.path, json.loads(undo.replaced)))[0]


def _without_empty(text: str, undo: Undo) -> str:
    """Without the containers that were made for it and now hold nothing."""
    for depth in range(len(undo.path), undo.made, -1):
        chain = _chain(text, undo.path[:depth])
        if len(chain) == depth + 1 and (_is_nothing(chain[-1]) or (chain[-1].id != "scalar" and not chain[-1].value)):
            text = _cut(text, undo.path[:depth])
    return text


def _cut(text: str, path: tuple[str, ...]) -> str:
    """Without the lines of one key and its value; comments and empty lines after them stay."""
    chain = _chain(text, path)
    if len(chain) != len(path) + 1:
        return text
    pair = _pair(chain[-2], path[-1])
    assert pair is not None
    if chain[-2].flow_style:
        raise EditRefused(f"{'.'.join(path)} stands within braces; take it out by hand")
    key, value = pair
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    return text[:start] + _after(text, start, max(value.end_mark.index, key.end_mark.index))


def _after(text: str, start: int, end: int) -> str:
    """What follows a value that began at `start`. The parser lets a block end where the next thing begins."""
    line = text.rfind("\n", 0, end) + 1
    newline = text.find("\n", end)
    end = line if line > start and not text[line:end].strip() else len(text) if newline < 0 else newline + 1
    lines = text[start:end].splitlines(keepends=True)
    keep = len(lines)
    while keep > 1 and (not lines[keep - 1].strip() or lines[keep - 1].lstrip().startswith("#")):
        keep -= 1
    return "".join(lines[keep:]) + text[end:]


def _without_item(text: str, undo: Undo) -> str:
    chain = _chain(text, undo.path)
    if len(chain) != len(undo.path) + 1 or chain[-1].id != "sequence":
        return text
    if chain[-1].flow_style:
        raise EditRefused(f"{'.'.join(undo.path)} is a list within brackets; take {undo.value} out by hand")
    item = next((each for each in chain[-1].value if each.value == undo.value), None)
    if item is None:
        return text
    start = text.rfind("\n", 0, item.start_mark.index) + 1
    return text[:start] + _after(text, start, item.end_mark.index)
