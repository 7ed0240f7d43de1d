"""The servers in the files of clients: which files there are, and what stands where in them."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.cli.clients.documents import Syntax, UnreadableFile, at, load, parse
from mcpproxy_py.cli.clients.known import CLIENTS, KeyPath, KnownClient
from mcpproxy_py.cli.clients.places import Machine, in_project
from mcpproxy_py.cli.importing.variables import AskedFor, NotCarriedOver, inputs_of
from mcpproxy_py.errors import Code, GatewayError

MOST_BYTES: Final = 8 << 20
MOST_SERVERS: Final = 500
ANY_CLIENT: Final = "file"
"""The name of the client where a file may be anybody's."""
_SUFFIXES: Final = {".toml": Syntax.TOML, ".yaml": Syntax.YAML, ".yml": Syntax.YAML}
_SHAPES: Final[tuple[tuple[KeyPath, str], ...]] = (
    (("mcpServers",), ANY_CLIENT), (("mcp_servers",), "codex"), (("context_servers",), "zed"), (("servers",), "vscode"),
    (("mcp", "servers"), "vscode"), (("mcp",), "opencode"), (("extensions",), "goose"),
)  # fmt: skip
"""Where a file that is nobody's known one may have its servers, and whose shape that is."""


@dataclass(frozen=True, slots=True)
class ForeignServer:
    """One entry of one file, as it stands there."""

    client: str
    path: Path
    keys: KeyPath
    """Where it is in the file, its name last."""
    raw: Any
    syntax: Syntax = Syntax.JSON
    project: Path | None = None
    inputs: Mapping[str, AskedFor] = field(default_factory=dict[str, AskedFor])
    off: bool = False
    """Whether the file switches it off elsewhere than in the entry."""

    @property
    def name(self) -> str:
        return self.keys[-1]

    @property
    def origin(self) -> str:
        """What a table says of where it was found."""
        client = self.path.name if self.client == ANY_CLIENT else self.client
        return f"{client} ({self.project.name})" if self.project else client


@dataclass(slots=True)
class FoundServers:
    """All that was read, and what could not be."""

    servers: list[ForeignServer] = field(default_factory=list[ForeignServer])
    files: list[Path] = field(default_factory=list[Path])
    problems: list[str] = field(default_factory=list[str])


def from_client(client: KnownClient, machine: Machine, project: Path | None) -> FoundServers:
    """The servers of one client: those of the person, or with `project` those of that project alone."""
    found = FoundServers()
    for path in _paths(client, machine, project):
        _read_into(found, client.name, path, client.syntax, project)
    return found


def from_all(machine: Machine, project: Path | None) -> FoundServers:
    """The servers of every client that has a file here. A file that cannot be read stops no other."""
    all_of_them = FoundServers()
    for client in CLIENTS.values():
        try:
            found = from_client(client, machine, project)
        except GatewayError as error:
            all_of_them.problems.append(error.message)
            continue
        all_of_them.servers += found.servers
        all_of_them.files += found.files
        all_of_them.problems += found.problems
    return all_of_them


def from_file(path: Path, machine: Machine, project: Path | None) -> FoundServers:
    """The servers of any file in one of the clients' shapes. Raises `GatewayError` for what is none."""
    path = path.expanduser().absolute()
    known = _owner(path, machine)
    found = FoundServers()
    if known is not None:
        client, root = known
        _read_into(found, client.name, path, client.syntax, project or root)
        if not found.files:
            raise GatewayError(Code.NOT_FOUND, f"There is no file {path}", details={"remedy": "Check its name."})
        return found
    syntax, data = _any_syntax(path, _text(path))
    found.files.append(path)
    client_name, keys, entries = _shape(data, path)
    _take_entries(found, _FileAtHand(client_name, path, syntax, data), keys, entries, project)
    return found


