"""Registries that are one file: on this machine, or at an address and held to a digest. They are read as a whole.

What has the right digest never changes, so it is fetched once and checked each time that it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from mcpproxy_py.errors import GatewayError
from mcpproxy_py.files import PRIVATE_DIRECTORY, write_private
from mcpproxy_py.providers.registry.entries import reduced
from mcpproxy_py.providers.registry.fetch import MOST_SNAPSHOT, NotListed, decoded, fetched
from mcpproxy_py.providers.registry.kept import path_of
from mcpproxy_py.providers.registry.places import RegistryAway, RegistryPlace, RegistryRefused

MOST_ROWS: Final = 20_000


def is_document(place: RegistryPlace) -> bool:
    return place.file is not None or place.sha256 is not None


def rows_of(place: RegistryPlace, data_dir: Path, *, ask: bool) -> tuple[Sequence[dict[str, Any]], int]:
    """Its rows, reduced, and how many cannot be. `ask`: it may be fetched. Raises `RegistryAway`, and `RegistryRefused`
    where it is not what it has to be."""
    if place.file is not None:
        return _read(Path(place.file), place.sha256)
    path = path_of(data_dir, place).with_suffix(".snapshot")
    try:
        return _read(path, place.sha256)
    except (RegistryAway, RegistryRefused):
        if not ask:
            raise RegistryAway("it has not been read yet; `mcpproxy catalog search WORDS` reads it") from None
    try:
        body = fetched(place.url or "", {}, most=MOST_SNAPSHOT, json=False)
    except NotListed:
        raise RegistryAway("there is nothing at its address (status 404)") from None
    _check_digest(body, place.sha256)
    try:
        path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        write_private(path, body.decode("utf-8"))
    except (OSError, GatewayError, UnicodeDecodeError):
        pass  # it is fetched again
    return _parsed(body)


def _read(path: Path, sha256: str | None) -> tuple[Sequence[dict[str, Any]], int]:
    try:
        found = path.stat()
    except OSError as error:
        raise RegistryAway(f"{path} cannot be read: {error.strerror}") from None
    return _cached(path, sha256, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(8)
def _cached(path: Path, sha256: str | None, state: tuple[int, ...]) -> tuple[Sequence[dict[str, Any]], int]:
    """Once for each state of the file."""
    try:
        with path.open("rb") as file:
            body = file.read(MOST_SNAPSHOT + 1)
    except OSError as error:
        raise RegistryAway(f"{path} cannot be read: {error.strerror}") from None
    if len(body) > MOST_SNAPSHOT:
        raise RegistryAway(f"{path} is larger than {MOST_SNAPSHOT // 1024 // 1024} MiB")
    _check_digest(body, sha256)
    return _parsed(body)


def _check_digest(body: bytes, sha256: str | None) -> None:
    found = hashlib.sha256(body).hexdigest()
    if sha256 is not None and found != sha256:
        raise RegistryRefused(f"it is another file than was configured: its sha256 is {found}, not {sha256}")


def _parsed(body: bytes) -> tuple[Sequence[dict[str, Any]], int]:
    rows, left_out = list[dict[str, Any]](), 0
    for row in listed(decoded(body))[:MOST_ROWS]:
        try:
            rows.append(reduced(row))
        except RegistryRefused:
            left_out += 1
    return rows, left_out


def listed(document: Any) -> list[Any]:
    """The rows of what a registry lists. Raises `RegistryAway` where it is no such list."""
    found = document.get("servers") if isinstance(document, dict) else document
    if found is None and isinstance(document, dict) and "servers" in document:
        return []  # as a server written in Go puts an empty list
    if not isinstance(found, list):
        raise RegistryAway("its answer is no list of servers; is that the address of a registry?")
    return cast("list[Any]", found)
