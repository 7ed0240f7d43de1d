"""What `connect` changed, kept in the data directory for `disconnect`: the files as they were, byte for byte, a digest
of what was written, and how to take only our part out of a file that was changed since."""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.cli.clients.documents import Syntax
from mcpproxy_py.cli.clients.editing.values import Undo
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.files import private_folder, write_private

FOLDER: Final = "clients"
_RECORD: Final = "connection.json"


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file that was written."""

    path: Path
    syntax: Syntax
    before: bytes | None
    """`None`: there was no such file."""
    written: str
    """The digest of what was written."""
    undos: tuple[Undo, ...]
    folders: tuple[Path, ...] = ()
    """Made for it, outermost first."""
    whole: str | None = None
    """A file that holds nothing but rules of ours."""


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """One client, in one file, under one name."""

    client: str
    name: str
    servers_file: Path
    way: str
    files: tuple[ChangedFile, ...]

    def file(self, path: Path) -> ChangedFile | None:
        return next((each for each in self.files if each.path == path), None)


def kept_in(home: Path, client: str, name: str, servers_file: Path) -> Path:
    """The folder of one connection."""
    return home / FOLDER / f"{client}-{name}-{digest(str(servers_file).encode())[:12]}"


def keep(home: Path, connection: ClientConnection) -> None:
    """Before anything is written: who is interrupted can still go back."""
    from mcpproxy_py.settings import ensure_data_dir

    ensure_data_dir(home)
    folder = kept_in(home, connection.client, connection.name, connection.servers_file)
    private_folder(folder.parent)
    private_folder(folder)
    files: list[dict[str, Any]] = []
    for number, file in enumerate(connection.files):
        backup = f"{number}.before"
        if file.before is not None:
            write_private(folder / backup, file.before.decode("utf-8"))
        files.append({
            "path": str(file.path), "syntax": file.syntax, "before": None if file.before is None else backup,
            "sha256": file.written, "undos": [undo.as_json() for undo in file.undos],
            "folders": [str(each) for each in file.folders], "whole": file.whole,
        })  # fmt: skip
    said = {"client": connection.client, "name": connection.name, "servers_file": str(connection.servers_file),
            "way": connection.way, "files": files}  # fmt: skip
    write_private(folder / _RECORD, json.dumps(said, indent=2) + "\n")


def kept(home: Path, client: str, name: str, servers_file: Path) -> ClientConnection | None:
    """What was kept of this connection, if it was made by `connect`."""
    folder = kept_in(home, client, name, servers_file)
    try:
        said = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        files = tuple(_file(folder, each) for each in said["files"])
        return ClientConnection(said["client"], said["name"], Path(said["servers_file"]), said["way"], files)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = f"Take the entry out by hand, then remove {folder}."
        raise GatewayError(
            Code.CONFLICT, f"{folder / _RECORD} cannot be read: {error}", details={"remedy": remedy}
        ) from None


def _file(folder: Path, said: dict[str, Any]) -> ChangedFile:
    before = None if said["before"] is None else (folder / said["before"]).read_bytes()
    undos = tuple(Undo.from_json(each) for each in said["undos"])
    folders = tuple(Path(each) for each in said["folders"])
    return ChangedFile(
        Path(said["path"]), Syntax(said["syntax"]), before, said["sha256"], undos, folders, said["whole"]
    )


def forget(home: Path, connection: ClientConnection) -> None:
    """The connection is gone, and with it the copies of the files."""
    folder = kept_in(home, connection.client, connection.name, connection.servers_file)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()
