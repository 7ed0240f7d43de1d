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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mcpproxy_py.core.catalog.phrases import LONGEST, Mentions, Phrases, Vocabulary, alike, fold

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
