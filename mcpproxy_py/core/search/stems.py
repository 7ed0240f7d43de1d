"""A light English stemmer: enough that "creating issues" meets `create_issue`, and no more.

Written here because a dependency for forty suffix rules would cost more than it saves, and because the
classic Porter rules go further than short identifiers can bear ("general" must not meet "generate").
Wrong is cheap, inconsistent is not: the same word must always give the same stem, so every word goes
through the same last step, whether or not a suffix was found.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

IRREGULAR: Final[dict[str, str]] = {
    "sent": "send", "made": "make", "found": "find", "wrote": "write", "written": "write", "ran": "run",
    "got": "get", "gotten": "get", "paid": "pay", "built": "build", "bought": "buy", "sold": "sell",
    "said": "say", "told": "tell", "went": "go", "gone": "go", "shown": "show", "given": "give", "gave": "give",
    "taken": "take", "took": "take", "left": "leave", "held": "hold", "kept": "keep", "drew": "draw", "drawn": "draw",
    "used": "use", "using": "use", "children": "child", "people": "person", "indices": "index", "indexes": "index",
    "uses": "use", "ids": "id", "prs": "pr", "matrices": "matrix", "vertices": "vertex", "analysis": "analyze",
    "analyses": "analyze", "embed": "embed", "data": "data", "news": "news",
    "series": "series", "statement": "statement", "comment": "comment", "document": "document",
}  # fmt: skip

# (ending, what replaces it, how many letters must stand before it); the first row that fits is applied, and
# then the table is read again, so that "notifications" comes down to "notify" in two steps.
SUFFIXES: Final[tuple[tuple[str, str, int], ...]] = (
    ("ies", "y", 2), ("ied", "y", 2),
    ("sses", "ss", 1), ("shes", "sh", 1), ("ches", "ch", 2), ("xes", "x", 1), ("zzes", "zz", 1), ("uses", "us", 3),
    ("ss", "ss", 0), ("us", "us", 0), ("is", "is", 0), ("s", "", 3),
    ("scription", "scribe", 1), ("olution", "olve", 1), ("ification", "ify", 2), ("isation", "ize", 3),
    ("ization", "ize", 3), ("ation", "ate", 3),
    ("ition", "ite", 3), ("ution", "ute", 3), ("etion", "ete", 3), ("ction", "ct", 2),
    ("ator", "ate", 3), ("ment", "", 3),
    ("eed", "eed", 0), ("ing", "", 3), ("ed", "", 3),
)  # fmt: skip

_LAST: Final = ("ing", "ed")
_VOWEL: Final = re.compile(r"[aeiouy]")
_DOUBLED: Final = re.compile(r"([bcdfghjkmnpqrtvwxy])\1$")
_STEPS: Final = 4


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The stem of one lower-case word. Words that are short or not ASCII letters stay as they are."""
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    for _ in range(_STEPS):
        if word in IRREGULAR:
            return _ending(IRREGULAR[word])
        suffix, shorter = _cut(word)
        if suffix in _LAST:  # what is left is a bare verb: the s of "clos-ing" is no plural
            return _ending(_single(shorter))
        if shorter == word:
            break
        word = shorter
    return _ending(word)


def _cut(word: str) -> tuple[str, str]:
    for suffix, replacement, least in SUFFIXES:
        if word.endswith(suffix):
            before = word[: -len(suffix)]
            if replacement != suffix and len(before) >= least and (suffix == "s" or _VOWEL.search(before)):
                return suffix, before + replacement
            return "", word
    return "", word


def _single(word: str) -> str:
    """Undo the doubling that -ing and -ed bring ("running"); "adding" and "filling" keep theirs."""
    return word[:-1] if len(word) > 3 and _DOUBLED.search(word) else word


def _ending(word: str) -> str:
    """What must go for "create" and "creat-ing", "cancel" and "cancell-ed", "organise" and "-ize" to meet."""
    if len(word) > 3 and word[-1] in "eyi":
        word = word[:-1]
    if len(word) > 6 and word.endswith("at"):
        word = word[:-2]
    if len(word) > 5 and word.endswith("ll"):
        word = word[:-1]
    if len(word) > 5 and word.endswith(("is", "ys")):
        word = word[:-1] + "z"
    return word
