"""What an import changed, kept so that it can be taken back: one private file for each, the last one undone first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.cli.importing.destination import ImportDestination
from mcpproxy_py.cli.importing.plain_secrets import likeness
from mcpproxy_py.cli.importing.secret_storage import take_back
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.files import PRIVATE_DIRECTORY, write_private

FOLDER: Final = "imports"
_VERSION: Final = 1


@dataclass(slots=True)
class MovedFile:
    """A client's file, where it is kept as it was, and a digest of what it became."""

    path: str
    backup: str
    after: str = ""
    syntax: str = ""
    entries: list[list[str]] = field(default_factory=list[list[str]])
    """Where what was taken out had stood."""


@dataclass(slots=True)
class ImportRecord:
    """One import: each server with what stood in its place, the secrets put away, the clients' files."""

    file: Path
    config: str = ""
    servers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    secrets: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    moved: list[MovedFile] = field(default_factory=list[MovedFile])

    def took(self, name: str, config: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
        self.servers[name] = {"before": before, "now": _likeness(config)}

    def save(self) -> None:
        """Before anything is changed, and again with each thing that was."""
        _make(self.file.parent)
        document = {
            "version": _VERSION,
            "config": self.config,
            "servers": self.servers,
            "secrets": self.secrets,
            "moved": [asdict(each) for each in self.moved],
        }
        write_private(self.file, json.dumps(document, indent=1))

    def keep(self, path: Path, text: str, after: str, syntax: str, entries: list[list[str]]) -> None:
        """A copy of a client's file that nobody else can read."""
        _make(self.file.parent)
        backup = self.file.with_name(f"{self.file.stem}-{len(self.moved) + 1}-{path.name}.bak")
        write_private(backup, text)
        self.moved.append(MovedFile(str(path), str(backup), after, syntax, entries))
        self.save()

    def forget(self) -> None:
        for copy in self.file.parent.glob(f"{self.file.stem}-*.bak"):
            copy.unlink(missing_ok=True)
        self.file.unlink(missing_ok=True)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _likeness(config: Mapping[str, Any]) -> str:
    return json.dumps(likeness({key: value for key, value in config.items() if value not in (None, {}, [], ())}))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    except OSError as error:
        raise GatewayError(Code.CONFIG_INVALID, f"{folder} cannot be made: {error.strerror}") from None


def new_record(home: Path, config: Path) -> ImportRecord:
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return ImportRecord(home / FOLDER / f"{now}.json", str(config))


def last_record(home: Path) -> ImportRecord:
    """The import that would be undone. Raises `GatewayError` where there is none."""
    files = sorted((home / FOLDER).glob("*.json"))
    if not files:
        remedy = f"What an import changed is kept in {home / FOLDER}; each is undone once."
        raise GatewayError(Code.NOT_FOUND, "There is no import that could be undone", details={"remedy": remedy})
    try:
        found = json.loads(files[-1].read_text(encoding="utf-8"))
        moved = [MovedFile(**each) for each in found["moved"]]
        return ImportRecord(files[-1], found["config"], found["servers"], found["secrets"], moved)
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = f"Look at it, or remove it: {files[-1]}"
        raise GatewayError(
            Code.CONFIG_INVALID, f"What the last import changed cannot be read: {error}", details={"remedy": remedy}
        ) from None


@dataclass(slots=True)
class UndoneImport:
    """What was put back, and what stays as it is, with the reason."""

    removed: list[str] = field(default_factory=list[str])
    restored: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    """Put back byte for byte."""
    refilled: list[str] = field(default_factory=list[str])
    """Changed since, and given back what had been taken out."""
    left: dict[str, str] = field(default_factory=dict[str, str])


def servers_to_put_back(
    record: ImportRecord, destination: ImportDestination, undone: UndoneImport
) -> dict[str, Mapping[str, Any] | None]:
    """The servers that are still as the import left them."""
    now = destination.present().servers
    entries: dict[str, Mapping[str, Any] | None] = {}
    for name, change in record.servers.items():
        if name not in now:
            if change["before"] is None:
                continue
            undone.left[name] = "it was removed since"
        elif _likeness(now[name]) != change["now"]:
            undone.left[name] = "it was changed since the import, and stays as it is"
        else:
            entries[name] = change["before"]
    return entries


def undo_servers(record: ImportRecord, destination: ImportDestination, undone: UndoneImport) -> None:
    entries = servers_to_put_back(record, destination, undone)
    if entries:
        wrong = destination.change(entries, frozenset(entries))
        undone.left |= wrong
        undone.removed += [name for name, before in entries.items() if name not in wrong and before is None]
        undone.restored += [name for name, before in entries.items() if name not in wrong and before is not None]
    if not undone.left:
        take_back(record.secrets, destination.home)
