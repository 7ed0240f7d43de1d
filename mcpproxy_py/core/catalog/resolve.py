"""From what somebody called a capability to the capability (CAT-2).

The rungs are tried from the top. The first one that holds for any capability decides: one capability on it is
the answer, several are ambiguous, and the lowest rung never decides alone.

1. `exact`        the name itself; case, spaces, hyphens, plurals and word endings do not matter
2. `alias`        an entry of the alias table, compared in the same way
3. `substring`    the query lies inside the name or, where it is long enough to mean something, the description
4. `mention`      a whole name or alias lies inside the query and is at least half of what it says
5. `typo`         a name or alias is one slip of the finger away
6. `words`        words in common with name, aliases and description; likeness of meaning too, where it is installed

Every rung has a band of confidences of its own and the bands do not overlap, so that confidences of different
queries can be compared: an exact name never scores below an alias, an alias never below a substring. Within its
band a candidate stands by its share (0 to 1), which is documented with each rung.

Phrases in one spelling, tables of them, and the words they are made of: what name resolution stands on.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import log
from typing import Final, Literal

from mcpproxy_py.core.search.tokens import STOP, lookalikes, one_edit_away, stem, tokens

LONGEST: Final = 300
"""Characters of a query that are looked at."""
_TEXT: Final = 1000
_SHORTEST_SLIP: Final = 5
_NOT_A_WORD: Final = re.compile(r"[\W_]+")
_STOP_STEMS: Final = frozenset(map(stem, STOP)) | STOP


def fold(text: str) -> str:
    """One spelling: no case, no hyphens, one space between words, compatible characters alike."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(_NOT_A_WORD.sub(" ", plain.casefold()).split())


def alike(left: str, right: str) -> float:
    """How alike two spellings are, letter by letter, from 0 to 1."""
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def _stems(folded: str) -> list[str]:
    return [stem(word) for word in folded.split()]


def _closed(folded: str) -> str:
    return stem(folded.replace(" ", ""))


class Phrases:
    """What phrases stand for. Also found by their stems and without spaces, so that "sub agents" meets
    "subagents"; what is written in the table wins over what is derived from it."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._whole = {fold(phrase): name for phrase, name in pairs}
        self._stemmed: dict[str, str] = {}
        for phrase, name in self._whole.items():
            self._stemmed.setdefault(" ".join(_stems(phrase)), name)
            self._stemmed.setdefault(_closed(phrase), name)

    def find(self, query: str) -> Iterator[tuple[str, float]]:
        """The share is 1 as written, less where only the stems or only the letters agree."""
        said = fold(query)
        if said in self._whole:
            yield self._whole[said], 1.0
        elif (spaced := " ".join(_stems(said))) in self._stemmed:
            yield self._stemmed[spaced], 0.5
        elif (closed := _closed(said)) in self._stemmed:
            yield self._stemmed[closed], 0.4

    def slips(self, query: str) -> Mapping[str, float]:
        """What one slip of the finger made of the query, with how alike the two are."""
        said = fold(query)
        near = one_edit_away(said) if len(said) >= _SHORTEST_SLIP else ()
        return {name: alike(said, phrase) for phrase, name in self._whole.items() if phrase in near}

    def by_stems(self) -> dict[tuple[str, ...], str]:
        return {tuple(_stems(phrase)): name for phrase, name in self._whole.items() if phrase not in STOP}


class Mentions:
    """Known phrases inside a longer text."""

    def __init__(self, *tables: Phrases) -> None:
        self._phrases: dict[tuple[str, ...], str] = {}
        for table in tables:
            self._phrases |= table.by_stems()
        self._longest = max(map(len, self._phrases), default=0)

    def shares(self, query: str) -> Mapping[str, float]:
        """For each name mentioned, how many of the query's telling words its longest mention accounts for."""
        words = _stems(fold(query))
        telling = sum(word not in _STOP_STEMS for word in words) or len(words)
        found: dict[str, float] = {}
        for name, length in self._found(words):
            found[name] = max(found.get(name, 0.0), min(length / telling, 1.0))
        return found

    def _found(self, words: Sequence[str]) -> Iterator[tuple[str, int]]:
        """From left to right, the longest first, none within another."""
        at = 0
        while at < len(words):
            name, length = self._longest_at(words, at)
            if name is not None:
                yield name, length
            at += length

    def _longest_at(self, words: Sequence[str], at: int) -> tuple[str | None, int]:
        for length in range(min(self._longest, len(words) - at), 0, -1):
            name = self._phrases.get(tuple(words[at : at + length]))
            if name is not None:
                return name, length
        return None, 1


