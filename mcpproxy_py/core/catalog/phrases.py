"""Phrases in one spelling, tables of them, and the words they are made of: what name resolution stands on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from math import log
from typing import Final

from mcpproxy_py.core.search.stems import stem
from mcpproxy_py.core.search.tokens import STOP, lookalikes, one_edit_away, tokens

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