def from_stdin(project: Path | None) -> FoundServers:
    """What was pasted, such as the snippet of a server's README."""
    path, text = Path("stdin"), sys.stdin.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise UnreadableFile(path, f"it is larger than {MOST_BYTES >> 20} MB")
    syntax, data = _any_syntax(path, text)
    client_name, keys, entries = _shape(data, path)
    found = FoundServers()
    _take_entries(found, _FileAtHand(client_name, path, syntax, data), keys, entries, project)
    return found


def places_of(client: KnownClient, machine: Machine, project: Path | None) -> list[str]:
    """Where the files of a client would be."""
    if project is not None:
        return [str(project / name) for name in client.project]
    places = [place for place in client.user if place.on in (None, machine.platform)]
    return [str(path) for place in places if (path := machine.expanded(place.path)) is not None]


def _paths(client: KnownClient, machine: Machine, project: Path | None) -> Iterator[Path]:
    if project is not None:
        path = in_project(client.project, project)
        if path is not None and path.exists():
            yield path
        return
    seen: set[Path] = set()
    for place in client.user:
        path = machine.expanded(place.path) if place.on in (None, machine.platform) else None
        if path is not None and path.exists() and path.resolve() not in seen:
            seen.add(path.resolve())
            yield path


def _owner(path: Path, machine: Machine) -> tuple[KnownClient, Path | None] | None:
    """Whose file this is, by its place, and the project that it belongs to."""
    for client in CLIENTS.values():
        for name in client.project:
            parts = tuple(name.split("/"))
            if path.parts[-len(parts) :] == parts:
                return client, path.parents[len(parts) - 1]
    for client in CLIENTS.values():
        for place in client.user:
            own = machine.expanded(place.path) if machine.home or place.path.startswith("$") else None
            if own == path or (
                own is not None and own.name == path.name and "mcp" in path.name and path.name.count("_") > 1
            ):
                return client, None
            if path.name == "claude_desktop_config.json" and client.name == "claude-desktop":
                return client, None
    return None


def _read_into(found: FoundServers, client: str, path: Path, syntax: Syntax, project: Path | None) -> None:
    _refuse_large(path)
    document = load(path, syntax)
    if not document.exists:
        return
    found.files.append(path)
    if not document.text.strip().removeprefix("\ufeff"):
        found.problems.append(f"{path} is empty")
        return
    known = CLIENTS[client]
    for keys in (known.servers, *known.more_servers):
        for place, entries, root in _places(document.data, keys):
            _take_entries(found, _FileAtHand(client, path, syntax, document.data), place, entries, root or project)


def _places(data: Any, keys: KeyPath) -> Iterator[tuple[KeyPath, Any, Path | None]]:
    """Each place that the keys mean, where `*` is the directory of a project."""
    if "*" not in keys:
        entries = at(data, keys)
        if entries is not None:
            yield keys, entries, None
        return
    star = keys.index("*")
    below = at(data, keys[:star])
    for name in below if isinstance(below, dict) else ():
        entries = at(below, (name, *keys[star + 1 :]))
        if entries:
            yield (*keys[:star], name, *keys[star + 1 :]), entries, Path(name)


@dataclass(frozen=True, slots=True)
class _FileAtHand:
    client: str
    path: Path
    syntax: Syntax
    data: Any


def _take_entries(found: FoundServers, file: _FileAtHand, keys: KeyPath, entries: Any, project: Path | None) -> None:
    client, path = file.client, file.path
    where = f"{path}: {'.'.join(keys)}" if keys else str(path)
    if isinstance(entries, list) and client == ANY_CLIENT:
        entries = {
            item["name"]: item for item in entries if isinstance(item, dict) and isinstance(item.get("name"), str)
        }
    if not isinstance(entries, dict):
        kind = "a list" if isinstance(entries, list) else "something else"
        found.problems.append(f"{where} is {kind}, where an object of servers by name is expected")
        return
    if len(entries) > MOST_SERVERS:
        found.problems.append(f"{where} has {len(entries)} servers; the first {MOST_SERVERS} of them are looked at")
    inputs, off = inputs_of(file.data), _switched_off(client, file.data)
    for name, raw in list(entries.items())[:MOST_SERVERS]:
        if isinstance(name, str) and not (client == ANY_CLIENT and name.startswith("//")):
            server = ForeignServer(client, path, (*keys, name), raw, file.syntax, project, inputs, name in off)
            found.servers.append(server)


