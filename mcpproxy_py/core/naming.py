"""The names that upstream tools and prompts have on the direct surface: `server__tool` (SURF-2).

A name is made from its own parts alone, so it stays the same whatever else comes and goes. Where the plain
spelling does not fit the protocol, is too long for hosts, or could be read in two ways, it is altered and
carries a digest of the true name.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

SEPARATOR: Final = "__"
LONGEST: Final = 64
"""Hosts break on longer ones."""
DIGEST: Final = 10

_FIT: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{LONGEST}}}")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]")
_ALTERED: Final = re.compile(rf"_[0-9a-f]{{{DIGEST}}}$")


def direct_name(server: str, name: str) -> str:
    plain = f"{server}{SEPARATOR}{name}"
    if _FIT.fullmatch(plain) and not server.endswith("_") and not name.startswith("_"):
        return plain
    digest = sha256(f"{server}:{name}".encode("utf-8", "replace")).hexdigest()[:DIGEST]
    return f"{_UNFIT.sub('_', plain)[: LONGEST - DIGEST - 1]}_{digest}"


def is_altered(outer: str) -> bool:
    """Whether this may be a name that was altered; if not, `split` has its true parts."""
    return _ALTERED.search(outer) is not None


def split(outer: str) -> tuple[str, str] | None:
    """The parts of a plain name. Neither part of one can make the first separator ambiguous."""
    server, separator, name = outer.partition(SEPARATOR)
    return (server, name) if separator and server and name else None
