"""The difference that a change makes, for a person to read: without the secrets that stand around it."""

from __future__ import annotations

import difflib
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.cli.clients import jsonc
from mcpproxy_py.cli.clients.documents import Syntax
from mcpproxy_py.cli.clients.editing import yaml_edit
from mcpproxy_py.cli.clients.jsonc import JsonNode
from mcpproxy_py.cli.output import clean
from mcpproxy_py.core.record.masking import Masker

_MASKER: Final = Masker()
_HIDDEN: Final = "***"
_CONTEXT: Final = 3
"""Lines shown around a change."""
_PRIVATE: Final = frozenset({"env", "environment", "envs", "headers", "http_headers", "env_http_headers"})
"""What stands under these keys is shown only where it refers to something."""
_REFERENCE: Final = re.compile(r"(?:\w+ )?(?:\$\{[\w:.-]+\}|\$\w+|\{env:\w+\})|MCPPROXY_MCP_TOKEN")
_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


def difference(path: Path, before: str | None, after: str | None, syntax: Syntax, home: Path | None) -> list[str]:
    """Lines of a unified diff; `None` stands for a file that is not there."""
    name = shown_path(path, home)
    old, new = ("/dev/null" if before is None else name), ("/dev/null" if after is None else name)
    head, tail = _alike(before or "", after or "")
    sides = [_lines_between(side or "", syntax, head, tail) for side in (before, after)]
    lines = list(difflib.unified_diff(sides[0], sides[1], old, new, lineterm=""))
    skipped = (before or "").count("\n", 0, head)
    return [clean(_numbered(line, skipped)) for line in lines] or [f"--- {old}", f"+++ {new}"]


def _alike(before: str, after: str) -> tuple[int, int]:
    """How many characters at the beginning and at the end are the same and are not shown: whole lines, but for some."""
    shorter = min(len(before), len(after))
    head = _common(lambda size: before[:size] == after[:size], shorter)
    tail = _common(lambda size: before[len(before) - size :] == after[len(after) - size :], shorter - head)
    for _ in range(_CONTEXT + 1):
        head = max(before.rfind("\n", 0, head), 0)
        end = before.find("\n", len(before) - tail)
        tail = 0 if end < 0 else len(before) - end - 1
    return (head + 1 if head else 0), tail


def _common(alike: Callable[[int], bool], most: int) -> int:
    """The largest size for which it holds."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if alike(middle) else (least, middle - 1)
    return least


def _lines_between(text: str, syntax: Syntax, head: int, tail: int) -> list[str]:
    """The lines that may be shown, without secrets."""
    return masked(text, syntax, head, len(text) - tail).removeprefix("\ufeff").splitlines()


def _numbered(line: str, skipped: int) -> str:
    """A heading with the numbers of the lines in the whole file."""
    if not skipped or not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + skipped}", line)


def shown_path(path: Path, home: Path | None) -> str:
    return f"~/{path.relative_to(home)}" if home and path.is_relative_to(home) and path != home else str(path)


def print_lines(lines: list[str]) -> None:
    """In colour on a terminal that wants it."""
    if not sys.stdout.isatty():
        print("\n".join(lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text(line, style="bold" if line.startswith(("+++", "---")) else _STYLES.get(line[:1], "")))


def masked(text: str, syntax: Syntax, begin: int = 0, end: int | None = None) -> str:
    """A part of the text, which begins and ends at lines, with its secrets blanked."""
    end = len(text) if end is None else end
    if syntax is Syntax.TOML:
        return _masked_part(text, begin, end)
    try:
        root = jsonc.parse(text) if syntax is Syntax.JSON else _from_yaml(text)
    except Exception:
        return "\n".join(_HIDDEN for _ in text[begin:end].split("\n"))
    spans = sorted(_secrets(root, "", begin, end)) if root else []
    for start, stop, said in reversed(spans):
        if start < end and stop > begin:
            text = text[:start] + json.dumps(said, ensure_ascii=False) + text[stop:]
            end += len(json.dumps(said, ensure_ascii=False)) - (stop - start)
    return text[begin:end]


def _masked_part(text: str, begin: int, end: int) -> str:
    """The same for TOML, whose lines belong to the table above them."""
    before = len(list(_masked_toml(text[:begin])))
    return "".join(list(_masked_toml(text[:end]))[before:])


def _secrets(node: JsonNode, above: str, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Where strings stand that are not shown, and what is shown instead; as far as they are in this part."""
    if node.start >= end or node.end <= begin:
        return
    if node.is_object:
        private = above.lower() in _PRIVATE
        for child in node.children:
            key = child.key or ""
            if isinstance(child.scalar, str) and begin < child.end and child.start < end:
                said = _shown(key, child.scalar, private)
                if said != child.scalar:
                    yield child.start, child.end, said
            else:
                yield from _secrets(child, key, begin, end)
    elif node.is_array:
        shown = _MASKER.mask({above: node.value()})[above]
        shown = shown if isinstance(shown, list) else [_HIDDEN] * len(node.children)
        for child, said in zip(node.children, shown, strict=True):
            if isinstance(child.scalar, str):
                if said != child.scalar:
                    yield child.start, child.end, str(said)
            else:
                yield from _secrets(child, "", begin, end)


def _shown(key: str, value: str, private: bool) -> str:
    if _REFERENCE.fullmatch(value):
        return value
    return _HIDDEN if private and value else str(_MASKER.mask({key: value})[key])


def _from_yaml(text: str) -> JsonNode | None:
    root = yaml_edit.root_of(text)
    return _node(root, set()) if root is not None else None


def _node(node: Any, seen: set[int]) -> JsonNode:
    made = JsonNode(node.start_mark.index, node.end_mark.index)
    if id(node) in seen:  # an alias: what it stands for is masked where it is written
        return made
    if node.id == "scalar":
        made.scalar = node.value if node.tag.endswith(":str") else None
        return made
    seen.add(id(node))
    made.is_object, made.is_array = node.id == "mapping", node.id == "sequence"
    for each in node.value:
        child = _node(each[1] if made.is_object else each, seen)
        child.key = str(each[0].value) if made.is_object else None
        made.children.append(child)
    return made


def _masked_toml(text: str) -> Iterator[str]:
    table = ""
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        if stripped.startswith("["):
            table = stripped.strip("[] ").rpartition(".")[2].strip("\"'")
            yield line
            continue
        try:
            said = tomllib.loads(stripped)
        except ValueError:
            yield _MASKER.mask_text(line)
            continue
        yield line if all(_is_shown(key, value, table) for key, value in said.items()) else _blank(line)


def _is_shown(key: str, value: Any, table: str) -> bool:
    if isinstance(value, str):
        return _shown(key, value, table.lower() in _PRIVATE) == value
    if isinstance(value, dict):
        return all(_is_shown(below, each, key) for below, each in value.items())
    return not isinstance(value, list) or _MASKER.mask({key: value})[key] == value


def _blank(line: str) -> str:
    name, _, rest = line.partition("=")
    end = rest[len(rest.rstrip("\r\n")) :]
    return f'{name}= "{_HIDDEN}"{end}'
