"""Everyday words that mean the same to a person who asks for a tool.

General on purpose: what people do with computers, and no vocabulary of any one product. A word may have
more than one sense. A sense is indexed beside the word, so its own frequency (high, as a rule) keeps it weak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mcpproxy_py.core.stems import stem

_SYNONYMS: Final[Mapping[str, str]] = {
    "~remove": "remove delete erase drop purge trash discard destroy wipe clear flush dispose cancel rid",
    "~make": "make create add new insert append attach generate build produce allocate schedule",
    "~show": "show get list read view display fetch retrieve see print return open obtain acquire examine",
    "~find": "find search look locate query discover",
    "~change": "change update edit modify alter set replace patch assign configure",
    "~send": "send post publish submit tell notify announce",
    "~run": "run execute invoke launch start begin",
    "~stop": "stop halt terminate end kill cancel abort",
    "~move": "move rename transfer relocate migrate",
    "~save": "save store write record backup",
    "~copy": "copy duplicate clone replicate sync",
    "~visit": "open navigate visit browse",
    "~press": "press click tap",
    "~answer": "reply answer respond",
    "~attach": "upload attach",
    "~load": "download fetch retrieve",
    "~undo": "undo revert reset rollback restore",
    "~explain": "explain describe",
    "~join": "join merge combine unite connect associate",
    "~compare": "compare diff difference",
    "~convert": "convert change transform translate",
    "~test": "test check verify validate confirm",
    "~comment": "comment remark note annotate",
    "~folder": "folder directory",
    "~mail": "mail email inbox",
    "~meeting": "meeting appointment event calendar",
    "~picture": "picture image photo screenshot",
    "~customer": "customer client",
    "~ticket": "ticket issue bug",
    "~failure": "error exception failure problem",
    "~website": "website webpage site web url internet",
    "~text": "text content",
}

_SHORT_FORMS: Final[Mapping[str, str]] = {
    "repo": "repository", "dir": "directory", "db": "database", "config": "configuration", "env": "environment",
    "doc": "document", "msg": "message", "info": "information", "auth": "authentication", "param": "parameter",
    "admin": "administrator", "app": "application", "pr": "pull request", "img": "image", "pic": "picture",
    "tz": "timezone", "org": "organization", "max": "maximum", "min": "minimum", "num": "number", "perm": "permission",
}  # fmt: skip


def _by_stem() -> dict[str, tuple[str, ...]]:
    senses: dict[str, tuple[str, ...]] = {}
    for sense, words in _SYNONYMS.items():
        for word in words.split():
            senses[stem(word)] = (*senses.get(stem(word), ()), sense)
    return senses


_SENSES: Final = _by_stem()
_LONG_FORMS: Final = {stem(short): tuple(map(stem, whole.split())) for short, whole in _SHORT_FORMS.items()}


def senses(word: str) -> tuple[str, ...]:
    """What else this stem says: names of senses, which no text can contain as they start with a tilde."""
    return _SENSES.get(word, ())


def spelled_out(words: list[str]) -> list[str]:
    """The stems with short forms written out, so that `list_repos` meets "repositories"."""
    return [whole for word in words for whole in _LONG_FORMS.get(word, (word,))]


_QUESTION: Final = re.compile(
    r"\W*(what|which|who|whose|where|when|how|is|are|was|were|do|does|did|has|have)\b", re.IGNORECASE
)
_FILE_NAME: Final = re.compile(
    r"\w\.(md|txt|json|ya?ml|toml|ini|csv|pdf|png|jpe?g|gif|svg|py|js|ts|html|css|xml|log|docx?|xlsx?|zip)\b",
    re.IGNORECASE,
)


def implied(query: str) -> tuple[str, ...]:
    """What a query asks for without a verb or noun that says so: a question ("what channels are there") wants to
    be shown something, and a file name is about a file."""
    return tuple(term for shape, term in _SHAPES if shape(query))


_SHAPES: Final = ((_QUESTION.match, "~show"), (_FILE_NAME.search, stem("file")))
