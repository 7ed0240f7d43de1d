"""JSON with comments, edited in its text: comments, order, indentation, line ends and trailing commas stay."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from mcpproxy_py.cli.clients import jsonc
from mcpproxy_py.cli.clients.editing.values import Addition, EditRefused, Undo
from mcpproxy_py.cli.clients.jsonc import JsonNode

_REST_OF_LINE: Final = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)?[ \t]*(?=\r?\n)")
_INDENT: Final = re.compile(r"\n([ \t]+)[^\s/*]")
_BEFORE_COMMA: Final = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\r\n]*|/\*.*?\*/)*,", re.DOTALL)


def add(text: str, data: Any, addition: Addition) -> tuple[str, Undo]:
    root = jsonc.parse(text)
    if root is None:
        return _into_nothing(text, addition)
    holder, made = _deepest(root, addition.path)
    if made == len(addition.path) and not addition.is_item:
        old = text[holder.start : holder.end]
        new = _written(addition.value, *_style(text), _indent_of_line(text, holder.first))
        undo = Undo(addition.path, addition.value, made=made, replaced=old)
        return text[: holder.start] + new + text[holder.end :], undo
    key, value = _nested(addition, made)
    wanted = holder.is_object if key is not None else holder.is_array
    if not wanted:
        where = ".".join(addition.path[:made]) or "the whole file"
        raise EditRefused(f"{where} is not {'an object' if key is not None else 'a list'}")
    empty = None if holder.children else text[holder.start : holder.end]
    undo = Undo(addition.path, addition.value, addition.is_item, made, empty)
    return _inserted(text, holder, key, value), undo


def _deepest(root: JsonNode, path: tuple[str, ...]) -> tuple[JsonNode, int]:
    """The last of the path that is there, and how many of its keys are."""
    node = root
    for depth, key in enumerate(path):
        below = node.member(key)
        if below is None:
            return node, depth
        node = below
    return node, len(path)


def _nested(addition: Addition, made: int) -> tuple[str | None, Any]:
    """The one member, or item, that has to be put in, with all that is missing around it."""
    missing = addition.path[made:]
    if not missing:
        return None, addition.value
    value: Any = [addition.value] if addition.is_item else addition.value
    for key in reversed(missing[1:]):
        value = {key: value}
    return missing[0], value


def _style(text: str) -> tuple[str, str]:
    """How lines end here, and what one level of indentation is."""
    found = _INDENT.search(text)
    indent = found[1] if found else "  "
    return "\r\n" if "\r\n" in text else "\n", "\t" if indent.startswith("\t") else indent


def _written(value: Any, newline: str, unit: str, indent: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return (newline + indent).join(lines)


def _compact(key: str | None, value: Any) -> str:
    said = json.dumps(value, ensure_ascii=False)
    return said if key is None else f"{json.dumps(key, ensure_ascii=False)}: {said}"


def _into_nothing(text: str, addition: Addition) -> tuple[str, Undo]:
    newline, unit = _style(text)
    key, value = _nested(addition, 0)
    between = "" if not text.strip("\ufeff") or text.endswith("\n") else newline
    said = between + _written({key: value}, newline, unit, "") + newline
    return text + said, Undo(addition.path, addition.value, addition.is_item, empty=text, at_root=True)


def _indent_of_line(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _starts_its_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t\ufeff") and "\n" in text[:at]


def _inserted(text: str, node: JsonNode, key: str | None, value: Any) -> str:
    newline, unit = _style(text)
    if "\n" not in text[node.start : node.end] and ("\n" not in text.strip() or node.children):
        return _inserted_in_line(text, node, _compact(key, value))
    base = _indent_of_line(text, node.first)
    indent = base + unit
    if node.children and _starts_its_line(text, node.children[-1].first):
        indent = _indent_of_line(text, node.children[-1].first)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    member = newline + indent + name + _written(value, newline, unit, indent)
    if not node.children:
        closing = "" if "\n" in text[node.start : node.end] else newline + base
        return text[: node.start + 1] + member + closing + text[node.start + 1 :]
    rest = _REST_OF_LINE.match(text, node.inner_end)
    at = rest.end() if rest and rest.end() < node.end else node.inner_end
    comma, trailing = ("", ",") if node.has_trailing_comma else (",", "")
    last = node.children[-1].end
    return text[:last] + comma + text[last:at] + member + trailing + text[at:]


def _inserted_in_line(text: str, node: JsonNode, member: str) -> str:
    at = node.inner_end
    before, after = ("", "") if not node.children else (" ", ",") if node.has_trailing_comma else (", ", "")
    return text[:at] + before + member + after + text[at:]


def take_out(text: str, data: Any, undo: Undo) -> str:
    root = jsonc.parse(text)
    if root is None:
        return text
    chain = [root]
    for key in undo.path:
        below = chain[-1].member(key)
        if below is None:
            return text
        chain.append(below)
    if undo.is_item:
        items = [each for each in chain[-1].children if each.value() == undo.value]
        if not items:
            return text
        chain.append(items[0])
    elif undo.replaced is not None:
        node = chain[-1]
        return text[: node.start] + undo.replaced + text[node.end :]
    while len(chain) - 2 > undo.made and len(chain[-2].children) == 1:
        chain.pop()
    holder, node = chain[-2], chain[-1]
    if len(holder.children) == 1 and undo.empty is not None:
        start, end = (0, len(text)) if undo.at_root else (holder.start, holder.end)
        left = text[start : node.first] + text[node.end : end]
        if undo.at_root:
            left = text[: root.start] + text[root.end :]
        if "".join(left.split()) == "".join(undo.empty.split()):
            return text[:start] + undo.empty + text[end:]
    return _removed(text, holder, node)


def _removed(text: str, holder: JsonNode, node: JsonNode) -> str:
    place = next(number for number, each in enumerate(holder.children) if each is node)
    own_line = _starts_its_line(text, node.first)
    is_last = place == len(holder.children) - 1
    if not is_last:
        end = _after_comma(text, node.end)
        if not own_line:
            return text[: node.first] + text[end:].lstrip(" \t")
        rest = _REST_OF_LINE.match(text, end)
        if rest and not text[end : rest.end()].strip():
            return text[: _before_line(text, node.first)] + text[rest.end() :]
        return text[: node.first] + text[end:].lstrip(" \t")
    end = _after_comma(text, node.end) if holder.has_trailing_comma else node.end
    if place == 0:
        begin = _before_line(text, node.first) if own_line else node.first
        return text[:begin] + text[end:]
    before = holder.children[place - 1].end
    after_comma = _after_comma(text, before)
    if holder.has_trailing_comma:
        begin = _before_line(text, node.first) if own_line else after_comma
        return text[:begin] + text[end:]
    begin = _before_line(text, node.first) if own_line else after_comma
    return text[: after_comma - 1] + text[after_comma:begin] + text[end:]


def _before_line(text: str, at: int) -> int:
    """Before the line end that this line follows."""
    newline = text.rfind("\n", 0, at)
    return newline - 1 if newline > 0 and text[newline - 1] == "\r" else newline


def _after_comma(text: str, at: int) -> int:
    found = _BEFORE_COMMA.match(text, at)
    return found.end() if found else at
