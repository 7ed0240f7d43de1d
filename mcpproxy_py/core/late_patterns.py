"""Regular expressions that are compiled when they are first used, and not with the import of their module.

Compiling takes milliseconds for a hundred of them, and was an eighth of a gateway's start. Nearly all of what those say
of secrets, questions and errors is asked only of a text that a quick look found something in.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Final, cast

_METHODS: Final = ("match", "search", "fullmatch", "sub", "finditer")


class LatePattern:
    """In all that it is asked for like the pattern itself. After the first time it costs no more than that one."""

    __slots__ = ("_flags", "_source", *_METHODS)

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Asked for what is not set yet."""
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        for each in _METHODS:
            setattr(self, each, getattr(compiled, each))
        return getattr(compiled, name)


def late(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    return cast("re.Pattern[AnyStr]", LatePattern(source, flags))
