"""Characters that a model reads and a person does not see.

Most have honest uses: joiners in emoji, Persian and Hindi, marks of direction in Hebrew and Arabic, variation selectors
behind emoji and ideographs, a soft hyphen, a byte order mark. Those are let through where they are used like that, and
nowhere else: what is left blocks the tool. In names (of tools, of parameters) none belongs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from mcpproxy_py.core.pins.scan.listed_texts import Role
from mcpproxy_py.core.policy.confusables import ascii_look


class HiddenCharacters(NamedTuple):
    start: int
    end: int
    what: str


_SUSPECT: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]+|\r(?!\n|$)"
)
"""A run of what may be hidden. Line ends and tabs are none."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")
"""Those of the upper half that are letters in Windows' code page are what a wrong decoding leaves behind."""
_ESCAPE_OF_ONE_BYTE: Final = re.compile(r"\x9b[0-9;?]*[@-~]")
_FLAG: Final = "\U0001f3f4"
_FLAGS: Final = frozenset(
    "".join(chr(0xE0000 + ord(char)) for char in region) + "\U000e007f" for region in ("gbeng", "gbsct", "gbwls")
)
"""The only sequences of tag characters that Unicode recommends: England, Scotland, Wales."""
_JOINING: Final = frozenset((
    "ARABIC", "SYRIAC", "MONGOLIAN", "NKO", "MANDAIC",
    "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL",
    "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "KHMER", "MYANMAR", "TIBETAN", "ADLAM", "BALINESE", "JAVANESE",
))  # fmt: skip
"""Scripts in which a joiner changes how letters look."""
_WITHOUT_SPACES: Final = frozenset(("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "JAVANESE", "BALINESE"))
_RIGHT_TO_LEFT: Final = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_IDEOGRAPHS: Final = re.compile("[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_BRAILLE: Final = re.compile("[\u2801-\u28ff]")
_WORD: Final = re.compile(r"[^\W\d_]+")
_MANY_BREAKS: Final = 8
"""So many zero width spaces in one text are no hints on where to break a line."""

_MOST_RUNS: Final = 20_000


class _Scripts(NamedTuple):
    """Whether a text has any letter of these at all; found out once."""

    right_to_left: bool
    braille: bool


def hidden_characters(text: str, role: Role) -> HiddenCharacters | None:
    """The first place that a person does not see as it is; `None`, and soon, for plain ASCII."""
    if text.isascii() and text.isprintable():
        return None
    return next(_found(text, role), None)


def _found(text: str, role: Role) -> Iterator[HiddenCharacters]:
    breaks = 0
    scripts = _Scripts(_RIGHT_TO_LEFT.search(text) is not None, _BRAILLE.search(text) is not None)
    for count, run in enumerate(_SUSPECT.finditer(text)):
        if count >= _MOST_RUNS:
            yield HiddenCharacters(run.start(), run.end(), "more invisible characters than any text needs")
            return
        chars, start = run[0], run.start()
        before = text[start - 1] if start else ""
        after = text[run.end()] if run.end() < len(text) else ""
        if role == "name":
            joins = chars in ("\u200c", "\u200d") and _script(before) in _JOINING
            what = None if joins or _emoji_run(chars, before, after) else "invisible characters in a name"
        else:
            what = _judged(text, chars, start, before, after, scripts)
            if what is None and "\u200b" in chars:
                breaks += 1
                what = (
                    "many zero width spaces"
                    if breaks > _MANY_BREAKS and _script(before) not in _WITHOUT_SPACES
                    else None
                )
        if what is not None:
            yield HiddenCharacters(start, run.end(), what)
    if not text.isascii():
        yield from _imitations(text, role)


def _judged(text: str, chars: str, start: int, before: str, after: str, scripts: _Scripts) -> str | None:
    if "\x1b" in chars or _ESCAPE_OF_ONE_BYTE.match(text, start):
        return "terminal escape sequences"
    if "\r" in chars:
        return "a carriage return that overwrites its line"
    if _CONTROL.search(chars):
        return "control characters"
    if any("\U000e0000" <= char <= "\U000e007f" for char in chars):
        flag = before == _FLAG and chars in _FLAGS
        return None if flag else "tag characters, which spell text that nobody sees"
    if any(unicodedata.category(char) in ("Co", "Cs") or _is_noncharacter(char) for char in chars):
        return "characters of private use, which mean nothing to a reader"
    if chars[0] in "\u202d\u202e" or "\u202e" in chars or "\u202d" in chars:
        return "characters that reverse the direction of text"
    if any("\u202a" <= char <= "\u202c" or "\u2066" <= char <= "\u2069" for char in chars):
        return None if len(chars) <= 2 and scripts.right_to_left else "characters that change the direction of text"
    if all(char in "\u200e\u200f\u061c" for char in chars):
        return None if len(chars) == 1 and scripts.right_to_left else "marks of direction in text that has none"
    if _emoji_run(chars, before, after):
        return None
    if (
        len(chars) > 1
        and not all("\x80" <= char <= "\x9f" for char in chars)
        and not (scripts.braille and set(chars) == {"\u2800"})
    ):
        return "a run of invisible characters"
    return _single(text, chars[0], start, before, after, scripts)


def _single(text: str, char: str, start: int, before: str, after: str, scripts: _Scripts) -> str | None:
    """One alone, where it has a use."""
    letters = before.isalpha() and after.isalpha()
    match char:
        case "\u200b" | "\u2060":
            return "zero width characters inside a word" if letters and not _unspaced(before, after) else None
        case "\u200c" | "\u200d":
            return None if _script(before) in _JOINING else "zero width joiners"
        case "\ufeff":
            return None if start == 0 else "a byte order mark inside the text"
        case "\xad":
            apart = text[max(0, start - 3) : start].isalpha() and text[start + 1 : start + 4].isalpha()
            return None if apart or not letters else "soft hyphens between single letters"
        case "\u2028" | "\u2029" | "\u200e" | "\u200f":
            return None
        case "\u2800":
            return None if scripts.braille else "blanks that are no space"
        case _:
            pass
    if "\ufe00" <= char <= "\ufe0f":
        return (
            None
            if before and not before.isspace() and not _is_ascii_letter(before)
            else "variation selectors without a character"
        )
    if "\U000e0100" <= char <= "\U000e01ef":
        return None if _IDEOGRAPHS.fullmatch(before) else "variation selectors, which can carry any text"
    if "\u180b" <= char <= "\u180f":
        return None if _script(before) == "MONGOLIAN" else "Mongolian separators"
    if "\x80" <= char <= "\x9f":
        return None
    return "invisible characters"


def _emoji_run(chars: str, before: str, after: str) -> bool:
    """A variation selector behind a character that has both forms, a joiner between two pictures."""
    if chars in ("\ufe0f", "\ufe0e"):
        return bool(before) and not before.isspace() and not _is_ascii_letter(before)
    return chars in ("\u200d", "\ufe0f\u200d") and _is_picture(before) and _is_picture(after)


def _is_picture(char: str) -> bool:
    return bool(char) and (unicodedata.category(char) in ("So", "Sk", "Sm", "Cn") or char == "\u20e3")


def _is_ascii_letter(char: str) -> bool:
    return char.isascii() and char.isalpha()


def _unspaced(before: str, after: str) -> bool:
    return _script(before) in _WITHOUT_SPACES or _script(after) in _WITHOUT_SPACES


def _is_noncharacter(char: str) -> bool:
    return "\ufdd0" <= char <= "\ufdef" or ord(char) & 0xFFFE == 0xFFFE


@lru_cache(maxsize=65_536)
def _script(char: str) -> str:
    return unicodedata.name(char, "?").partition(" ")[0] if char else "?"


def _imitations(text: str, role: Role) -> Iterator[HiddenCharacters]:
    """Words that look like Latin ones, some of whose letters are of another alphabet."""
    for word in _WORD.finditer(text):
        if not word[0].isascii() and (switches := _switches(word[0])) and (role == "name" or switches > 1):
            yield HiddenCharacters(word.start(), word.end(), "letters of another alphabet that look like Latin ones")


def _switches(word: str) -> int:
    """How often a word goes from Latin to look-alikes or back; 0 if any of its letters looks like no Latin one. One
    such change is found in honest words: a Russian ending behind an English name."""
    latin = [_is_ascii_letter(char) for char in word]
    if not any(latin) or len(word) < 3:
        return 0
    if not all(own or _is_imitation(char) for own, char in zip(latin, word, strict=True)):
        return 0
    return sum(one != next_one for one, next_one in pairwise(latin))


@lru_cache(maxsize=65_536)
def _is_imitation(char: str) -> bool:
    return (
        _script(char) in ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU") and ascii_look(char).isascii()
    )
