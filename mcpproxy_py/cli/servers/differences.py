"""Differences between what was approved and what is listed now, as lines for people: nothing in them is invisible."""

from __future__ import annotations

import difflib
import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

LONGEST: Final = 2_000
"""Characters of a text that are shown."""
MOST_LINES: Final = 60
_STYLES: Final[Mapping[str, str]] = {"+": "green", "-": "red", "!": "yellow"}
_WORDS: Final[Mapping[str, str]] = {
    "raises_risk": "riskier",
    "lowers_risk": "less of a risk by its own word",
    "breaks_callers": "breaks callers",
    "widens_input": "takes more",
    "rewords": "other words",
    "renames": "another name",
    "adds": "new",
    "removes": "gone",
}


def subject_of(name: str) -> str:
    """What a person typed, as the gateway names it."""
    return name if name == "instructions" or name.startswith(("tool:", "prompt:")) else f"tool:{name}"


def visible(text: str) -> str:
    """With the code point of every character that nobody sees, or that would drive a terminal."""
    return "".join(each if _shows(each) else f"<U+{ord(each):04X}>" for each in text)


def _shows(letter: str) -> bool:
    if letter in "\n\t":
        return True
    # Marks and fillers print nothing of their own; `Mn` are combined with what stands before them, as in `é`.
    hidden = unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp") or letter in _BLANK
    return not hidden


_BLANK: Final = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    *map(chr, range(0xFE00, 0xFE10)), *map(chr, range(0xE0100, 0xE01F0)), "\u00a0", "\u2007", "\u202f",
}  # fmt: skip


def difference_lines(server: str, differences: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """By subject, each difference with its sentence, and what stood there and stands there now."""
    subject = None
    for each in differences:
        if each["subject"] != subject:
            subject = each["subject"]
            yield f"@ {visible(server)} {visible(str(subject))}"
        part = f" {visible(str(each['part']))}" if each["part"] else ""
        yield f"!  {_WORDS.get(each['judgement'], str(each['judgement']))}{part}: {visible(str(each['text']))}"
        yield from _sides(each["before"], each["after"])


def _sides(before: Any, after: Any) -> Iterator[str]:
    was, now = _lines(before), _lines(after)
    lines = list(difflib.ndiff(was, now)) if len(was) + len(now) <= 2 * MOST_LINES else _apart(was, now)
    shown = [line for line in lines if not line.startswith("? ")]
    for line in shown[:MOST_LINES]:
        yield f"{line[0]}  {line[1:]}"
    if len(shown) > MOST_LINES:
        yield f"   … {len(shown) - MOST_LINES} more lines"


def _apart(was: Sequence[str], now: Sequence[str]) -> list[str]:
    return [f"- {line}" for line in was] + [f"+ {line}" for line in now]


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, default=str)
    cut = f"{text[:LONGEST]}… ({len(text)} characters)" if len(text) > LONGEST else text
    return visible(cut).splitlines() or [""]


def finding_lines(rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterator[str]:
    for subject, found in rows.items():
        for each in found:
            where = f" in {visible(str(each['where']))}" if each.get("where") else ""
            yield f"!  found {visible(str(each['kind']))}: {visible(subject)}{where}: {visible(str(each['text']))}"
            if each.get("excerpt"):
                yield f"     {visible(str(each['excerpt']))}"


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
