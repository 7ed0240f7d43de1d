"""Changing the configuration file as a careful person would: everything else in it stays, comments too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.core.policy.tool_names import entry_for, own_entry
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.files import PRIVATE_DIRECTORY, locked, write_private
from mcpproxy_py.settings.document import is_comment, parse, render, without_comments
from mcpproxy_py.settings.loader import validate_text

BACKUP: Final = ".bak"

Servers = dict[str, Any] | list[Any]


class ConfigFile:
    """The file at `path`, which need not exist yet. Every change is checked as a whole before it is written,
    the version before it stays beside the file as `.bak`, and a symlink is written through."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()

    def servers(self) -> dict[str, dict[str, Any]]:
        """The servers in the file by name, without comments, as they are written."""
        return {name: without_comments(server) for name, server in _by_name(_servers_in(self._document())).items()}

    def put_server(self, name: str, config: Mapping[str, Any], *, replace: bool = False) -> None:
        """Add a server. `CONFLICT` if there is one of that name and `replace` was not asked for."""

        def put(servers: Servers) -> None:
            if name in _by_name(servers) and not replace:
                raise GatewayError(Code.CONFLICT, f"a server named '{name}' exists already", details={"name": name})
            _set(servers, name, config)

        self._edit(put)

    def drop_server(self, name: str) -> dict[str, Any]:
        """Take a server out; the answer is what it was, so that it can be put back."""
        dropped: dict[str, Any] = {}

        def drop(servers: Servers) -> None:
            dropped.update(without_comments(_existing(servers, name)))
            _remove(servers, name)

        self._edit(drop)
        dropped.pop("name", None)
        return dropped

    def set_enabled(self, name: str, enabled: bool) -> None:
        self._edit(lambda servers: _existing(servers, name).update(enabled=enabled))

    def set_classes(self, name: str, classes: Mapping[str, Any]) -> dict[str, Any]:
        """Write overrides of single tools of a server, or with `None` take them out; the others stay. The answer is
        what stood there before."""
        before: dict[str, Any] = {}

        def change(servers: Servers) -> None:
            server = _existing(servers, name)
            overrides = server.setdefault("tools", {})
            for tool, override in classes.items():
                _set_class(overrides, tool, override, before)
            if not overrides:
                del server["tools"]

        self._edit(change)
        return before

    def _edit(self, change: Callable[[Servers], None]) -> None:
        target = self.path.resolve()
        _make_parent(target)
        with locked(target.parent):
            before = _text(target)
            document = self._document()
            change(_servers_in(document))
            after = render(document)
            _refuse_bad(after, self.path)
            if before is not None:
                write_private(target.with_name(target.name + BACKUP), before)
            write_private(target, after)

    def _document(self) -> dict[str, Any]:
        text = _text(self.path)
        if text is None:
            return {}
        _refuse_bad(text, self.path)
        return parse(text.removeprefix("\ufeff"))[0]


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise GatewayError(Code.CONFIG_INVALID, f"the configuration file {path} cannot be read: {error}") from None


def _make_parent(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_DIRECTORY)
    except OSError as error:
        raise GatewayError(Code.CONFIG_INVALID, f"{path.parent} cannot be made: {error.strerror}") from None


def _refuse_bad(text: str, path: Path) -> None:
    problems = validate_text(text, origin=str(path))
    if problems:
        raise GatewayError(Code.CONFIG_INVALID, "\n".join(problems), details={"problems": problems})


def _servers_in(document: dict[str, Any]) -> Servers:
    return document.setdefault("mcpServers", {})


def _by_name(servers: Servers) -> dict[str, dict[str, Any]]:
    if isinstance(servers, list):
        return {server["name"]: server for server in servers}
    return {name: server for name, server in servers.items() if not is_comment(name)}


def _existing(servers: Servers, name: str) -> dict[str, Any]:
    try:
        return _by_name(servers)[name]
    except KeyError:
        message = f"no server named '{name}' is in the configuration file"
        raise GatewayError(Code.NOT_FOUND, message, details={"name": name}) from None


def _set(servers: Servers, name: str, config: Mapping[str, Any]) -> None:
    """In the place of the server it replaces, whose comments it keeps; otherwise at the end."""
    old = _by_name(servers).get(name, {})
    entry = {**{key: value for key, value in old.items() if is_comment(key)}, **config}
    if isinstance(servers, dict):
        servers[name] = entry
        return
    entry = {"name": name, **entry}
    if old:
        servers[servers.index(old)] = entry
    else:
        servers.append(entry)


def _set_class(overrides: dict[str, Any], tool: str, override: Any, before: dict[str, Any]) -> None:
    """In the place of the entry that means just this tool, if there is one. Globs stay as they are."""
    key = own_entry(tool, (each for each in overrides if not is_comment(each))) or entry_for(tool)
    before[tool] = without_comments(overrides[key]) if key in overrides else None
    if override is not None:
        overrides[key] = override
    else:
        overrides.pop(key, None)


def _remove(servers: Servers, name: str) -> None:
    if isinstance(servers, dict):
        del servers[name]
    else:
        servers[:] = [server for server in servers if server["name"] != name]
