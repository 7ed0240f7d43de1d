"""A finding in the texts of a server."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal, NamedTuple

FindingKind = Literal[
    "instructs", "names_other_tools", "hides_characters", "encoded", "asks_for_secrets", "shadows", "contradicts"
]  # fmt: skip
BLOCKING: Final[frozenset[FindingKind]] = frozenset(("hides_characters",))
"""What a person cannot see, nobody can approve. All else is a hint for a person."""
ABOUT_OTHERS: Final[frozenset[FindingKind]] = frozenset(("names_other_tools", "shadows"))
"""They hold for as long as the other server is configured."""
MAX_EXCERPT: Final = 120
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]+")


class Finding(NamedTuple):
    kind: FindingKind
    where: str
    """`description`, `inputSchema.properties.path.description`, `instructions`."""
    excerpt: str
    """At most 120 characters, all of them visible: what is not stands as its code point, like `<U+200B>`."""
    text: str
    """A plain sentence."""

    @property
    def blocks(self) -> bool:
        return self.kind in BLOCKING


def visible(text: str) -> str:
    """Of a server's text, what may be shown in a terminal: no control, format or private character survives."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, _TAGS.sub(_spelled, text)))


def _spelled(tags: re.Match[str]) -> str:
    """What tag characters say: whoever decides has to know."""
    return f"<tags: {''.join(chr(ord(char) - 0xE0000) for char in tags[0])}>"


def _visible(char: str) -> str:
    if char in " \n\t\r":
        return " "
    if unicodedata.category(char)[0] == "C" or unicodedata.category(char) in ("Zl", "Zp") or _selects(ord(char)):
        return f"<U+{ord(char):04X}>"
    return char


def _selects(code: int) -> bool:
    return code in (0x034F, 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0) or (
        0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF
    )


def excerpt_of(text: str, start: int, end: int) -> str:
    """What was found, with a little before and after it."""
    before = max(0, start - 20)
    shown = " ".join(visible(text[before : min(len(text), max(end, start + 1) + 20, before + MAX_EXCERPT)]).split())
    return shown if len(shown) <= MAX_EXCERPT else shown[: MAX_EXCERPT - 1] + "…"