class Vocabulary:
    """Words of texts that belong to names; a rare word says more, and one in a heavier text too."""

    def __init__(self, texts: Mapping[str, Iterable[tuple[str, float]]]) -> None:
        """`texts` gives for each name its texts with their weights."""
        self._weights = {name: _weights(parts) for name, parts in texts.items()}
        spread: dict[str, int] = {}
        for words in self._weights.values():
            for word in words:
                spread[word] = spread.get(word, 0) + 1
        self._rarity = {word: log(1 + len(texts) / count) for word, count in spread.items()}
        self._ordered = sorted(self._rarity)
        self._unheard = log(1 + len(texts))
        self._heaviest = max((weight for words in self._weights.values() for weight in words.values()), default=1.0)

    def shares(self, query: str) -> Iterator[tuple[str, float]]:
        """How much of what could be found of the query is found for each name, and how prominently. A word that
        nobody uses counts against all."""
        asked = {known for word in tokens(query, LONGEST) for known in self._known(word)}
        possible = self._heaviest * sum(self._rarity.get(word, self._unheard) for word in asked)
        for name, words in self._weights.items():
            found = sum(words[word] * self._rarity[word] for word in asked if word in words)
            if found:
                yield name, found / possible

    def _known(self, word: str) -> list[str]:
        """The word, or what it may be a slip of."""
        return [word] if word in self._rarity else lookalikes(word, self._rarity, self._ordered) or [word]


def _weights(parts: Iterable[tuple[str, float]]) -> Mapping[str, float]:
    words: dict[str, float] = {}
    for text, weight in parts:
        for word in tokens(text, _TEXT):
            words[word] = max(words.get(word, 0.0), weight)
    return words


Rung = Literal["exact", "alias", "substring", "mention", "typo", "words"]
Shares = Iterable[tuple[str, float]]
Similar = Callable[[str], Mapping[str, float]]
"""A semantic ranker: the query in, a likeness of 0 to 1 for each capability's name out."""

BANDS: Final[Mapping[Rung, tuple[float, float]]] = {
    "exact": (0.97, 1.0),
    "alias": (0.90, 0.95),
    "substring": (0.75, 0.89),
    "mention": (0.60, 0.74),
    "typo": (0.52, 0.59),
    "words": (0.0, 0.50),
}
SHOWN: Final = 3
_SHORTEST_PART: Final = 3
_SHORTEST_PART_OF_PROSE: Final = 8
_HALF: Final = 0.5
_BY_LETTERS: Final = 0.2
_NAME, _ALIAS, _DESCRIPTION = 3.0, 2.0, 1.0


@dataclass(frozen=True, slots=True)
class Term:
    """A capability as a name to be found."""

    name: str
    category: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One capability on the highest rung that holds for it."""

    term: Term
    rung: Rung
    share: float

    @property
    def confidence(self) -> float:
        low, high = BANDS[self.rung]
        return round(low + (high - low) * min(max(self.share, 0.0), 1.0), 3)


@dataclass(frozen=True, slots=True)
class Found:
    """The one capability that was meant."""

    term: Term
    rung: Rung
    confidence: float


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The likeliest three, the best first. `known` is false where nothing but letters agrees."""

    query: str
    candidates: tuple[Candidate, ...]
    known: bool = True


