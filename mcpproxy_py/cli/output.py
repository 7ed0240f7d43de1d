"""Printing: tables for people, JSON and YAML for programs, and nothing from outside that drives the terminal.

A long answer written to a file or to stdout, whole or not at all where that can be promised.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.errors import Code, GatewayError


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


# Colour and cursor sequences as a whole, so that a coloured log reads as text; then any control character,
# the marks that reorder text on screen so that it reads differently than it is, and what is invisible. Joiners and
# variation selectors stay where they shape a letter or an emoji: behind a visible character, and at most two.
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_HIDDEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SHAPING: Final = "\u200c\u200d\ufe00-\ufe0f"
_CONTROL: Final = re.compile(f"(?<![^\x00-\x7f])[{_HIDDEN}{_SHAPING}]+|[{_HIDDEN}]|[{_SHAPING}]{{3,}}")
_STYLES: Final[Mapping[str, str]] = {
    "ok": "green", "success": "green", "connected": "green", "passed": "green", "read": "green",
    "warning": "yellow", "pending": "yellow", "blocked": "yellow", "connecting": "yellow", "write": "yellow",
    "problem": "red", "error": "red", "timeout": "red", "failed": "red", "interrupted": "red", "destructive": "red",
    "sleeping": "cyan", "cancelled": "dim", "disabled": "dim", "not reached": "dim",
}  # fmt: skip

_LEAST_OF_LAST: Final = 24
"""Of a description, to say something."""


def clean(text: str) -> str:
    """Text from outside that cannot move the cursor, recolour or reorder anything. Keeps lines and tabs."""
    return _CONTROL.sub("", _SEQUENCE.sub("", text.replace("\r\n", "\n")))


def cell(value: Any) -> str:
    """Any JSON value on one line."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else str(value)
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return ", ".join(cell(item) for item in value)
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return " ".join(clean(text).split())


def first_line(text: Any) -> str:
    """The first line that says something, for a description in a table."""
    return next((line.strip() for line in str(text or "").splitlines() if line.strip()), "")


def pretty(value: Any) -> str:
    """JSON to read. Escapes what JSON allows in a string and a terminal would obey."""
    text = json.dumps(value, ensure_ascii=not writes_unicode(), indent=2)
    return _CONTROL.sub(lambda found: json.dumps(found[0])[1:-1], text)


def yaml_text(value: Any) -> str:
    """YAML to read. What a terminal would obey is escaped, in the one style of YAML that has escapes."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def represent(dumper: Any, text: str) -> Any:
        style = '"' if _CONTROL.search(text) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    text = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=writes_unicode(), width=2**31)
    return _CONTROL.sub(lambda found: "".join(f"\\U{ord(char):08X}" for char in found[0]), text)


def dump(answer: Any, form: Format, stream: Any = None) -> None:
    """The whole answer, for a program."""
    out = stream or sys.stdout
    if form is Format.YAML:
        print(yaml_text(answer), end="", file=out)
    else:
        print(pretty(answer), file=out)


def writes_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """A table: by Rich on a terminal, else aligned text whose lines never wrap and whose first line is the header."""
    cells = [[cell(value) for value in row] for row in rows]
    if not cells:
        note(empty)
    elif sys.stdout.isatty():
        _rich_table(columns, cells)
    else:
        say("\n".join(_aligned([[name.upper() for name in columns], *cells])))


def listing(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str, spare: Sequence[str] = ()) -> None:
    """A table with one line for each row on a terminal: its last column is cut there, and where that would leave too
    little of it, columns that can be spared go, the first named first."""
    cells, shown = [[cell(value) for value in row] for row in rows], list(columns)
    if not (cells and sys.stdout.isatty()):
        table(columns, cells, empty=empty)
        return
    from rich.cells import cell_len
    from rich.console import Console

    from mcpproxy_py.cli.record.lines import cut

    width, going = Console().width, list(spare)

    def left() -> int:
        before = range(len(shown) - 1)
        return width - sum(2 + max(len(shown[at]), *(cell_len(row[at]) for row in cells)) for at in before)

    while left() < _LEAST_OF_LAST and going:
        at = shown.index(going.pop(0))
        del shown[at]
        cells = [[*row[:at], *row[at + 1 :]] for row in cells]
    if left() < _LEAST_OF_LAST // 2:
        shown, cells = shown[:-1], [row[:-1] for row in cells]
    else:
        cells = [[*row[:-1], cut(row[-1], left())] for row in cells]
    _rich_table(shown, cells)


def _rich_table(columns: Sequence[str], cells: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        shown.add_column(name.upper(), overflow="fold")
    for row in cells:
        # Text, not str: a tool may be called `[red]` and must not be read as markup.
        shown.add_row(*(Text(value, style=_STYLES.get(value, "")) for value in row))
    Console(soft_wrap=False).print(shown)


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()


def pairs(answer: Mapping[str, Any]) -> None:
    """Names and values, one to a line, nested ones by dotted name."""
    rows = [[key, cell(value)] for key, value in flat(answer)]
    if rows:
        say("\n".join(_aligned(rows)))


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its dotted name; a list of plain values is a leaf."""
    items = _children(value)
    if items is None:
        yield prefix, value
        return
    for key, below in items:
        yield from flat(below, f"{prefix}.{key}" if prefix else clean(str(key)))


