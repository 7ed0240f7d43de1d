"""How a resource of one server is addressed where those of many stand side by side (SURF-10).

Two servers may have the same URI, and one may write another's. So on the direct surface `ui://panel` of the server
`crm` is `ui://crm.mcpproxy/panel`: the server stands where relative references cannot lead away from it, and all else
stays as it is, so that a path below it is one of the server's own.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

SUFFIX: Final = ".mcpproxy"
LONGEST: Final = 4096
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31})://([A-Za-z0-9._~:/?@!$&'()*+,;=%\[\]-]+)")
_ADDRESSED: Final = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]{{0,31}})://([a-z0-9_-]{{1,64}}){re.escape(SUFFIX)}/(.+)")
_ROUNDS: Final = 4
"""How often something may be percent-encoded before nobody can say what it means."""


def addressed(server: str, uri: str) -> str | None:
    """`None` for a URI that cannot be carried: it is none, or some client could read it as another one."""
    if len(uri) > LONGEST or (found := _URI.fullmatch(uri)) is None or _climbs(found[2]):
        return None
    return f"{found[1]}://{server}{SUFFIX}/{found[2]}"


def owner_of(uri: str) -> tuple[str, str] | None:
    """Of an addressed URI the server that it names, and its own URI there; what it names need not exist."""
    if len(uri) > LONGEST + 128 or (found := _ADDRESSED.fullmatch(uri)) is None:
        return None
    own = f"{found[1]}://{found[3]}"
    return (found[2], own) if addressed(found[2], own) == uri else None


def scheme_of(uri: str) -> str:
    return uri.partition(":")[0].lower()


def folders_above(uri: str) -> list[str]:
    """All that a URI may lie in, itself among them, each with a slash at its end; the innermost first."""
    start = uri.find("://") + len("://")
    path = uri.partition("?")[0].rstrip("/")
    ends = [at for at, letter in enumerate(path) if letter == "/" and at >= start]
    return [path + "/", *(path[: at + 1] for at in reversed(ends))]


def _climbs(rest: str) -> bool:
    """Whether somebody on the way could take a part of it for a step upwards, or for something that ends it."""
    plain = rest
    for _ in range(_ROUNDS):
        before, plain = plain, unquote(plain)
        if plain == before:
            break
    else:
        return True
    parts = re.split(r"[/?]", plain)
    return any(part in (".", "..") for part in parts) or not plain.isprintable() or any(each in plain for each in "\\#")
