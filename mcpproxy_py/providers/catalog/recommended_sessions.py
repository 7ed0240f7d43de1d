"""How the sessions of a well-known server had better be shared (UP-11), as the shipped catalog says of its package."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from mcpproxy_py.providers.catalog.data_files import SHIPPED
from mcpproxy_py.providers.catalog.load import META

RUNNERS: Final[Mapping[str, frozenset[str]]] = {
    "npm": frozenset(("npx", "npm", "pnpm", "yarn", "bunx", "bun", "node", "deno")),
    "pypi": frozenset(("uvx", "uv", "pipx", "python", "python3")),
}
_VERSION: Final[Mapping[str, re.Pattern[str]]] = {
    "npm": re.compile(r"(?<=.)@.*$", re.DOTALL),
    "pypi": re.compile(r"[\[=<>!~@ ].*$", re.DOTALL),
}
Recommendation = tuple[str, str]
"""The value for `sessions`, and why."""


def recommended_sessions(command: str | None, args: Sequence[str]) -> Recommendation | None:
    """None where the catalog does not know the server, or knows that any way will do."""
    return recommended_of(_shipped(), command, args)


def recommended_of(
    known: Mapping[tuple[str, str], Recommendation], command: str | None, args: Sequence[str]
) -> Recommendation | None:
    program = os.path.basename(command or "").lower().removesuffix(".exe").removesuffix(".cmd")
    for registry, runners in RUNNERS.items():
        if program in runners:
            packages = (_package(registry, arg) for arg in args)
            return next((known[registry, one] for one in packages if (registry, one) in known), None)
    return None


def _package(registry: str, arg: str) -> str:
    """The package that an argument names: `name@1.2`, `name==1.2`, or a file inside of `node_modules`."""
    _, inside, path = arg.replace("\\", "/").rpartition("/node_modules/")
    if inside:
        parts = path.split("/")
        return "/".join(parts[:2] if parts[0].startswith("@") else parts[:1])
    return _VERSION[registry].sub("", arg)


@lru_cache
def _shipped() -> Mapping[tuple[str, str], Recommendation]:
    return dict(_recommendations(json.loads((SHIPPED / "servers.json").read_bytes())["servers"]))


def _recommendations(servers: Iterable[Mapping[str, Any]]) -> Iterable[tuple[tuple[str, str], Recommendation]]:
    for server in servers:
        if (said := server["_meta"][META].get("sessions")) is not None:
            for package in server.get("packages", ()):
                yield (package["registryType"], package["identifier"]), (said["mode"], said["why"])