def _switched_off(client: str, data: Any) -> frozenset[str]:
    """Gemini CLI has a list of servers that it leaves out."""
    names = at(data, ("mcp", "excluded")) if client == "gemini-cli" else None
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def _shape(data: Mapping[str, Any], path: Path) -> tuple[str, KeyPath, Any]:
    for keys, client in _SHAPES:
        entries = at(data, keys)
        if entries is not None and (len(keys) > 1 or client != "goose" or _looks_like_servers(entries)):
            return client, keys, entries
    if data and _looks_like_servers(data):
        return ANY_CLIENT, (), data
    expected = ", ".join(keys[0] for keys, _ in _SHAPES if len(keys) == 1)
    raise GatewayError(
        Code.CONFLICT,
        f"{path} has no servers in it that are known here: none of {expected} is there",
        details={"remedy": 'A snippet has the form {"mcpServers": {"name": {"command": ...}}}.'},
    )


def _looks_like_servers(value: Any) -> bool:
    words = {"command", "cmd", "url", "serverUrl", "httpUrl", "uri", "type"}
    return isinstance(value, dict) and any(isinstance(item, dict) and item.keys() & words for item in value.values())


def _any_syntax(path: Path, text: str) -> tuple[Syntax, dict[str, Any]]:
    """By the ending; otherwise as JSON, and what is none as TOML or YAML. The complaint is that of the first."""
    if not text.strip().removeprefix("\ufeff"):
        raise UnreadableFile(path, "it is empty")
    first = _SUFFIXES.get(path.suffix.lower(), Syntax.JSON)
    try:
        return first, parse(text, first, path)
    except GatewayError as error:
        if path.suffix.lower() in {*_SUFFIXES, ".json", ".jsonc"} or text.lstrip("\ufeff \t\r\n").startswith("{"):
            raise
        for other in (Syntax.TOML, Syntax.YAML):
            try:
                return other, parse(text, other, path)
            except GatewayError:
                continue
        raise error from None


def _text(path: Path) -> str:
    _refuse_large(path)
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        remedy = f"Clients that are known: {', '.join(CLIENTS)}."
        message = f"There is no client called '{path.name}' and no file {path}"
        raise GatewayError(Code.NOT_FOUND, message, details={"remedy": remedy}) from None
    except UnicodeDecodeError as error:
        raise UnreadableFile(path, f"it is not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise UnreadableFile(path, (error.strerror or str(error)).lower()) from None


def _refuse_large(path: Path) -> None:
    """A settings file is no device and no pipe, and of a bounded size. A link is followed, as its client does."""
    try:
        found = path.stat()
    except OSError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableFile(path, "it is not a file")
    if found.st_size > MOST_BYTES:
        raise UnreadableFile(path, f"it is larger than {MOST_BYTES >> 20} MB")


def read_env_file(base: Path) -> Any:
    """Reads the variables of an `envFile`: `NAME=value` on each line, comments and quotes as usual."""

    def read(name: str) -> dict[str, str]:
        path = base / Path(name).expanduser()
        try:
            _refuse_large(path)
            text = path.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError, ValueError, GatewayError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text file of a reasonable size"
            raise NotCarriedOver(f"its envFile {path} cannot be read: {why}") from None
        return dict(_pairs(text))

    return read


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or name.startswith("#"):
            continue
        if len(value) > 1 and value[0] in "\"'" and value.endswith(value[0]):
            yield name, value[1:-1]
        else:
            yield name, value.partition(" #")[0].rstrip()
