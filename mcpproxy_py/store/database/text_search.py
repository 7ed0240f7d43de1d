"""Text search: which words a record has, and how a question is put to each engine.

We cut and fold the words, so that both engines find the same: runs of letters and digits, folded. A question finds
what has all of its words; one that ends in a star stands for all words that begin so. Not every word does, because
an index gives the newest of a word at once, and has to gather those of a beginning first.
"""

from __future__ import annotations

import re
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Text,
    bindparam,
    cast,
    column,
    func,
    literal,
    literal_column,
    select,
    table,
    update,
)

from mcpproxy_py.core.late_patterns import late
from mcpproxy_py.store.database.columns import clean
from mcpproxy_py.store.database.tables import words

LONGEST: Final = 64
"""Characters of a word that count. What is longer is a key, a hash or an image, and the beginning finds it."""
FITTING: Final = 2046
"""Bytes of a word that PostgreSQL still takes. In a text no longer than that none has to be cut, and looking at each
is what would take longest."""
MOST_BYTES: Final = 65_536
"""Of each payload; PostgreSQL takes no more than a megabyte of words."""
_kept: Final[Any] = table("activity_words_content", column("id", BigInteger), column("c0", Text))
"""Where SQLite's index keeps the words themselves, by number of the row. Asking the index for those takes longer."""
_ESCAPE: Final = late(rb"\\(?:u[0-9a-fA-F]{4}|.)")
_GAP: Final = late(r"[\W_]+")
_ASKED: Final = late(r"([^\W_]+)(\*?)")
_FOLDED: Final = bytes(
    byte if 48 <= byte < 58 or 97 <= byte < 123 or byte > 127 else byte + 32 if 65 <= byte < 91 else 32
    for byte in range(256)
)


def folded(payload: bytes, names: str = "") -> str:
    """The words of a JSON text, keys and values, without a look at its structure, and then those of the `names`; with
    spaces between them. A word may come twice: both engines count it once, quicker than we could."""
    text = payload[:MOST_BYTES]
    if b"\\" in text:
        text = _unescaped(text)
    return _folded(b"%b %b" % (text, names.encode("utf-8", "replace")))


def _unescaped(text: bytes) -> bytes:
    """Letters that came escaped are put right; line breaks and quotes only part words."""
    return _ESCAPE.sub(_meant, text)


def _meant(found: re.Match[bytes]) -> bytes:
    if found[0][1:2] != b"u":
        return b" "
    letter = chr(int(found[0][2:], 16))
    return letter.encode() if letter.isalnum() else b" "


def _folded(text: bytes) -> str:
    if not text.isascii():
        return _cut(_apart(text.decode("utf-8", "replace")))
    plain = text.translate(_FOLDED).decode()
    return plain if len(plain) <= FITTING else _cut(plain)


def _cut(plain: str) -> str:
    found = plain.split()
    return plain if max(map(len, found), default=0) <= LONGEST else " ".join([word[:LONGEST] for word in found])


def _apart(text: str) -> str:
    return _GAP.sub(" ", clean(text).casefold())


def matching(dialect: str, question: str) -> ColumnElement[bool]:
    """The condition on `words` that a record meets which has all these words, for the index to find."""
    if dialect == "sqlite":
        asked = asked_words(question)
        return literal_column(words.name).op("MATCH")(" AND ".join(f'"{word}"{star}' for word, star in asked))
    return words.c.words.op("@@")(_tsquery(question))


def saying(dialect: str, question: str, n: ColumnElement[Any]) -> ColumnElement[bool]:
    """The same of record `n`, by a look at its own words and at no index."""
    if dialect == "sqlite":
        spaced = " " + _kept.c.c0 + " "
        heard = (func.instr(spaced, f" {word}" if star else f" {word} ") > 0 for word, star in asked_words(question))
        return select(_kept.c.id).where(_kept.c.id == n, *heard).exists()
    # Not `EXISTS`, of which PostgreSQL makes a join, and reads all words there are.
    own = select(func.ts_match_vq(words.c.words, _tsquery(question), type_=Boolean)).where(words.c.rowid == n)
    return own.scalar_subquery()


def _tsquery(question: str) -> ColumnElement[Any]:
    from sqlalchemy.dialects.postgresql import TSQUERY  # here, because it is a twentieth of the start on SQLite

    parts = (f"'{word}'{star and ':*'}" for word, star in asked_words(question))
    return cast(literal(" & ".join(parts)), TSQUERY)


def asked_words(question: str) -> list[tuple[str, str]]:
    """The words of a question, each with its star or without. What counts of a long one is how it begins."""
    found = _ASKED.findall(clean(question).casefold())
    return list(dict.fromkeys((word[:LONGEST], star if len(word) < LONGEST else "*") for word, star in found))


def add_words(connection: Connection, more: list[dict[str, Any]]) -> None:
    """To rows that are there already: `n` and the `more` words of each."""
    had = words.c.words
    if connection.dialect.name == "sqlite":
        joined = had + " " + bindparam("more")
    else:
        from sqlalchemy.dialects.postgresql import TSVECTOR  # here for the same reason

        joined = had.op("||")(bindparam("more", type_=TSVECTOR))
    connection.execute(update(words).where(words.c.rowid == bindparam("row")).values(words=joined), more)
