"""What `mcpproxy connect` lists: the clients of this machine, and whether each is connected."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mcpproxy_py.cli.clients import documents, entries
from mcpproxy_py.cli.clients.documents import UnreadableFile
from mcpproxy_py.cli.clients.entries import Launch, Way
from mcpproxy_py.cli.clients.known import KnownClient
from mcpproxy_py.cli.clients.places import Machine, servers_file


@dataclass(frozen=True, slots=True)
class ClientState:
    """One client as it was found."""

    name: str
    title: str
    state: str
    """`not found`, `found`, `connected`, `another gateway` or `file broken`."""
    way: Way | None = None
    entry: str | None = None
    file: str | None = None
    problem: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


Which = Callable[[str], str | None]


def state_of(
    client: KnownClient,
    machine: Machine,
    ours: Sequence[Launch],
    project: Path | None = None,
    which: Which = shutil.which,
) -> ClientState:
    """`ours` are the ways that lead to this gateway."""
    path = servers_file(client, machine, project)
    if path is None:
        return ClientState(client.name, client.title, "not found")
    there = os.path.lexists(path)
    try:
        document = documents.load(path, client.syntax)
    except UnreadableFile as error:
        return ClientState(client.name, client.title, "file broken", file=str(path), problem=error.message)
    file = str(path) if there else None
    servers = documents.at(document.data, client.servers)
    others: list[tuple[str, Way | None]] = []
    for name, said in servers.items() if isinstance(servers, dict) else ():
        way = entries.entry_way(client, said)
        if any(entries.leads_to(client, said, launch, any_profile=True) for launch in ours):
            return ClientState(client.name, client.title, "connected", way, str(name), file)
        if entries.is_gateway(client, said) or (name == "mcpproxy" and way == "http"):
            others.append((str(name), way))
    if others:
        name, way = others[0]
        return ClientState(client.name, client.title, "another gateway", way, name, file)
    found = there or is_installed(client, machine, which) or _has_folder(path, machine)
    return ClientState(client.name, client.title, "found" if found else "not found", file=file)


def is_installed(client: KnownClient, machine: Machine, which: Which = shutil.which) -> bool:
    """Whether its program is on the path, or its application where macOS has those."""
    if any(which(program) for program in client.programs):
        return True
    folders = [Path("/Applications"), *([machine.home / "Applications"] if machine.home else [])]
    return machine.platform == "macos" and any((folder / app).exists() for folder in folders for app in client.apps)


def _has_folder(path: Path, machine: Machine) -> bool:
    """A folder of its own, as it makes one when it first runs."""
    return path.parent != machine.home and path.parent.is_dir()
