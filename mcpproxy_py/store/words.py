"""Text search: which words a record has, and how a question is put to each engine.

We cut and fold the words, so that both engines find the same: runs of letters and digits, folded. A question finds
what has all of its words; one that ends in a star stands for all words that begin so. Not every word does, because
an index gives the newest of a word at once, and has to gather those of a beginning first.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, bindparam, cast, literal, literal_column, update

from mcpproxy_py.store.scalars import clean
from mcpproxy_py.store.tables import words

LONGEST: Final = 64
"""Characters of a word that count. What is longer is a key, a hash or an image, and the beginning finds it."""
MOST_BYTES: Final = 65_536
"""Of each payload; PostgreSQL takes no more than a megabyte of words."""
_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|.)")
_GAP: Final = re.compile(r"[\W_]+")
_ASKED: Final = re.compile(r"([^\W_]+)(\*?)")
_FOLDED: Final = bytes(
    byte if 48 <= byte < 58 or 97 <= byte < 123 or byte > 127 else byte + 32 if 65 <= byte < 91 else 32
    for byte in range(256)
)


def words_of_json(text: bytes) -> set[str]:
    """The words of a JSON text, keys and values, without a look at its structure."""
    text = text[:MOST_BYTES]
    if b"\\" in text:
        text = _unescaped(text)
    return _cut(_folded(text) if text.isascii() else _apart(text.decode("utf-8", "replace")))


def _unescaped(text: bytes) -> bytes:
    """Letters that came escaped are put right; line breaks and quotes only part words."""
    return _ESCAPE.sub(_meant, text)


def _meant(found: re.Match[bytes]) -> bytes:
    if found[0][1:2] != b"u":
        return b" "
    letter = chr(int(found[0][2:], 16))
    return letter.encode() if letter.isalnum() else b" "


@lru_cache(maxsize=1024)
def words_of(text: str) -> frozenset[str]:
    """Of a text that may well come again: the name of a tool, a reason, a question."""
    return frozenset(_cut(_folded(text.encode()) if text.isascii() else _apart(text)))


def _folded(text: bytes) -> list[str]:
    return text.translate(_FOLDED).decode().split()


def _apart(text: str) -> list[str]:
    return _GAP.sub(" ", clean(text).casefold()).split()


def _cut(found: list[str]) -> set[str]:
    words = set(found)
    for word in [word for word in words if len(word) > LONGEST]:
        words.remove(word)
        words.add(word[:LONGEST])
    return words


def matching(dialect: str, question: str) -> ColumnElement[bool]:
    """The condition on `words` that a record meets which has all these words."""
    asked = asked_words(question)
    if dialect == "sqlite":
        return literal_column(words.name).op("MATCH")(" AND ".join(f'"{word}"{star}' for word, star in asked))
    from sqlalchemy.dialects.postgresql import TSQUERY  # here, because it is a twentieth of the start on SQLite

    parts = (f"'{word}'{star and ':*'}" for word, star in asked)
    return words.c.words.op("@@")(cast(literal(" & ".join(parts)), TSQUERY))


def asked_words(question: str) -> list[tuple[str, str]]:
    """The words of a question, each with its star or without."""
    found = _ASKED.findall(clean(question).casefold())
    return list(dict.fromkeys((word[:LONGEST], star) for word, star in found))


def add_words(connection: Connection, more: list[dict[str, Any]]) -> None:
    """To rows that are there already: `n` and the `more` words of each."""
    had = words.c.words
    if connection.dialect.name == "sqlite":
        joined = had + " " + bindparam("more")
    else:
        from sqlalchemy.dialects.postgresql import TSVECTOR  # here for the same reason

        joined = had.op("||")(bindparam("more", type_=TSVECTOR))
    connection.execute(update(words).where(words.c.rowid == bindparam("row")).values(words=joined), more)
