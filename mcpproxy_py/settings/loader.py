"""From defaults, file, environment and flags to one `Settings`, or to every problem there is, at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from pydantic import ValidationError

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings.document import ConfigProblem, KeyPath, parse, servers_by_name, without_comments
from mcpproxy_py.settings.environment import EnvironmentSource
from mcpproxy_py.settings.masking import shown
from mcpproxy_py.settings.models import ENV_PREFIX, Settings
from mcpproxy_py.settings.problems import dotted, problems_in, sentences, unknown_key
from mcpproxy_py.settings.secret_references import FilledIn, filled_in, resolver, stood_in

CONFIG_NAME: Final = "mcp_config.json"
DEFAULT_DATA_DIR: Final = "~/.mcpproxy"
EVERYBODY: Final = "everybody"
MAX_LINKS: Final = 40

Document = dict[str, Any]
Fingerprint = tuple[int, int, int]
# Other keys that say the same; asked when the source of a key is looked up.
_ALSO_WRITTEN: Final = {"transport": "type"}


@dataclass(frozen=True)
class Loaded:
    """The settings, the file they are (or would be) kept in, and where each value came from."""

    settings: Settings
    path: Path
    exists: bool
    warnings: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    seen: Fingerprint | None = None
    """Of the file, from before it was read."""
    awaited: tuple[Path, ...] = ()
    """Files that would have a secret that is missing."""


@dataclass(frozen=True)
class TextCheck:
    """What reading a file's text as `load` would gives: problems with their places, and per server the secrets that
    are missing."""

    problems: tuple[tuple[KeyPath, str], ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class _Layers:
    """The same document from three places, the strongest first."""

    flag: Document
    env: Document
    file: Document

    def merged(self) -> Document:
        return _over(self.flag, _over(self.env, self.file))

    def source(self, path: KeyPath) -> str:
        return next((name for name in ("flag", "env", "file") if _has(getattr(self, name), path)), "default")


def load(
    *,
    config: Path | None = None,
    data_dir: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Read everything. Raises `GatewayError(CONFIG_INVALID)` that lists all that is wrong.

    A file that was asked for by name has to exist; the one in the data directory need not.
    """
    environ = os.environ if environ is None else environ
    flags = _flags(overrides or {}, data_dir)
    path, demanded = _config_path(config, flags.get("data_dir"), environ)
    seen = fingerprint(path)
    text, doubt = _read(path, demanded)
    read = _assembled(text, path, flags, environ)
    if read.problems:
        _raise_for([says for _, says in (*read.problems, *read.unset)], f"the configuration ({path})")
    settings = read.settings
    assert settings is not None
    warnings = (*doubt, *read.variables.warnings)
    return Loaded(settings, path, text is not None, warnings, _sources(settings, read.layers), seen, read.awaited)


