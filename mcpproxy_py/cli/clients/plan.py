"""What `connect` and `disconnect` would do to a client's files, worked out whole before anything is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.cli.clients import connections, documents, entries, writing
from mcpproxy_py.cli.clients.connections import ChangedFile, ClientConnection
from mcpproxy_py.cli.clients.documents import Document, Syntax
from mcpproxy_py.cli.clients.editing import edits, toml_edit
from mcpproxy_py.cli.clients.editing.values import Addition, EditRefused, Undo
from mcpproxy_py.cli.clients.entries import Launch
from mcpproxy_py.cli.clients.known import CLIENTS, KnownClient
from mcpproxy_py.cli.clients.places import Machine, chosen, in_project
from mcpproxy_py.errors import Code, GatewayError

PRIVATE: Final = 0o600
SHARED: Final = 0o644
"""Of files that are made: a person's own, and those of a project."""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """One file: what is in it, what will be, and what is kept to go back."""

    document: Document
    after: str | None
    """`None`: the file goes."""
    base: str | None = None
    """As it is without anything of ours; `None` where it is not there without us."""
    undos: tuple[Undo, ...] = ()
    folders: tuple[Path, ...] = ()
    whole: str | None = None
    mode: int = PRIVATE
    was_changed: bool = False
    """By somebody else, since `connect` wrote it."""

    @property
    def changes(self) -> bool:
        return self.after != (self.document.text if self.document.exists else None)


@dataclass(frozen=True, slots=True)
class Target:
    """One client in one place, under one name."""

    client: KnownClient
    name: str
    servers_file: Path
    project: Path | None
    machine: Machine

    def rules_file(self) -> Path | None:
        """The file of the rules; `None` where the client has none that could be written here."""
        rules = self.client.permissions
        if self.project is not None:
            own = in_project(rules.project, self.project)
            return own or (None if rules.user else self.servers_file)
        if not rules.user:
            return self.servers_file
        places = tuple(replace(place, path=place.path.replace("{server}", self.name)) for place in rules.user)
        return chosen(places, self.machine)

    def has_rules(self) -> bool:
        rules = self.client.permissions
        return bool(rules.in_entry) or (bool(rules.reads or rules.whole_file) and self.rules_file() is not None)


def connecting(target: Target, launch: Launch, kept: ClientConnection | None, *, with_rules: bool) -> list[FilePlan]:
    """The plans of all files that change; the first is that of the servers."""
    client = target.client
    additions: dict[Path, list[Addition]] = {
        target.servers_file: entries.server_additions(client, target.name, launch, with_rules=with_rules)
    }
    syntaxes = {target.servers_file: client.syntax}
    rules_file = target.rules_file() if with_rules else None
    if rules_file is not None and not client.permissions.whole_file:
        additions.setdefault(rules_file, []).extend(entries.rule_additions(client, target.name))
        syntaxes.setdefault(rules_file, client.permissions.syntax)
    plans = [_with_additions(target, path, syntaxes[path], each, kept) for path, each in additions.items() if each]
    if rules_file is not None and client.permissions.whole_file:
        whole = client.permissions.whole_file.replace("{server}", target.name)
        plans += _whole_file(target, rules_file, whole, kept)
    return plans + _no_longer_ours(client, kept, plans)


def _with_additions(
    target: Target, path: Path, syntax: Syntax, additions: Sequence[Addition], kept: ClientConnection | None
) -> FilePlan:
    document = documents.load(path, syntax)
    earlier = kept.file(path) if kept else None
    base = _base(target.client, document, earlier)
    try:
        wanted = _respectful(documents.parse(base or "", syntax, path), additions)
        after, undos = edits.add_all(base or "", syntax, wanted, path)
    except EditRefused as error:
        hint = "" if path == target.servers_file else "Leave the rules out with --no-rules, or: "
        raise _refused(path, error, syntax, additions, hint) from None
    folders = earlier.folders if earlier else tuple(writing.missing_folders(path))
    mode = PRIVATE if target.project is None else SHARED
    return FilePlan(document, after, base, tuple(undos), folders, mode=mode)


def _no_longer_ours(client: KnownClient, kept: ClientConnection | None, plans: Sequence[FilePlan]) -> list[FilePlan]:
    """Files of an earlier connection that this one has nothing in."""
    paths = {plan.document.path for plan in plans}
    found: list[FilePlan] = []
    for file in kept.files if kept else ():
        document = documents.load(file.path, file.syntax)
        if file.path not in paths and document.exists:
            base = _base(client, document, file)
            found.append(FilePlan(document, base, base, folders=file.folders))
    return found


def _respectful(data: dict[str, Any], additions: Sequence[Addition]) -> list[Addition]:
    """Without rules that somebody has set otherwise: theirs stay."""
    return [
        each
        for each in additions
        if each.is_item or isinstance(each.value, dict) or documents.at(data, each.path) is None
    ]


def _whole_file(target: Target, path: Path, whole: str, kept: ClientConnection | None) -> list[FilePlan]:
    document = documents.load(path, target.client.permissions.syntax)
    earlier = kept.file(path) if kept else None
    if document.exists and earlier is None:
        return []  # somebody's own rules for a server of this name
    folders = earlier.folders if earlier else tuple(writing.missing_folders(path))
    return [FilePlan(document, whole, None, folders=folders, whole=whole)]


def _base(client: KnownClient, document: Document, earlier: ChangedFile | None) -> str | None:
    """The text without anything of ours."""
    if earlier is None:
        return document.text if document.exists else None
    if document.raw is not None and connections.digest(document.raw) == earlier.written:
        return None if earlier.before is None else earlier.before.decode("utf-8")
    if not document.exists:
        return None
    return _taken_out(client, document, earlier)


