"""Which characters look like which of ASCII.

Python's Unicode data has no confusables, so here is a small table of the letters that are mostly used to imitate Latin
ones: of Cyrillic, Greek, Armenian, Cherokee, Lisu, Coptic, Canadian syllabics, and single ones of a few other scripts.
Compatibility forms (full width, mathematical, circled, ligatures) are undone by NFKC. Small capitals, regional
indicators, digits of other scripts, dashes and letters with strokes are known by what Unicode calls them. The table is
a part of Unicode's `confusables.txt`; for what it does not hold there is `mixes_scripts`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

ALIKE: Final[dict[str, str]] = {
    "!": "ǃ", ".": "ꓸ·•\u2219\u22c5ꞏ", "/": "\u2044\u2215\u2571", "3": "Зз", "4": "Ꮞ", ":": "։\u05c3ː\u2236\ua789",
    "A": "АΑᎪꓮⲀᗅ", "B": "ВΒᏴꓐⲂᗷ", "C": "СϹᏟꓚⲤ", "D": "ԀᎠꓓᗞᗪ", "E": "ЕΕᎬꓰⲈ", "F": "ꓝ", "G": "ԌᏀᏳꓖ", "H": "НΗᎻꓧⲎᕼ",
    "I": "ІΙᏆꓲⲒ", "J": "ЈͿᎫꓙᒍ", "K": "КΚᏦꓗⲔ", "L": "ԼᏞꓡᒪʟ", "M": "МΜᎷꓟⲘᗰ", "N": "ΝꓠⲚ", "O": "ОΟՕᎾꓳⲞⵔ", "P": "РΡᏢꓑⲢᑭ",
    "Q": "Ԛ", "R": "ᎡᏒꓣᖇ", "S": "ЅՏᏕᏚꓢᔕ", "T": "ТΤᎢꓔⲦ", "U": "Սꓴᑌ", "V": "ѴᏙꓦᐯ", "W": "ԜᎳᏔꓪ", "X": "ХΧꓫⲬ\u166dⵝ",
    "Y": "УҮΥᎽꓬⲨ", "Z": "ΖᏃꓜ", "_": "ˍ\u07fa", "a": "аαɑ", "b": "ЬвьβᏏ", "c": "сςⲥ", "d": "ԁᏧᑯ", "e": "еҽε",
    "g": "ԍցɡ", "h": "нһհ", "i": "іιᎥⲓɩı", "j": "јϳյȷ", "k": "кκⲕ", "l": "Ӏӏլ\u05d5\u05df\u0627ⵏƖǀ\u2223\u2502\u05c0",
    "m": "м", "n": "ηՈո", "o": "оοσօⲟ\u05e1\u0647\u06d5ဝഠჿ", "p": "рρքⲣ", "q": "ԛզ", "s": "ѕſ", "t": "тτ", "u": "υս",
    "v": "ѵν", "w": "ԝѡωա", "x": "хχⲭ", "y": "уү",
}  # fmt: skip
"""Of an ASCII character those that look like it."""
_LOOKS: Final = {char: ascii_one for ascii_one, chars in ALIKE.items() for char in chars}
_LETTER: Final = re.compile(
    r"(?:NEGATIVE |SQUARED |CIRCLED |REGIONAL INDICATOR SYMBOL |LATIN )*(?:(CAPITAL|SMALL) )?LETTER "
    r"(?:SMALL CAPITAL |SCRIPT |DOTLESS |OPEN |BARRED |INSULAR )*([A-Z])"
)
_BY_CATEGORY: Final = {"Pd": "-", "Pc": "_", "Zs": " "}
_INVISIBLE: Final = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10),
     *range(0xE0000, 0xE1000)]
)  # fmt: skip
"""What shows nothing, besides control and format characters: joiners, fillers, variation selectors, tags."""
_NO_TEXT: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))
_MARKS: Final = frozenset(("Mn", "Me"))
_BESIDE_LATIN: Final = frozenset(("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "KATAKANA-HIRAGANA"))
"""Scripts that are written together with Latin letters, and look like none of them."""


@lru_cache(maxsize=65_536)
def is_invisible(char: str) -> bool:
    return ord(char) in _INVISIBLE or unicodedata.category(char) in _NO_TEXT


@lru_cache(maxsize=65_536)
def ascii_look(char: str) -> str:
    """The ASCII character that can hardly be told from this one; itself where there is none."""
    if char.isascii():
        return char
    if (found := _LOOKS.get(char)) is not None:
        return found
    if unicodedata.east_asian_width(char) == "W":
        return char  # ideographs and syllables, which are many and look like nothing in ASCII
    for other in (char.upper(), char.lower()):
        if (found := _LOOKS.get(other)) is not None:
            return found.lower() if char.islower() else found
    if (digit := unicodedata.decimal(char, None)) is not None:
        return str(digit)
    if (plain := _BY_CATEGORY.get(unicodedata.category(char))) is not None:
        return plain
    letter = _LETTER.fullmatch(unicodedata.name(char, ""))
    return char if letter is None else letter[2] if letter[1] == "CAPITAL" else letter[2].lower()


@lru_cache(maxsize=65_536)
def _roughly(char: str) -> str:
    """The same, a stroke or a tail not counting."""
    looks = ascii_look(char)
    if looks.isascii() or unicodedata.east_asian_width(char) == "W":
        return looks
    name = unicodedata.name(char, "")
    if " WITH " not in name:
        return looks
    try:
        return ascii_look(unicodedata.lookup(name.partition(" WITH ")[0]))
    except KeyError:
        return looks


def identical(name: str) -> str:
    """What two names have in common that nobody can tell apart by their looks."""
    return name if name.isascii() else "".join(map(ascii_look, name))


def similar(text: str) -> str:
    """The text in ASCII as far as it looks like that, without accents and other marks."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text)
    return "".join(_roughly(char) for char in apart if unicodedata.category(char) not in _MARKS)


def mixes_scripts(name: str) -> bool:
    """Whether a word of it has letters of more than one alphabet. What such a word looks like, no table knows whole.

    As in Unicode's `Highly Restrictive` (UTS 39): Chinese, Japanese and Korean may stand beside Latin."""
    if name.isascii():
        return False
    scripts: set[str] = set()
    for char in unicodedata.normalize("NFKC", name):
        if not char.isalpha():
            if unicodedata.category(char) not in _MARKS:
                scripts.clear()
            continue
        scripts.add(_script(char))
        if len(scripts - _BESIDE_LATIN) > 1:
            return True
    return False


@lru_cache(maxsize=65_536)
def _script(char: str) -> str:
    """The first word of a letter's name says it."""
    return "LATIN" if char.isascii() else unicodedata.name(char, "?").partition(" ")[0]
