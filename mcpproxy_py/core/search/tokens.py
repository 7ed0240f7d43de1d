"""What counts as a word: identifiers and prose cut into the same tokens, and names that look alike.

Everything here reads text that somebody else wrote, so every function is total, bounded in its input, and
gives the same answer for the same text whatever the machine or the order of things around it.

A light English stemmer: enough that "creating issues" meets `create_issue`, and no more.

Written here because a dependency for forty suffix rules would cost more than it saves, and because the
classic Porter rules go further than short identifiers can bear ("general" must not meet "generate").
Wrong is cheap, inconsistent is not: the same word must always give the same stem, so every word goes
through the same last step, whether or not a suffix was found.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from heapq import nsmallest
from itertools import islice, pairwise
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


LONGEST_WORD: Final = 40

# Words that say nothing about what a tool does. A text made of nothing else keeps them ("who_am_i").
_EMPTY: Final = (
    "a an the this that these those there here it its of in on at to for from by with without into onto within via per "
    "as is are was were be been being am do does did doing has have had having can could will would shall should may "
    "might must i me my mine you your yours we us our they them their he she his her him if then than so not no and or "
    "but what which who whom whose when where why how please just also any some each such very only let lets want "
    "wants need needs like use using used uses s t d m ll re ve don doesn didn isn"
)
STOP: Final = frozenset(_EMPTY.split())

# Written with a capital inside and yet one word; folded before identifiers are cut at their capitals.
_BRANDS: Final = re.compile(
    "GitHub|GitLab|BitBucket|YouTube|LinkedIn|WhatsApp|PayPal|HubSpot|WordPress|JavaScript|TypeScript|GraphQL"
    "|PostgreSQL|MySQL|NoSQL|SQLite|MongoDB|DynamoDB|BigQuery|ClickHouse|OAuth|OpenAPI|OpenAI|DevOps|PowerPoint"
    "|OneDrive|OneNote|SharePoint|iCloud|iPhone|macOS|LaTeX|WiFi"
)
# Capitals start a word (createIssue), but not inside an acronym (HTTPServer) nor before its plural s (PDFs).
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z]s(?![a-z]))")
_ACCENTS: Final = re.compile(r"[\u0300-\u036f]+")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_WORD: Final = re.compile(r"[^\W_]+")
_LETTERS_THEN_DIGITS: Final = re.compile(r"([a-z]{3,})[0-9]")


def tokens(text: str, cap: int) -> list[str]:
    """The stems of the words in the first `cap` characters, in order, repeats kept."""
    found = words(text, cap)
    telling = [word for word in found if word not in STOP]
    return [stem(word) for word in telling or found]


def words(text: str, cap: int) -> list[str]:
    """The words in the first `cap` characters, in lower case, those that say nothing too; identifiers are cut."""
    return _words(text[:cap])


def _words(text: str) -> list[str]:
    found: list[str] = []
    for word in _WORD.findall(_HUMP.sub(" ", _BRANDS.sub(_lowered, _plain(text))).casefold()):
        found.extend(_pieces(word[:LONGEST_WORD]))
    return found


def _plain(text: str) -> str:
    """One spelling for what looks the same: full-width letters, ligatures, accents."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def _lowered(match: re.Match[str]) -> str:
    return match.group().capitalize()


def _pieces(word: str) -> list[str]:
    """`oauth2` is also oauth; scripts without spaces are cut into overlapping pairs, as there are no words to find."""
    if word.isascii():
        split = _LETTERS_THEN_DIGITS.match(word)
        return [word, split.group(1)] if split else [word]
    runs = [run for run in _UNSPACED.findall(word) if len(run) > 1]
    rest = [part for part in _UNSPACED.split(word) if part] if runs else [word]
    return rest + [run[at : at + 2] for run in runs for at in range(len(run) - 1)]


_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


# Shorter words have too many others one letter away to be taken for misspelled.
_MISSPELLED: Final = range(6, 21)
_BEGUN: Final = 5


def lookalikes(word: str, known: Container[str], ordered: Sequence[str]) -> list[str]:
    """What of the known words a word that is none of them may be a slip of, or begin. `ordered` has them in order, and
    maybe others too."""
    if len(word) not in _MISSPELLED or not word.isalpha():
        return []
    slips = sorted(near for near in one_edit_away(word) if near in known)
    return slips or list(islice(_begun(word, known, ordered), _BEGUN))


def _begun(word: str, known: Container[str], ordered: Sequence[str]) -> Iterator[str]:
    at = bisect_left(ordered, word)
    while at < len(ordered) and (longer := ordered[at]).startswith(word):
        if longer in known:
            yield longer
        at += 1


def one_edit_away(word: str) -> set[str]:
    """All that one letter too many, too few, wrong or out of turn can make of a word."""
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    found = {left + right[1:] for left, right in splits if right}
    found.update(left + right[1] + right[0] + right[2:] for left, right in splits if len(right) > 1)
    found.update(left + letter + right[1:] for left, right in splits if right for letter in _LETTERS)
    found.update(left + letter + right for left, right in splits for letter in _LETTERS)
    return found - {word}


_NAMES: Final = 20_000
_NAME: Final = 128
_SHORTLIST: Final = 24
_ALIKE: Final = 0.55


def nearest(name: str, names: Iterable[str], n: int = 3) -> list[str]:
    """Up to `n` of `names` that somebody who wrote `name` may have meant, the likeliest first.

    Names that are overlong or not printable are never offered: they would carry foreign text into a message.
    A `name` without a server is compared with the part behind the colon.
    """
    wanted = name[:_NAME].casefold()
    pairs = _pairs(wanted)
    looks = {other: _comparable(other, ":" in wanted) for other in islice(names, _NAMES) if _offerable(other)}
    rough = ((-_shared(pairs, look), other) for other, look in looks.items())
    close = ((-_likeness(wanted, pairs, looks[other]), other) for _, other in nsmallest(_SHORTLIST, rough))
    return [other for unlikeness, other in sorted(close)[: max(n, 0)] if -unlikeness >= _ALIKE]


def _offerable(name: str) -> bool:
    return 0 < len(name) <= _NAME and name.isprintable()


def _comparable(name: str, whole: bool) -> str:
    return (name if whole else name.partition(":")[2] or name).casefold()


def _pairs(text: str) -> frozenset[str]:
    padded = f"^{text}$"
    return frozenset(map("".join, pairwise(padded)))


def _shared(pairs: frozenset[str], other: str) -> float:
    """About Dice's share of common letter pairs; by substring test, because it runs once for every known name."""
    return 2 * sum(map(f"^{other}$".__contains__, pairs)) / (len(pairs) + len(other) + 1)


def _likeness(wanted: str, pairs: frozenset[str], other: str) -> float:
    """Letters in order for typing errors, or shared pairs for words in another order, whichever is closer."""
    return max(SequenceMatcher(None, wanted, other, autojunk=False).ratio(), _shared(pairs, other))
