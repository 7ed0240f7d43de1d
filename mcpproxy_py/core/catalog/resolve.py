"""From what somebody called a capability to the capability (CAT-2).

The rungs are tried from the top. The first one that holds for any capability decides: one capability on it is
the answer, several are ambiguous, and the lowest rung never decides alone.

1. `exact`        the name itself; case, spaces, hyphens, plurals and word endings do not matter
2. `alias`        an entry of the alias table, compared in the same way
3. `substring`    the query lies inside the name or, where it is long enough to mean something, the description
4. `mention`      a whole name or alias lies inside the query and is at least half of what it says
5. `typo`         a name or alias is one slip of the finger away
6. `words`        words in common with name, aliases and description (or `similar`, where it is installed)

Every rung has a band of confidences of its own and the bands do not overlap, so that confidences of different
queries can be compared: an exact name never scores below an alias, an alias never below a substring. Within its
band a candidate stands by its share (0 to 1), which is documented with each rung.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import log
from typing import Final, Literal

from mcpproxy_py.core.stems import stem
from mcpproxy_py.core.words import STOP, one_edit_away, tokens

Rung = Literal["exact", "alias", "substring", "mention", "typo", "words"]
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
LONGEST_QUERY: Final = 300
_SHORTEST_PART: Final = 3
_SHORTEST_PART_OF_PROSE: Final = 8
_SHORTEST_SLIP: Final = 5
_HALF: Final = 0.5
_NOT_A_WORD: Final = re.compile(r"[\W_]+")
# How much a word found in each place counts.
_PLACES: Final[Mapping[str, float]] = {"name": 3.0, "alias": 2.0, "description": 1.0}


@dataclass(frozen=True, slots=True)
class Term:
    """A capability as a name to be found."""

    name: str
    category: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
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
        """`aliases` maps what people say to a name in `terms`; `similar` replaces the rung `words`."""
        self.terms = tuple(terms)
        self.aliases = dict(aliases)
        self._similar = similar
        self._by_name = {term.name: term for term in terms}
        self._order = {term.name: at for at, term in enumerate(terms)}
        self._exact = _keys((term.name, term.name) for term in terms)
        self._alias = _keys(aliases.items())
        self._folded = {term.name: (fold(term.name), fold(term.description)) for term in terms}
        self._phrases = _phrases({**self._alias.whole, **self._exact.whole})
        self._weights, self._rarity = _vocabulary(self.terms, self.aliases)

    def resolve(self, query: str) -> Found | Ambiguous:
        """The one function behind which every way of matching lives."""
        query = query[:LONGEST_QUERY]
        for rung, look in self._rungs():
            found = {name: share for name, share in look(query) if name in self._by_name}
            if len(found) == 1 and rung != "words":
                (name, share), *_ = found.items()
                candidate = Candidate(self._by_name[name], rung, share)
                return Found(candidate.term, rung, candidate.confidence)
            if found:
                return self._ambiguous(query)
        return Ambiguous(query, self._best(dict(self._letters(query)), "words"), known=False)

    def __getitem__(self, name: str) -> Term:
        return self._by_name[name]

    def _rungs(self) -> tuple[tuple[Rung, Callable[[str], Iterable[tuple[str, float]]]], ...]:
        return (
            ("exact", self._exact.find),
            ("alias", self._alias.find),
            ("substring", self._substring),
            ("mention", self._mention),
            ("typo", self._typo),
            ("words", self._words),
        )

    def _ambiguous(self, query: str) -> Ambiguous:
        """The best of every rung for each capability; those on the rung that decided are first by their band."""
        best: dict[str, Candidate] = {}
        for rung, look in self._rungs():
            for name, share in look(query):
                if name in self._by_name:
                    best.setdefault(name, Candidate(self._by_name[name], rung, share))
        return Ambiguous(query, self._ranked(best.values()))

    def _best(self, shares: Mapping[str, float], rung: Rung) -> tuple[Candidate, ...]:
        return self._ranked(Candidate(self._by_name[name], rung, share) for name, share in shares.items())

    def _ranked(self, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
        ranked = sorted(candidates, key=lambda one: (-one.confidence, self._order[one.term.name]))
        return tuple(ranked[:SHOWN])

    def _substring(self, query: str) -> Iterator[tuple[str, float]]:
        """In a name, the share is how much of the name was said, in the upper half of the band; in a description,
        how much of that, in the lower half. A description is only asked where no name holds the query."""
        part = fold(query)
        if len(part) < _SHORTEST_PART:
            return
        named = [(name, 0.5 + 0.5 * len(part) / len(text)) for name, (text, _) in self._folded.items() if part in text]
        if named or len(part) < _SHORTEST_PART_OF_PROSE:
            yield from named
            return
        for name, (_, prose) in self._folded.items():
            if part in prose:
                yield name, 0.5 * len(part) / len(prose)

    def _mention(self, query: str) -> Iterator[tuple[str, float]]:
        """The share is how many of the query's telling words the name or alias accounts for. What accounts for less
        than half of them does not say what the query is about; it counts among the words."""
        shares = self._mentioned(query)
        most = max(shares.values(), default=0.0)
        if most >= _HALF:
            yield from ((name, share) for name, share in shares.items() if share == most)

    def _mentioned(self, query: str) -> Mapping[str, float]:
        words = _stems(fold(query))
        telling = sum(word not in _STOP_STEMS for word in words) or len(words)
        found: dict[str, float] = {}
        for name, length in _mentions(words, self._phrases):
            found[name] = max(found.get(name, 0.0), min(length / telling, 1.0))
        return found

    def _typo(self, query: str) -> Iterator[tuple[str, float]]:
        """The share is how alike the two are, letter by letter."""
        said = fold(query)
        if len(said) < _SHORTEST_SLIP:
            return
        near = one_edit_away(said)
        for table in (self._exact.whole, self._alias.whole):
            found = {name: _alike(said, known) for known, name in table.items() if known in near}
            if found:
                yield from found.items()
                return

    def _words(self, query: str) -> Iterator[tuple[str, float]]:
        """The share is how much of the query, rare words counting more, is found, and how prominently, and half
        of a mention too short for its own rung."""
        if self._similar is not None:
            yield from ((name, share) for name, share in self._similar(query).items() if share > 0)
            return
        asked = set(tokens(query, LONGEST_QUERY))
        possible = max(_PLACES.values()) * sum(self._rarity.get(word, self._rarity[""]) for word in asked)
        mentioned = self._mentioned(query)
        for name, weights in self._weights.items():
            score = sum(weights.get(word, 0.0) * self._rarity.get(word, 0.0) for word in asked)
            if share := score / (possible or 1.0) + _HALF * mentioned.get(name, 0.0):
                yield name, share

    def _letters(self, query: str) -> Iterator[tuple[str, float]]:
        """For a query that says nothing known: names that look alike, low in the lowest band."""
        said = fold(query)
        for name, (text, _) in self._folded.items():
            yield name, 0.2 * _alike(said, text)


class _Keys:
    """A table of phrases, found as written or by their stems."""

    def __init__(self, whole: Mapping[str, str], stemmed: Mapping[str, str]) -> None:
        self.whole = whole
        self._stemmed = stemmed

    def find(self, query: str) -> Iterator[tuple[str, float]]:
        """The share is 1 as written, less where only the stems agree."""
        said = fold(query)
        if said in self.whole:
            yield self.whole[said], 1.0
        elif (key := " ".join(_stems(said))) in self._stemmed:
            yield self._stemmed[key], 0.5
        elif (key := key.replace(" ", "")) in self._stemmed:
            yield self._stemmed[key], 0.4


def fold(text: str) -> str:
    """One spelling: no case, no accents of compatibility, single spaces between the words."""
    return " ".join(_NOT_A_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).split())


def _stems(folded: str) -> list[str]:
    return [stem(word) for word in folded.split()]


_STOP_STEMS: Final = frozenset(stem(word) for word in STOP) | STOP


def _keys(pairs: Iterable[tuple[str, str]]) -> _Keys:
    """Also without its spaces, so that "sub agents" meets "subagents"; what is written wins over what is derived."""
    whole = {fold(phrase): name for phrase, name in pairs}
    stemmed: dict[str, str] = {}
    for phrase, name in whole.items():
        key = " ".join(_stems(phrase))
        stemmed.setdefault(key, name)
        stemmed.setdefault(key.replace(" ", ""), name)
    return _Keys(whole, stemmed)


def _phrases(table: Mapping[str, str]) -> Mapping[tuple[str, ...], str]:
    return {tuple(_stems(phrase)): name for phrase, name in table.items() if phrase not in STOP}


def _mentions(words: Sequence[str], phrases: Mapping[tuple[str, ...], str]) -> Iterator[tuple[str, int]]:
    """Known phrases in the words from left to right, the longest first, none within another."""
    longest = max(map(len, phrases), default=0)
    at = 0
    while at < len(words):
        for length in range(min(longest, len(words) - at), 0, -1):
            name = phrases.get(tuple(words[at : at + length]))
            if name is not None:
                yield name, length
                at += length - 1
                break
        at += 1


def _alike(left: str, right: str) -> float:
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def _vocabulary(
    terms: Sequence[Term], aliases: Mapping[str, str]
) -> tuple[Mapping[str, Mapping[str, float]], Mapping[str, float]]:
    """For each name the weight of its words, by the most prominent place they stand in; and each word's rarity.

    The rarity under the empty word is that of a word nobody uses: what cannot be found must lower the share.
    """
    texts: dict[str, list[tuple[str, float]]] = {
        term.name: [(term.name, _PLACES["name"]), (term.description, _PLACES["description"])] for term in terms
    }
    for phrase, name in aliases.items():
        texts.setdefault(name, []).append((phrase, _PLACES["alias"]))
    weights: dict[str, dict[str, float]] = {}
    spread: dict[str, int] = {}
    for name, parts in texts.items():
        words = weights.setdefault(name, {})
        for text, weight in parts:
            for word in tokens(text, 1000):
                words[word] = max(words.get(word, 0.0), weight)
        for word in words:
            spread[word] = spread.get(word, 0) + 1
    rarity = {word: log(1 + len(texts) / count) for word, count in spread.items()}
    return weights, {**rarity, "": log(1 + len(texts))}
