"""Differences between what was approved and what is listed now, as lines for people: nothing in them is invisible."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_STYLES: Final[Mapping[str, str]] = {"+": "green", "-": "red", "!": "yellow"}


def subject_of(name: str) -> str:
    """What a person typed, as the gateway names it."""
    return name if name in ("instructions", "server") or name.startswith(("tool:", "prompt:")) else f"tool:{name}"


def visible(text: Any) -> str:
    """On one line, with the code point of every character that nobody sees, or that would drive a terminal."""
    from mcpproxy_py.core.pins.shown import visible as seen

    return seen(str(text))


def difference_lines(server: str, differences: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """By subject, each difference with what it means, and what stood there and stands there now."""
    from mcpproxy_py.core.pins.compare import Difference
    from mcpproxy_py.core.pins.shown import SAID, shown

    subject = None
    for row in differences:
        each = shown(Difference(**{key: row[key] for key in Difference._fields}))
        if each.subject != subject:
            subject = each.subject
            yield f"@ {visible(server)} {subject}"
        yield f"!  {each.text} ({SAID.get(each.judgement, each.judgement)})"
        yield from (f"{line.mark}    {line.text}" for line in each.lines)


def finding_lines(rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterator[str]:
    for subject, found in rows.items():
        for each in found:
            where = f", {visible(each['where'])}" if each.get("where") else ""
            yield f"!  {visible(subject)}{where}: {visible(each['text'])}"
            if each.get("excerpt"):
                yield f"     {visible(each['excerpt'])}"


def colour_lines(lines: Iterable[str]) -> None:
    """In colour on a terminal that wants it."""
    if not sys.stdout.isatty():
        for line in lines:
            print(line)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text(line, style="bold" if line.startswith("@") else _STYLES.get(line[:1], "")))