def check_text(
    text: str,
    path: Path,
    *,
    data_dir: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> TextCheck:
    """What `load` would find if this were the text of the file at `path`: environment and secrets included."""
    environ = os.environ if environ is None else environ
    read = _assembled(text, path, _flags(overrides or {}, data_dir), environ)
    return TextCheck(read.problems, read.missing)


@dataclass(frozen=True)
class _Assembled:
    """One reading of all layers."""

    settings: Settings | None
    problems: tuple[tuple[KeyPath, str], ...]
    unset: tuple[tuple[KeyPath, str], ...]
    missing: Mapping[str, str]
    awaited: tuple[Path, ...]
    layers: _Layers
    variables: EnvironmentSource


def _assembled(text: str | None, path: Path, flags: Document, environ: Mapping[str, str]) -> _Assembled:
    written, problems = ({}, []) if text is None else read_document(text, path.parent)
    variables = EnvironmentSource(environ)
    layers = _Layers(flags, variables(), written)
    settings, filled, found = _settings(
        layers.merged(), lambda merged: filled_in(merged, resolver(environ, path.parent))
    )
    place = _place_finder(layers, variables, str(path))
    told = tuple(_told([*problems, *variables.problems, *found], place))
    unset, missing = tuple(_told(filled.unset, place)), _in_words(filled.missing)
    return _Assembled(settings, told, unset, missing, tuple(filled.awaited), layers, variables)


def _told(problems: list[ConfigProblem], place: Callable[[KeyPath], str]) -> Iterator[tuple[KeyPath, str]]:
    for problem in dict.fromkeys(problems):
        yield from ((problem.path, says) for says in sentences([problem], place))


def _in_words(missing: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: "; ".join(dict.fromkeys(whys)) for name, whys in missing.items()}


def validate_text(text: str, *, origin: str) -> list[str]:
    """Every problem of a file's text, as sentences; its secrets need not be there."""
    return [says for _, says in check_shape(text, origin=origin).problems]


def check_shape(text: str, *, origin: str) -> TextCheck:
    """Like `check_text`, of the text alone: no environment, no secrets."""
    written, problems = read_document(text, Path())
    found: list[ConfigProblem] = []
    if not problems or written:
        _, _, found = _settings(written, stood_in)
    return TextCheck(tuple(_told([*problems, *found], lambda at: f"{origin}: {dotted(at)}" if at else origin)))


def settings_of_text(text: str) -> Settings | None:
    """What a file's text alone says, its secrets stood in for; `None` for one that is wrong."""
    written, problems = read_document(text, Path())
    return None if problems else _settings(written, stood_in)[0]


def read_document(text: str, base: Path) -> tuple[Document, list[ConfigProblem]]:
    """The file as a plain document with servers by name; relative directories in it start at `base`."""
    value, problems = parse(text.removeprefix("\ufeff"))
    if problems and value is None:
        return {}, problems
    if not isinstance(value, dict):
        return {}, [ConfigProblem((), "expected an object: { ... }")]
    plain = without_comments(value)
    plain.pop("$schema", None)
    return _anchored(_servers_named(plain), base), problems


def _servers_named(plain: Document) -> Document:
    """Lists become mappings before merging, so that a variable can reach one server; a bad list is left for
    validation to report."""
    try:
        return {**plain, "mcpServers": servers_by_name(plain["mcpServers"])} if "mcpServers" in plain else plain
    except ValueError:
        return plain


def _anchored(plain: Document, base: Path) -> Document:
    servers = plain.get("mcpServers")
    for holder, key in [(plain, "data_dir"), *((server, "cwd") for server in _mappings(servers))]:
        if isinstance(holder.get(key), str) and holder[key].strip():
            holder[key] = str(base / Path(holder[key]).expanduser())
    return plain


def _mappings(servers: Any) -> Iterator[dict[str, Any]]:
    if isinstance(servers, dict):
        yield from (server for server in servers.values() if isinstance(server, dict))


def _settings(
    merged: Document, fill: Callable[[Document], FilledIn]
) -> tuple[Settings | None, FilledIn, list[ConfigProblem]]:
    filled = fill(merged)
    values, problems = filled.values, list(filled.problems)
    # pydantic-settings would take keys with an underscore in front for its own switches.
    swallowed = [key for key in values if key.startswith("_")]
    problems += [unknown_key((key,)) for key in swallowed]
    missing = _in_words(filled.missing)
    try:
        kept = {key: values[key] for key in values if key not in swallowed}
        return Settings.read(kept, merged, missing), filled, problems
    except ValidationError as error:
        unresolved = {problem.path for problem in problems}
        return None, filled, problems + [each for each in problems_in(error, merged) if each.path not in unresolved]


def _config_path(config: Path | None, data_dir: str | None, environ: Mapping[str, str]) -> tuple[Path, bool]:
    named = config or environ.get(ENV_PREFIX + "CONFIG")
    if named:
        return Path(named).expanduser().absolute(), True
    directory = data_dir or environ.get(ENV_PREFIX + "DATA_DIR") or DEFAULT_DATA_DIR
    return Path(directory).expanduser().absolute() / CONFIG_NAME, False


def fingerprint(path: Path) -> Fingerprint | None:
    """One stat of a local file; editors replace the file, so its inode counts too."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path, demanded: bool) -> tuple[str | None, tuple[str, ...]]:
    """The text, and what is to be said of its file. Looked at through the descriptor, so that it cannot be swapped."""
    try:
        with path.open(encoding="utf-8") as file:
            doubt = _who_can_write(path, os.fstat(file.fileno()))
            return file.read(), doubt
    except FileNotFoundError:
        if demanded:
            raise GatewayError(Code.CONFIG_INVALID, f"there is no configuration file {path}") from None
        return None, ()
    except UnicodeDecodeError as error:
        message = f"the configuration file {path} is not UTF-8 text (byte {error.start})"
        raise GatewayError(Code.CONFIG_INVALID, message) from None
    except OSError as error:
        message = f"the configuration file {path} cannot be read: {error.strerror}"
        raise GatewayError(Code.CONFIG_INVALID, message) from None


def _who_can_write(path: Path, found: os.stat_result) -> tuple[str, ...]:
    """Whoever can write this file can have a command started as us, and so can whoever can put another in its place. A
    group may be that of one person alone, as many systems have it; any other is as bad as everybody."""
    if os.name != "posix":
        return ()
    if writers := _others_who_can_write(found):
        raise GatewayError(Code.CONFIG_INVALID, f"{writers} can write {path}, so it is not read; {_mend(path)}")
    for folder, holds_it in _folders(path):
        above = folder.stat()
        writers = "" if above.st_mode & stat.S_ISVTX else _others_who_can_write(above)
        if writers and (holds_it or writers == EVERYBODY) and not os.statvfs(folder).f_flag & os.ST_RDONLY:
            message = f"{writers} can put another file in the place of {path}, so it is not read; {_mend(folder)}"
            raise GatewayError(Code.CONFIG_INVALID, message)
    if found.st_mode & stat.S_IWGRP:
        return (f"others of its group can write {path}; unless you are alone in it, {_mend(path)}",)
    return ()


def _folders(path: Path) -> Iterator[tuple[Path, bool]]:
    """Where the file is, where each link to it is, and all above these; and whether it holds one of them."""
    for _ in range(MAX_LINKS):
        for way in (path, path.resolve()):
            yield from ((folder, folder == way.parent) for folder in way.parents)
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()


def _others_who_can_write(found: os.stat_result) -> str:
    if found.st_mode & stat.S_IWOTH:
        return EVERYBODY
    if found.st_mode & stat.S_IWGRP and not _is_of_its_owner_alone(found):
        return "others of its group"
    return ""


def _is_of_its_owner_alone(found: os.stat_result) -> bool:
    """Whether the group is the one that a system makes for each user, by its name; in a container neither may have one.
    Root's adds nobody either."""
    import grp
    import pwd

    owner = group = None
    with suppress(KeyError):
        owner = pwd.getpwuid(found.st_uid).pw_name
    with suppress(KeyError):
        group = grp.getgrgid(found.st_gid)
    if group is None:
        return found.st_gid == found.st_uid
    return set(group.gr_mem) <= {owner, "root"} and (group.gr_name == owner or found.st_gid == 0)


def _mend(path: Path) -> str:
    return f"close it with `chmod go-w {path}`"


def _flags(overrides: Mapping[str, Any], data_dir: Path | None) -> Document:
    """Flags that were given; one that is `None` was not."""
    given = {**overrides, **({} if data_dir is None else {"data_dir": data_dir})}
    return {key: str(value) if isinstance(value, Path) else value for key, value in given.items() if value is not None}


def _over(strong: Document, weak: Document) -> Document:
    both = {key: _over(strong[key], weak[key]) for key in strong if _are_mappings(strong[key], weak.get(key))}
    return {**weak, **strong, **both}


def _are_mappings(*values: Any) -> bool:
    return all(isinstance(value, dict) for value in values)


def _has(layer: Any, path: KeyPath) -> bool:
    for key in path:
        if not isinstance(layer, Mapping):
            return True
        if key not in layer:
            return _ALSO_WRITTEN.get(str(key), key) in layer
        layer = layer[key]
    return True


def _place_finder(layers: _Layers, variables: EnvironmentSource, origin: str) -> Callable[[KeyPath], str]:
    def place(path: KeyPath) -> str:
        source = layers.source(path) if path else "file"
        if source == "env":
            return _variable(path, variables)
        if source == "flag":
            return "--" + dotted(path).replace("_", "-")
        return f"{origin}: {dotted(path)}" if path else origin

    return place


def _variable(path: KeyPath, variables: EnvironmentSource) -> str:
    """The variable that set this place, and the rest of the way if it set more than that."""
    texts = tuple(str(part) for part in path)
    for length in range(len(path), 0, -1):
        name = variables.variables.get(texts[:length])
        if name:
            return name if length == len(path) else f"{name}: {dotted(path[length:])}"
    below = (name for at, name in variables.variables.items() if at[: len(path)] == texts)
    return next(below, dotted(path))


def _sources(settings: Settings, layers: _Layers) -> dict[str, str]:
    return {dotted(path): layers.source(path) for path in _leaves(shown(settings), ())}


def _leaves(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    else:
        yield path


def _raise_for(found: list[str], what: str) -> NoReturn:
    """One problem reads as a sentence, several as a list."""
    several = "\n- ".join([f"{what} has {len(found)} problems:", *found])
    message = found[0] if len(found) == 1 else several
    raise GatewayError(Code.CONFIG_INVALID, message, details={"problems": found})