class Names:
    """The canonical names and their aliases, indexed once."""

    def __init__(self, terms: Sequence[Term], aliases: Mapping[str, str], similar: Similar | None = None) -> None:
        """`aliases` maps what people say to a name in `terms`; `similar` joins the rung `words`."""
        self.terms = tuple(terms)
        self._by_name = {term.name: term for term in terms}
        self._order = {term.name: at for at, term in enumerate(terms)}
        self._folded = {term.name: (fold(term.name), fold(term.description)) for term in terms}
        self._exact = Phrases((term.name, term.name) for term in terms)
        self._alias = Phrases(aliases.items())
        self._mentions = Mentions(self._alias, self._exact)
        self._vocabulary = Vocabulary(_texts(terms, aliases))
        self._similar = similar
        self._rungs: Mapping[Rung, Callable[[str], Shares]] = {
            "exact": self._exact.find,
            "alias": self._alias.find,
            "substring": self._substring,
            "mention": self._mention,
            "typo": self._typo,
            "words": self._words,
        }

    def resolve(self, query: str) -> Found | Ambiguous:
        """The one function behind which every way of matching lives."""
        query = query[:LONGEST]
        for rung, look in self._rungs.items():
            found = dict(look(query))
            if len(found) == 1 and rung != "words":
                (one,) = self._candidates(rung, found.items())
                return Found(one.term, rung, one.confidence)
            if found:
                return Ambiguous(query, self._best(query))
        return Ambiguous(query, self._first(self._candidates("words", self._letters(query))), known=False)

    def _best(self, query: str) -> tuple[Candidate, ...]:
        """Each capability on its highest rung."""
        best: dict[Term, Candidate] = {}
        for rung, look in self._rungs.items():
            for one in self._candidates(rung, look(query)):
                best.setdefault(one.term, one)
        return self._first(best.values())

    def _candidates(self, rung: Rung, shares: Shares) -> list[Candidate]:
        return [Candidate(self._by_name[name], rung, share) for name, share in shares]

    def _first(self, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
        ranked = sorted(candidates, key=lambda one: (-one.confidence, self._order[one.term.name]))
        return tuple(ranked[:SHOWN])

    def _substring(self, query: str) -> Iterator[tuple[str, float]]:
        """In a name, the share is how much of the name was said, in the upper half of the band; in a description,
        how much of that, in the lower half. A description is only asked where no name holds the query."""
        part = fold(query)
        if len(part) < _SHORTEST_PART:
            return
        named = [(name, len(part) / len(text)) for name, (text, _) in self._folded.items() if part in text]
        yield from ((name, _HALF + _HALF * share) for name, share in named)
        if not named and len(part) >= _SHORTEST_PART_OF_PROSE:
            described = ((name, prose) for name, (_, prose) in self._folded.items() if part in prose)
            yield from ((name, _HALF * len(part) / len(prose)) for name, prose in described)

    def _mention(self, query: str) -> Iterator[tuple[str, float]]:
        """The share is how many of the query's telling words the name or alias accounts for. What accounts for less
        than half of them does not say what the query is about; it counts among the words."""
        shares = self._mentions.shares(query)
        most = max(shares.values(), default=0.0)
        if most >= _HALF:
            yield from ((name, share) for name, share in shares.items() if share == most)

    def _typo(self, query: str) -> Shares:
        """The share is how alike the two are, letter by letter; a name goes before an alias."""
        return (self._exact.slips(query) or self._alias.slips(query)).items()

    def _words(self, query: str) -> Shares:
        """The share is that of the words (see `Vocabulary.shares`), and half of a mention too short for its rung. With
        a semantic ranker, the mean of that and of the likeness: each knows what the other misses."""
        mentioned = self._mentions.shares(query)
        shares = {name: share + _HALF * mentioned.get(name, 0.0) for name, share in self._vocabulary.shares(query)}
        if self._similar is None:
            return shares.items()
        likeness = {name: share for name, share in self._similar(query).items() if name in self._by_name}
        both = {name: _HALF * (shares.get(name, 0.0) + likeness.get(name, 0.0)) for name in {**shares, **likeness}}
        return both.items()

    def _letters(self, query: str) -> Iterator[tuple[str, float]]:
        """For a query that says nothing known: names that look alike, low in the lowest band."""
        said = fold(query)
        yield from ((name, _BY_LETTERS * alike(said, text)) for name, (text, _) in self._folded.items())


def _texts(terms: Sequence[Term], aliases: Mapping[str, str]) -> Mapping[str, list[tuple[str, float]]]:
    texts = {term.name: [(term.name, _NAME), (term.description, _DESCRIPTION)] for term in terms}
    for phrase, name in aliases.items():
        texts[name].append((phrase, _ALIAS))
    return texts
