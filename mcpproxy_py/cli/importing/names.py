"""Names that clients give their servers, as names that are valid here. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from itertools import count
from typing import Final

from mcpproxy_py.settings.servers import RESERVED, check_name

LONGEST: Final = 32
_NAMELESS: Final = "server"


def valid_name(name: str) -> str:
    """The nearest name that is valid: `My Server (v2)` becomes `my-server-v2`. Of a path, as the marketplace of Cline
    gives, it is the last part."""
    last = name[:1_000].rstrip("/").rpartition("/")[2]
    plain = unicodedata.normalize("NFKD", last).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"[^a-z0-9_-]+", "-", plain)
    plain = re.sub(r"_{2,}", "_", re.sub(r"-{2,}", "-", plain)).strip("-_")
    plain = plain[:LONGEST].rstrip("-_") or _NAMELESS
    return f"{plain}-server" if plain in RESERVED else plain


def free_name(name: str, taken: Collection[str]) -> str:
    """This name, or the first numbered one that nobody has."""
    return next(each for each in _numbered(name) if each not in taken)


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in count(2):
        end = f"-{number}"
        yield check_name(name[: LONGEST - len(end)].rstrip("-_") + end)
