"""Changing the configuration file as a careful person would: everything else in it stays, comments too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.policy.tool_names import entry_for, own_entry
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.files import PRIVATE_DIRECTORY, locked, write_private
from mcpproxy_py.settings.changes import compared, needs_restart
from mcpproxy_py.settings.document import flaws, is_comment, parse, render, without_comments
from mcpproxy_py.settings.loader import TextCheck, check_shape, settings_of_text
from mcpproxy_py.settings.masking import masked_entry, unmasked

BACKUP: Final = ".bak"

Servers = dict[str, Any] | list[Any]
Check = Callable[[str], TextCheck]


class TextChange(NamedTuple):
    """The file before and after; `None` where there was none."""

    before: str | None
    after: str

    def says(self) -> dict[str, list[str]]:
        """What the change loosens, what it tightens, and what of it waits for a restart, as far as the text tells."""
        old, new = (settings_of_text(text or "{}") for text in self)
        if old is None or new is None:
            return {"looser": [], "tighter": [], "after_restart": []}
        found = compared(old, new)
        return {
            "looser": [each.says for each in found if each.direction == "looser"],
            "tighter": [each.says for each in found if each.direction == "tighter"],
            "after_restart": needs_restart(old, new),
        }


class ConfigFile:
    """The file at `path`, which need not exist yet. Every change is checked as a whole before it is written,
    the version before it stays beside the file as `.bak`, and a symlink is written through.

    `check` says what is wrong with a text; by itself, what can be told without environment and secrets. With `mends`, a
    file may be wrong already, and a change is one for the better: it leaves nothing wrong that was not wrong before.
    """

    def __init__(self, path: Path, *, check: Check | None = None, mends: bool = False) -> None:
        self.path = path.expanduser().absolute()
        self._check: Check = check or partial(check_shape, origin=str(path))
        self._mends = mends
        self._writes = True
        self.tried: TextChange | None = None
        """The last change that this one was asked for."""
        self.left_wrong: tuple[str, ...] = ()
        """What is still wrong in it after the last change."""

    def trial(self) -> ConfigFile:
        """The same file, in which every change is checked as ever and none is written: `tried` has what it would be."""
        same = ConfigFile(self.path, check=self._check, mends=self._mends)
        same._writes = False
        return same

    def servers(self) -> dict[str, dict[str, Any]]:
        """The servers in the file by name, without comments, as they are written."""
        return {name: without_comments(server) for name, server in _by_name(_servers_in(self._document())).items()}

    def providers(self) -> dict[str, Any]:
        """The providers in the file by name, without comments."""
        found = without_comments(self._document()).get("providers")
        return found if isinstance(found, dict) else {}

    def entry(self, name: str) -> dict[str, Any] | None:
        """How a server is written, without its secrets."""
        found = without_comments(_by_name(_servers_in(self._document())).get(name))
        return (
            masked_entry({key: each for key, each in found.items() if key != "name"})
            if isinstance(found, dict)
            else None
        )

    def unknown(self, name: str) -> GatewayError:
        """That no server of this name is there, and which are near."""
        return _unknown(_by_name(_servers_in(self._document())), name)

    def put_server(
        self, name: str, config: Mapping[str, Any], *, replace: bool = False, secrets_must_be_there: bool = True
    ) -> None:
        """Add a server. `CONFLICT` if there is one of that name and `replace` was not asked for. A mask in it stands
        for what it hides in the one that is replaced."""

        def put(servers: Servers) -> None:
            before = _by_name(servers).get(name)
            if before is not None and not replace:
                raise GatewayError(
                    Code.CONFLICT, f"a server named '{name}' exists already",
                    details={"name": name, "remedy": "Choose another name, or give --replace (`replace`)."},
                )  # fmt: skip
            try:
                entry = unmasked(config, without_comments(before) if isinstance(before, dict) else {})
            except ValueError as error:
                raise GatewayError(Code.CONFIG_INVALID, f"mcpServers.{name}.{error}", details={"name": name}) from None
            _set(servers, name, entry)

        def judge(before: TextCheck, after: TextCheck) -> None:
            self._refuse_worse(before, after, name)
            missing = after.missing.get(name)
            if (
                secrets_must_be_there
                and missing
                and before.missing.get(name) != missing
                and config.get("enabled", True)
            ):
                raise _missing_secret(name, missing)

        self._edit(put, judge, name)

    def change_servers(self, entries: Mapping[str, Mapping[str, Any] | None], *, replace: Collection[str] = ()) -> None:
        """Several at once, in one edit: each is added, put in the place of one that `replace` names, or with `None`
        taken out."""

        def change(servers: Servers) -> None:
            for name, config in entries.items():
                there = name in _by_name(servers)
                if config is None and there:
                    _remove(servers, name)
                elif config is not None and there and name not in replace:
                    message = f"a server named '{name}' exists already"
                    raise GatewayError(Code.CONFLICT, message, details={"name": name})
                elif config is not None:
                    _set(servers, name, config)

        def judge(before: TextCheck, after: TextCheck) -> None:
            for name in entries:
                self._refuse_worse(before, after, name)

        self._edit(change, judge, "")

    def drop_server(self, name: str) -> dict[str, Any]:
        """Take a server out; the answer is what it was, so that it can be put back."""
        dropped: dict[str, Any] = {}

        def drop(servers: Servers) -> None:
            was = without_comments(_existing(servers, name))
            dropped.update(was if isinstance(was, dict) else {})
            _remove(servers, name)

        self._edit(drop, self._refuse_worse, name)
        dropped.pop("name", None)
        return dropped

    def set_enabled(self, name: str, enabled: bool) -> None:
        def switch(servers: Servers) -> None:
            entry = _existing(servers, name)
            if not isinstance(entry, dict):
                message = f"mcpServers.{name} is no object, so it cannot be switched"
                remedy = f"`mcpproxy upstream edit {name}` or `mcpproxy upstream remove {name}` mends it."
                raise GatewayError(Code.CONFIG_INVALID, message, details={"name": name, "remedy": remedy})
            entry["enabled"] = enabled

        # What is ambiguous in it may be disabled; to enable it would be to choose.
        self._edit(switch, self._refuse_worse, "" if enabled else name)

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

        self._edit(change, self._refuse_worse, name)
        return before

    def change(self, edit: Callable[[dict[str, Any]], None]) -> TextChange:
        """Edit any of its keys. What was wrong before may be mended by it; what is wrong afterwards is not written."""

        def edited(before: str | None) -> str:
            document, problems = ({}, []) if before is None else parse(before.removeprefix("\ufeff"))
            if not isinstance(document, dict):
                said = problems[0].text if problems else "expected an object: { ... }"
                raise GatewayError(Code.CONFIG_INVALID, f"{self.path}: {said}")
            edit(document)
            return render(document)

        return self.replace(edited)

    def replace(self, edited: Callable[[str | None], str]) -> TextChange:
        """Put another text in place of what is there when nobody else can write it."""
        target = self.path.resolve()
        _make_parent(target)
        with locked(target.parent):
            before = _text(target)
            after = edited(before)
            self._refuse_worse(TextCheck(), self._check(after))
            return self._write(target, before, after)

    def _edit(
        self, change: Callable[[Servers], None], judge: Callable[[TextCheck, TextCheck], None], name: str
    ) -> None:
        target = self.path.resolve()
        _make_parent(target)
        with locked(target.parent):
            before = _text(target)
            document = self._document()
            _refuse_ambiguous(document, name, self.path)
            change(_servers_in(document))
            after = render(document)
            found = self._check(after)
            judge(self._check(before or "{}"), found)
            self._write(target, before, after)
            self.left_wrong = tuple(says for _, says in found.problems)

    def _write(self, target: Path, before: str | None, after: str) -> TextChange:
        self.tried = TextChange(before, after)
        if self._writes and after != before:
            if before is not None:
                write_private(target.with_name(target.name + BACKUP), before)
            write_private(target, after)
        return self.tried

    def _refuse_worse(self, before: TextCheck, after: TextCheck, name: str = "") -> None:
        """`name` is the server that must be right now, whatever it was."""
        wrong = after.problems
        if self._mends:
            known, own = {says for _, says in before.problems}, ("mcpServers", name)
            fresh = [(path, says) for path, says in after.problems if path[:2] == own or says not in known]
            # Positions in a list move when one goes, and what is wrong there is worded anew.
            grew = len(after.problems) > len(before.problems)
            wrong = tuple(one for one in fresh if grew or one[0][:2] == own)
        if wrong:
            told, details = [says for _, says in wrong], dict[str, Any]()
            if any(one in before.problems for one in wrong):
                details["remedy"] = "Nothing was written: this was wrong before. `mcpproxy config edit` opens the file."
            raise GatewayError(Code.CONFIG_INVALID, "\n".join(told), details={"problems": told, **details})

    def _document(self) -> dict[str, Any]:
        text = _text(self.path)
        if text is None:
            return {}
        document, problems = parse(text.removeprefix("\ufeff"))
        if not isinstance(document, dict):
            why = problems[0].text if problems else "expected an object: { ... }"
            raise GatewayError(Code.CONFIG_INVALID, f"{self.path}: {why}", details={"remedy": self._how_to_open()})
        return document

    def _how_to_open(self) -> str:
        """For a text that no command can mend, because it is no JSON."""
        backup = self.path.with_name(self.path.name + BACKUP)
        older = f" What it was before the last command that changed it is in {backup}." if backup.exists() else ""
        return f"Open it with `mcpproxy config edit`, or in any editor.{older}"


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


def _missing_secret(name: str, missing: str) -> GatewayError:
    remedy = (
        "Set it where the gateway starts and restart the gateway, or write the value into a file and use "
        f"${{file:PATH}}. To add {name} all the same: --no-check."
    )
    message = f"{name} was not written: a secret that it needs is missing: {missing}"
    return GatewayError(Code.CONFIG_INVALID, message, details={"name": name, "missing": missing, "remedy": remedy})


def _refuse_ambiguous(document: dict[str, Any], name: str, path: Path) -> None:
    """Of a key that stands twice a parser keeps one. Writing that down would choose for the person, except in the entry
    that the change is about."""
    for flaw in flaws(document):
        of_it = flaw.path[:2] == ("mcpServers", name) or (flaw.path == ("mcpServers",) and f"'{name}'" in flaw.text)
        if "twice" in flaw.text or "two servers" in flaw.text:
            if of_it:
                continue
            where = ".".join(map(str, flaw.path)) or str(path)
            raise GatewayError(
                Code.CONFIG_INVALID, f"{where}: {flaw.text}",
                details={"remedy": f"Open {path} with `mcpproxy config edit`, or in any editor."},
            )  # fmt: skip


def _servers_in(document: dict[str, Any]) -> Servers:
    servers = document.setdefault("mcpServers", {})
    if not isinstance(servers, dict | list):
        message = "mcpServers is neither an object nor a list, so no server can be changed in it"
        remedy = "Open the file with `mcpproxy config edit`, or in any editor."
        raise GatewayError(Code.CONFIG_INVALID, message, details={"remedy": remedy})
    return servers


def _by_name(servers: Servers) -> dict[str, Any]:
    """Also of a file that is wrong: an entry in a list without a name has none."""
    if isinstance(servers, list):
        return {each["name"]: each for each in servers if isinstance(each, dict) and isinstance(each.get("name"), str)}
    return {name: server for name, server in servers.items() if not is_comment(name)}


def _existing(servers: Servers, name: str) -> Any:
    known = _by_name(servers)
    if name in known:
        return known[name]
    raise _unknown(known, name)


def _unknown(known: Mapping[str, Any], name: str) -> GatewayError:
    near = nearest(name, known)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    message = f"no server named '{name}' is in the configuration file{hint}"
    return GatewayError(Code.NOT_FOUND, message, details={"name": name, "nearest": near})


def _set(servers: Servers, name: str, config: Mapping[str, Any]) -> None:
    """In the place of the server it replaces, whose comments it keeps; otherwise at the end."""
    old = _by_name(servers).get(name)
    comments = {key: value for key, value in old.items() if is_comment(key)} if isinstance(old, dict) else {}
    entry = {**comments, **config}
    if isinstance(servers, dict):
        servers[name] = entry
        return
    entry = {"name": name, **entry}
    if old is not None:
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
        servers[:] = [each for each in servers if not (isinstance(each, dict) and each.get("name") == name)]