def _children(value: Any) -> list[tuple[str, Any]] | None:
    if isinstance(value, Mapping) and value:
        return [(clean(str(key)), below) for key, below in value.items()]
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [(str(number), item) for number, item in enumerate(value)]
    return None


def say(text: str) -> None:
    """A result for people, on stdout."""
    print(clean(text))


def note(text: str) -> None:
    """Something beside the result, on stderr so that a pipe gets only data."""
    print(clean(text), file=sys.stderr)


def complain(error: Mapping[str, Any], form: Format) -> None:
    """A failure, always on stderr: a sentence and what to do for people, the one error shape for programs."""
    if form is not Format.TABLE:
        dump(error, form, sys.stderr)
        return
    shape = error["error"]
    note(f"Error: {shape['message']}")
    remedy = shape.get("details", {}).get("remedy") or shape.get("hint")
    # Where nothing was reached, the message knows more than the hint of its code.
    if remedy and shape.get("code") != Code.NOT_REACHABLE:
        note(f"  {remedy}")
    for candidate in shape.get("details", {}).get("candidates") or ():
        note(f"  {_candidate(candidate)}")


def _candidate(candidate: Any) -> str:
    """One of several things that an id can mean: the id, and what else is known of it."""
    if not isinstance(candidate, Mapping):
        return cell(candidate)
    return "  ".join(cell(value) for value in candidate.values() if value is not None)


def waiting(text: str) -> AbstractContextManager[Any]:
    """A spinner while something takes its time; nothing at all when nobody watches."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        return nullcontext()
    from rich.console import Console
    from rich.text import Text

    return Console(stderr=True).status(Text(clean(text)))


def save(chunks: Iterable[bytes], out: Path) -> None:
    """Write every chunk. A file appears only when complete, readable by its owner alone."""
    if str(out) == "-":
        _to_stdout(chunks)
        return
    try:
        with _target(out) as file:
            size = _copy(chunks, file.write)
    except OSError as error:
        raise GatewayError(Code.NOT_FOUND, f"Cannot write {out}: {error.strerror or error}") from None
    note(f"Wrote {size} bytes to {out}")


def _to_stdout(chunks: Iterable[bytes]) -> None:
    if not sys.stdout.isatty():
        _copy(chunks, sys.stdout.buffer.write)
        return
    # On a terminal even an export must not drive the terminal.
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    for chunk in chunks:
        sys.stdout.write(clean(decode(chunk)))


@contextmanager
def _target(out: Path) -> Iterator[Any]:
    """A temporary file beside the target that takes its place at the end; a pipe or device is written directly."""
    if out.exists() and not out.is_file():
        with out.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(name, out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _copy(chunks: Iterable[bytes], write: Any) -> int:
    size = 0
    with _progress() as advance:
        for chunk in chunks:
            write(chunk)
            size += len(chunk)
            advance(len(chunk))
    return size


@contextmanager
def _progress() -> Iterator[Any]:
    """Bytes so far, on stderr, where somebody watches."""
    if not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, SpinnerColumn, TransferSpeedColumn

    with Progress(SpinnerColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True),
                  transient=True) as progress:  # fmt: skip
        task = progress.add_task("export", total=None)
        yield lambda size: progress.advance(task, size)
