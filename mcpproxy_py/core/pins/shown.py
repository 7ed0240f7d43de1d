"""Differences as lines for people: what was, what is, and what hides made visible.

Pure data: who shows it colours and indents it. Whatever a server wrote comes out printable, so that nothing in it moves
a cursor, hides, or turns a line around.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core.pins.canonical import canonical
from mcpproxy_py.core.pins.compare import Difference, Judgement
from mcpproxy_py.core.policy.confusables import ascii_look, is_invisible, mixes_scripts

Mark = Literal[" ", "-", "+", "…"]
MAX_LINES: Final = 60
"""Of one difference."""
LINE: Final = 400
"""Characters of one line."""
LONGEST: Final = 20_000
"""Characters of a text that are compared; around the first place where two differ."""
CONTEXT: Final = 1
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+")
_WORD: Final = re.compile(r"\w+")
SAID: Final[dict[Judgement, str]] = {
    "raises_risk": "raises its risk: applies at once",
    "lowers_risk": "lowers its risk: blocked",
    "breaks_callers": "breaks who calls it: blocked",
    "renames": "may be a pinned one under another name: blocked",
    "widens_input": "takes more: goes on as approved",
    "rewords": "reworded: goes on as approved",
    "adds": "new",
    "removes": "gone",
}


class DiffLine(NamedTuple):
    mark: Mark
    """`-` was, `+` is, ` ` both, `…` something is left out."""
    text: str


class ShownDifference(NamedTuple):
    subject: str
    part: str
    judgement: Judgement
    text: str
    lines: tuple[DiffLine, ...]


def shown(difference: Difference) -> ShownDifference:
    return ShownDifference(
        visible(difference.subject), visible(difference.part), difference.judgement, visible(difference.text),
        tuple(_lines(difference.before, difference.after)),
    )  # fmt: skip


def visible(text: str) -> str:
    """The text in one line, with the code point of what cannot be seen, and behind a letter that may be taken for
    another (`<U+0430>`)."""
    if text.isascii() and text.isprintable():
        return text
    looks = _WORD.sub(_marked, text)
    return "".join(char if _shows(char) else f"<U+{ord(char):04X}>" for char in looks)


def _marked(word: re.Match[str]) -> str:
    """Letters of other alphabets in a word that mixes them."""
    if not mixes_scripts(word[0]):
        return word[0]
    return "".join(
        char if char.isascii() or ascii_look(char) == char else f"{char}<U+{ord(char):04X}>" for char in word[0]
    )


def _shows(char: str) -> bool:
    return char == " " or (char.isprintable() and not is_invisible(char))


def _lines(before: Any, after: Any) -> Iterator[DiffLine]:
    old, new = _texts(before), _texts(after)
    if old == new:  # "1" and 1
        old, new = canonical(before), canonical(after)
    begin = _first_difference(old, new)
    cut = max(0, begin - LONGEST // 4)
    if cut:
        yield DiffLine("…", f"{cut} characters that are the same")
    left, right = (_split(each[cut : cut + LONGEST]) for each in (old, new))
    skipped = max(0, next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]),
                          min(len(left), len(right))) - CONTEXT)  # fmt: skip
    if skipped > 4 * CONTEXT:
        yield DiffLine("…", f"{skipped} lines that are the same")
        left, right = left[skipped:], right[skipped:]
    lines = list(_unified(left, right))
    yield from lines[:MAX_LINES]
    if len(lines) > MAX_LINES:
        yield DiffLine("…", f"{len(lines) - MAX_LINES} more lines")
    longest = max(len(old), len(new)) - cut
    if longest > LONGEST:
        yield DiffLine("…", f"{longest - LONGEST} more characters")


def _texts(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    except (ValueError, TypeError, RecursionError):
        return canonical(value)


def _first_difference(old: str, new: str) -> int:
    """By halves: texts may be long."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _split(text: str) -> list[str]:
    """Lines, and of long ones the sentences, each in one piece as far as it fits."""
    pieces: list[str] = []
    for line in text.split("\n") if text else []:
        for sentence in _SENTENCE.split(line) if len(line) > LINE // 4 else [line]:
            pieces += [sentence[at : at + LINE] for at in range(0, len(sentence), LINE)] or [""]
    return pieces


def _unified(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    if not (old and new):
        yield from (DiffLine("-", visible(each)) for each in old)
        yield from (DiffLine("+", visible(each)) for each in new)
        return
    groups = SequenceMatcher(None, old[: 4 * MAX_LINES], new[: 4 * MAX_LINES], autojunk=False)
    for number, group in enumerate(groups.get_grouped_opcodes(CONTEXT)):
        if number:
            yield DiffLine("…", "")
        for kind, a, b, c, d in group:
            if kind == "equal":
                yield from (DiffLine(" ", visible(each)) for each in old[a:b])
            else:
                yield from (DiffLine("-", visible(each)) for each in old[a:b])
                yield from (DiffLine("+", visible(each)) for each in new[c:d])
