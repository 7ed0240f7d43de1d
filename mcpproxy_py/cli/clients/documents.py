"""Reading a client's file as tolerantly as the client does: JSON with comments, TOML or YAML as plain data, and where
it cannot be read, the line and column of why."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.cli.clients import jsonc
from mcpproxy_py.errors import Code, GatewayError

LARGEST: Final = 64 << 20
"""No settings file is larger; what is, was meant for something else."""


class Syntax(StrEnum):
    JSON = "json"
    """With comments and trailing commas."""
    TOML = "toml"
    YAML = "yaml"


class UnreadableFile(GatewayError):
    """A client's file that is there and cannot be understood or read. Nothing was changed."""

    def __init__(self, path: Path, problem: str, *, line: int | None = None, column: int | None = None) -> None:
        place = "" if line is None else f" (line {line}, column {column})"
        remedy = "Correct the file first; nothing was changed."
        super().__init__(Code.CONFLICT, f"{path} cannot be read{place}: {problem}", details={"remedy": remedy})
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Document:
    """What a file holds. `text` is every character of it, byte order mark and line ends included."""

    path: Path
    syntax: Syntax
    raw: bytes | None
    """`None` where there is no such file."""
    text: str
    data: Any

    @property
    def exists(self) -> bool:
        return self.raw is not None


def load(path: Path, syntax: Syntax) -> Document:
    """The file as plain data; an empty object where there is none or nothing in it. Raises `UnreadableFile`."""
    raw = _bytes_of(path)
    try:
        text = (raw or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        line = (raw or b"").count(b"\n", 0, error.start) + 1
        raise UnreadableFile(path, "it is not UTF-8", line=line, column=1) from None
    return Document(path, syntax, raw, text, parse(text, syntax, path))


def _bytes_of(path: Path) -> bytes | None:
    try:
        if path.exists() and not path.is_file():
            raise UnreadableFile(path, "it is not a file")
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(path, (error.strerror or str(error)).lower()) from None
    if len(raw) > LARGEST:
        raise UnreadableFile(path, f"it is larger than {LARGEST >> 20} MB")
    return raw


def parse(text: str, syntax: Syntax, path: Path) -> dict[str, Any]:
    """The text as plain data. `path` is for messages."""
    try:
        data = _PARSERS[syntax](text)
    except jsonc.JsoncError as error:
        raise UnreadableFile(path, error.problem, **_position(text, error.at)) from None
    except _Broken as error:
        raise UnreadableFile(path, error.problem, line=error.line, column=error.column) from None
    except RecursionError:
        raise UnreadableFile(path, "it is nested too deeply") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UnreadableFile(path, "it should hold an object with keys", line=1, column=1)
    return data


class _Broken(Exception):
    def __init__(self, problem: str, line: int | None, column: int | None) -> None:
        self.problem, self.line, self.column = problem, line, column


def _position(text: str, at: int) -> dict[str, int]:
    before = text[:at].removeprefix("\ufeff")
    return {"line": before.count("\n") + 1, "column": len(before) - (before.rfind("\n") + 1) + 1}


def _json(text: str) -> Any:
    root = jsonc.parse(text)
    return root.value() if root else None


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        problem, _, place = str(error).rpartition(" (at ")
        numbers = [int(part) for part in place.replace(",", " ").replace(")", " ").split() if part.isdigit()]
        line, column = numbers if len(numbers) == 2 else (None, None)
        raise _Broken((problem or str(error)).lower(), line, column) from None
    except ValueError as error:  # a date that is none, an integer that is too long
        raise _Broken(str(error), None, None) from None


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        place = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise _Broken(str(problem), *place) from None
    except ValueError as error:  # a date that is none, an integer that is too long
        raise _Broken(str(error), None, None) from None


_PARSERS: Final = {Syntax.JSON: _json, Syntax.TOML: _toml, Syntax.YAML: _yaml}


def at(data: Any, path: tuple[str, ...]) -> Any:
    """What stands under a path of keys, `None` where nothing does."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data