def _taken_out(client: KnownClient, document: Document, file: ChangedFile) -> str | None:
    text = document.text
    for undo in reversed(file.undos):
        entry = documents.at(document.data, undo.path)
        if undo.path[:-1] == client.servers and not entries.is_still_ours(client, entry, undo.value):
            continue  # somebody else's by now
        text = edits.take_out(text, file.syntax, undo, document.path)
    if file.whole is not None:
        text = text.replace(file.whole, "")
    left = documents.parse(text, file.syntax, document.path)
    return None if file.before is None and not left and (file.syntax is Syntax.JSON or not text.strip()) else text


def disconnecting(kept: ClientConnection) -> list[FilePlan]:
    """Back to the very bytes where nothing else changed them, and without our part where something did."""
    plans: list[FilePlan] = []
    for file in kept.files:
        document = documents.load(file.path, file.syntax)
        if not document.exists:
            continue
        try:
            after = _base(CLIENTS[kept.client], document, file)
        except EditRefused as error:
            remedy = f"Nothing was changed. Take the entry {kept.name} out by hand."
            raise GatewayError(error.code, f"{file.path}: {error.message}", details={"remedy": remedy}) from None
        untouched = connections.digest(document.raw or b"") == file.written
        plans.append(FilePlan(document, after, folders=file.folders, was_changed=not untouched))
    return plans


def disconnecting_by_hand(target: Target) -> list[FilePlan]:
    """Without an entry that `connect` knows nothing of, and the rules beside it that are as `connect` makes them."""
    path = (*target.client.servers, target.name)
    rules, rules_file = target.client.permissions, target.rules_file()
    wanted: dict[Path, list[Undo]] = {target.servers_file: [Undo(path, None, made=len(path))]}
    syntaxes = {target.servers_file: target.client.syntax}
    if rules_file is not None:
        undos = [
            Undo(each.path, each.value, each.is_item) for each in entries.rule_additions(target.client, target.name)
        ]
        wanted.setdefault(rules_file, []).extend(undos)
        syntaxes.setdefault(rules_file, rules.syntax)
    plans: list[FilePlan] = []
    for file, undos in wanted.items():
        document = documents.load(file, syntaxes[file])
        text: str | None = document.text if document.exists else None
        if text is not None and rules.whole_file and text == rules.whole_file.replace("{server}", target.name):
            text = None
        for undo in undos if text else ():
            text = _out_if_ours(text or "", document, undo)
        plans.append(FilePlan(document, text, was_changed=True))
    return plans


def _out_if_ours(text: str, document: Document, undo: Undo) -> str:
    data = documents.parse(text, document.syntax, document.path)
    if not undo.is_item and undo.value is not None and documents.at(data, undo.path) != undo.value:
        return text
    try:
        return edits.take_out(text, document.syntax, undo, document.path)
    except EditRefused as error:
        remedy = f"Nothing was changed. Take {'.'.join(undo.path)} out by hand."
        raise GatewayError(error.code, f"{document.path}: {error.message}", details={"remedy": remedy}) from None


def connection(target: Target, launch: Launch, plans: Sequence[FilePlan]) -> ClientConnection:
    """What has to be kept of these plans."""
    files = tuple(
        ChangedFile(
            plan.document.path,
            plan.document.syntax,
            None if plan.base is None else plan.base.encode("utf-8"),
            connections.digest((plan.after or "").encode("utf-8")),
            plan.undos,
            plan.folders,
            plan.whole,
        )
        for plan in plans
        if plan.undos or plan.whole
    )
    return ClientConnection(target.client.name, target.name, target.servers_file, launch.way, files)


def carry_out(plans: Sequence[FilePlan]) -> None:
    """Write all of them, or none: what was written before one that failed is put back."""
    done: list[FilePlan] = []
    try:
        for plan in plans:
            if plan.changes:
                _write(plan)
                done.append(plan)
    except BaseException:
        for plan in reversed(done):
            _write_back(plan)
        raise


def _write(plan: FilePlan) -> None:
    document = plan.document
    if plan.after is None:
        assert document.raw is not None
        writing.remove(document.path, expected=document.raw, folders=list(plan.folders))
    else:
        writing.put(document.path, plan.after.encode("utf-8"), expected=document.raw, new_mode=plan.mode)


def _write_back(plan: FilePlan) -> None:
    document = plan.document
    written = None if plan.after is None else plan.after.encode("utf-8")
    if document.raw is None:
        writing.remove(document.path, expected=written or b"", folders=list(plan.folders))
    else:
        writing.put(document.path, document.raw, expected=written, new_mode=plan.mode)


def _refused(path: Path, error: EditRefused, syntax: Syntax, additions: Sequence[Addition], hint: str) -> GatewayError:
    remedy = f"Nothing was changed. {hint}Put this in by hand:\n{pasted(additions, syntax)}"
    return GatewayError(Code.CONFLICT, f"{path}: {error.message}", details={"remedy": remedy})


def pasted(additions: Sequence[Addition], syntax: Syntax) -> str:
    """Lines for a person to paste."""
    if syntax is Syntax.TOML:
        return "\n".join(toml_edit.table_text(each.path, each.value) for each in additions)
    value: dict[str, Any] = {}
    for each in additions:
        value = edits.merged(value, each)
    if syntax is Syntax.YAML:
        import yaml

        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=2**31).rstrip()
    return json.dumps(value, indent=2, ensure_ascii=False)
