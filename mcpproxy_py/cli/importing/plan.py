"""What will be done with each server that was found: taken, skipped, or not possible, and why. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from mcpproxy_py.cli.importing.convert import ConvertedServer
from mcpproxy_py.cli.importing.names import free_name, valid_name
from mcpproxy_py.cli.importing.plain_secrets import (
    PlainSecret,
    likeness,
    plain_secrets,
    start_shown,
    surroundings_shown,
)
from mcpproxy_py.cli.importing.reading import ForeignServer

Action = Literal["take", "replace", "skip", "cannot"]
TAKEN: Final = ("take", "replace")

_HERE: Final = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "host.docker.internal")
_LAUNCHERS: Final = ("uvx", "uv", "pipx", "python", "python3", "py", "docker", "podman")
_OWN_NAMES: Final = ("mcpproxy-py", "mcpproxy_py", "mcpproxy")
_BEFORE_A_PROGRAM: Final = ("--from", "--with", "--spec", "-m", "-i", "-y", "-q", "--rm", "--isolated")
_HOW: Final = ("transport", "command", "args", "url", "env", "headers", "cwd")


@dataclass(frozen=True, slots=True)
class ImportRow:
    """One server, and what becomes of it."""

    server: ForeignServer
    name: str
    action: Action
    why: str = ""
    config: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    secrets: tuple[PlainSecret, ...] = ()
    here: bool = False
    """Whether the gateway has this server afterwards, so that a client needs it no more."""
    itself: bool = False
    """Whether it is this gateway."""

    @property
    def start(self) -> str:
        return start_shown(self.config) if self.config is not None else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "from": self.server.client,
            "file": str(self.server.path),
            "project": str(self.server.project) if self.server.project else None,
            "name_there": self.server.name,
            "name": self.name,
            "starts": self.start or None,
            "given": list(surroundings_shown(self.config or {})),
            "action": self.action,
            "why": self.why or None,
            "notes": list(self.notes),
            "plain_secrets": [secret.where for secret in self.secrets],
        }


@dataclass(frozen=True, slots=True)
class PresentServers:
    """What is there already: servers of ours, other names that are taken, and where this gateway is reached."""

    servers: Mapping[str, Mapping[str, Any]]
    names: Collection[str] = ()
    urls: Collection[str] = ()


def planned(
    found: Collection[tuple[ForeignServer, ConvertedServer]], present: PresentServers, *, replacing: bool = False
) -> list[ImportRow]:
    """A row for each server, in the order in which they were found."""
    first = _first_of_each(found)
    taken = {*present.servers, *present.names}
    known = {likeness(config): name for name, config in present.servers.items()}
    rows: dict[int, ImportRow] = {}
    for index, (server, made) in enumerate(found):
        row = _row(server, made, present)
        if row.action == "take" and first[_identity(made)] == index:
            row = _named(row, taken, known, present, replacing)
            taken.add(row.name)
        rows[index] = row
    for index, (_, made) in enumerate(found):
        if rows[index].action == "take" and first[_identity(made)] != index:
            rows[index] = _again(rows[index], rows[first[_identity(made)]])
    return [rows[index] for index in range(len(found))]


def _first_of_each(found: Collection[tuple[ForeignServer, ConvertedServer]]) -> dict[str, int]:
    """Of equal servers the one that is taken: the first that is on, or else the first."""
    first: dict[str, int] = {}
    on: dict[str, bool] = {}
    for index, (server, made) in enumerate(found):
        key, is_on = _identity(made), _is_on(server, made)
        if key not in first or (is_on and not on[key]):
            first[key], on[key] = index, is_on
    return first


def _is_on(server: ForeignServer, made: ConvertedServer) -> bool:
    return made.config is not None and made.config.get("enabled", True) is True and not server.off


def _identity(made: ConvertedServer) -> str:
    """Two entries that are reached in one way, with the same secrets, are one server."""
    config = made.config or {}
    return json.dumps({key: config[key] for key in _HOW if key in config}, sort_keys=True)


def _row(server: ForeignServer, made: ConvertedServer, present: PresentServers) -> ImportRow:
    name = valid_name(server.name)
    if made.config is None:
        return ImportRow(server, name, "cannot", made.why, None, made.notes)
    if leads_back := _leads_back(made.config, present.urls):
        return ImportRow(server, name, "skip", leads_back, made.config, itself=True)
    config, notes = dict(made.config), made.notes
    if server.off and config.get("enabled", True):
        config["enabled"] = False
        notes = (*notes, "it is disabled there, and stays so")
    return ImportRow(server, name, "take", "", config, notes, plain_secrets(config, made.secrets), here=True)


def _named(
    row: ImportRow,
    taken: Collection[str],
    known: Mapping[tuple[Any, ...], str],
    present: PresentServers,
    replacing: bool,
) -> ImportRow:
    assert row.config is not None
    there = known.get(likeness(row.config))
    if there is not None:
        return replace(row, name=there, action="skip", why=f"it is here already, as {there}", secrets=(), notes=())
    if row.name in present.servers and replacing:
        return replace(row, action="replace", why=f"in place of the {row.name} that is here")
    free = free_name(row.name, taken)
    notes = row.notes
    if free != row.name:
        notes = (*notes, f"the name {row.name} is taken; it becomes {free}")
    return replace(row, name=free, notes=notes)


def _again(row: ImportRow, first: ImportRow) -> ImportRow:
    """A server that another client has too."""
    differs = _differing(row.config or {}, first.config or {})
    notes = (f"what it says of {', '.join(differs)} differs there, and is not taken",) if differs else ()
    origin = f"{first.server.name} of {first.server.origin}"
    why = f"it is the same as {origin}" + ("" if first.action in TAKEN else f", which is here already as {first.name}")
    return replace(row, name=first.name, action="skip", why=why, notes=notes, secrets=())


def _differing(config: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in {*config, *other} - {*_HOW} if config.get(key) != other.get(key))


# --- this gateway itself ---


def _leads_back(config: Mapping[str, Any], urls: Collection[str]) -> str:
    """Why this is the gateway itself, or something that only leads to it."""
    ours = {each for each in map(_door, urls) if each}
    if "url" in config:
        return "it is this gateway" if _door(str(config["url"])) in ours else ""
    words = [str(word) for word in config.get("args", ())]
    program = PurePath(str(config.get("command", "")).replace("\\", "/")).name.lower().removesuffix(".exe")
    if program == "mcpproxy" or (program.rstrip(".0123456789") in _LAUNCHERS and _runs_ours(words)):
        return "it is this gateway"
    if any(_door(word) in ours for word in words if "://" in word):
        return "it only leads to this gateway"
    return ""


def _runs_ours(words: list[str]) -> bool:
    """Whether a launcher is told to run this program: no value of an option, and no path, only has its name."""
    for before, word in zip(["", *words], words, strict=False):
        name = word.partition("==")[0].partition("@")[0].partition("[")[0]
        is_path = name.startswith(("/", ".", "~"))
        if name.rpartition("/")[2].partition(":")[0] in _OWN_NAMES and not is_path:
            return not before.startswith("-") or before in _BEFORE_A_PROGRAM
    return False


def _door(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    host = (parts.hostname or "").lower()
    return ("here" if host in _HERE else host, port) if host else None


def chosen(servers: list[ForeignServer], only: Collection[str]) -> tuple[list[ForeignServer], list[str]]:
    """The servers that were named, by their own name or by ours, and the names that are nobody's."""
    if not only:
        return servers, []
    kept = [server for server in servers if server.name in only or valid_name(server.name) in only]
    known = {name for server in kept for name in (server.name, valid_name(server.name))}
    return kept, [name for name in only if name not in known]


def lines_of(rows: Collection[ImportRow]) -> Iterator[tuple[str, str]]:
    """What has to be said of each row besides the table: whose it is, and the sentence."""
    for row in rows:
        given = surroundings_shown(row.config or {}) if row.action in TAKEN else ()
        for note in (*given, *row.notes):
            yield f"{row.server.name} ({row.server.origin})", note
