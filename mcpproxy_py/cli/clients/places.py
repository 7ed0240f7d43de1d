"""Where a client's files are on this machine: paths of the table turned into real ones."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcpproxy_py.cli.clients.known import FilePlace, KnownClient
from mcpproxy_py.cli.clients.writing import real_path
from mcpproxy_py.errors import Code, GatewayError

_PLATFORMS: Final = {"darwin": "macos", "win32": "windows"}
_VARIABLE: Final = re.compile(r"\$([A-Z_]+)(?=/|$)")


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides where files are."""

    platform: str
    home: Path | None
    environment: Mapping[str, str]

    @classmethod
    def this(cls) -> Machine:
        try:
            home: Path | None = Path.home()
        except RuntimeError:
            home = None
        if os.environ.get("HOME") == "" or (home is not None and not home.is_absolute()):
            home = None  # Python takes an empty HOME for the root directory
        return cls(_PLATFORMS.get(sys.platform, "linux"), home, os.environ)

    def _below_home(self, *parts: str) -> Path:
        if self.home is None:
            raise GatewayError(
                Code.CONFLICT,
                "There is no home directory to look for clients in: HOME is not set",
                details={"remedy": "Set HOME, or name a project with --project DIR."},
            )
        return self.home.joinpath(*parts)

    def _variable(self, name: str) -> Path | None:
        """What an environment variable says, where it is a whole path."""
        said = self.environment.get(name, "")
        if said.startswith("~") and self.home:
            said = str(self.home) + said[1:]
        return Path(said) if said and Path(said).is_absolute() else None

    def _config(self) -> Path:
        if self.platform == "windows":
            return self._variable("APPDATA") or self._below_home("AppData", "Roaming")
        return self._variable("XDG_CONFIG_HOME") or self._below_home(".config")

    def _app(self) -> Path:
        if self.platform == "macos":
            return self._below_home("Library", "Application Support")
        return self._config()

    def expanded(self, path: str) -> Path | None:
        """The real path, `None` where the variable that it begins with is not set."""
        head, _, rest = path.partition("/")
        variable = _VARIABLE.match(head)
        if variable:
            base = self._variable(variable[1])
        elif head == "{config}":
            base = self._config()
        else:
            base = self._app() if head == "{app}" else self._below_home()
        return base.joinpath(*rest.split("/")) if base and rest else base


def chosen(candidates: Iterable[FilePlace], machine: Machine) -> Path | None:
    """Of the places where a file may be, the one that the client uses."""
    paths: list[Path] = []
    for candidate in candidates:
        if candidate.on not in (None, machine.platform):
            continue
        path = machine.expanded(candidate.path)
        if path is not None and candidate.path.startswith("$"):
            return path
        if path is not None:
            paths.append(path)
    return next((path for path in paths if os.path.lexists(path)), paths[0] if paths else None)


def in_project(names: Iterable[str], root: Path) -> Path | None:
    """The file of a project: the first that is there, else the first. Refused where a link leads out of the project:
    the files of a repository are not the operator's own."""
    paths = [root.joinpath(*name.split("/")) for name in names]
    found = next((path for path in paths if os.path.lexists(path)), paths[0] if paths else None)
    if found is not None and not (target := real_path(found)).is_relative_to(real_path(root)):
        remedy = f"Replace the link, or write {target} yourself, or connect without --project."
        raise GatewayError(
            Code.CONFLICT,
            f"{found} leads out of the project, to {target}; it was not written",
            details={"remedy": remedy},
        )
    return found


def servers_file(client: KnownClient, machine: Machine, project: Path | None = None) -> Path | None:
    """The file in which this client has its servers; `None` where it has none of a project."""
    return chosen(client.user, machine) if project is None else in_project(client.project, project)
