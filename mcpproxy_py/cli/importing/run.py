"""One import from beginning to end: read, plan, ask, put the secrets away, write ours, then the client's file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import typer

from mcpproxy_py.cli.clients.known import CLIENTS
from mcpproxy_py.cli.clients.places import Machine
from mcpproxy_py.cli.common import CommandContext
from mcpproxy_py.cli.importing.convert import ConvertedServer, converted
from mcpproxy_py.cli.importing.destination import ImportDestination
from mcpproxy_py.cli.importing.moving import restore_file, take_out_of_file
from mcpproxy_py.cli.importing.plain_secrets import with_references
from mcpproxy_py.cli.importing.plan import TAKEN, ImportRow, chosen, planned
from mcpproxy_py.cli.importing.reading import (
    ForeignServer,
    FoundServers,
    from_all,
    from_client,
    from_file,
    from_stdin,
    places_of,
    read_env_file,
)
from mcpproxy_py.cli.importing.secret_storage import (
    STORES,
    KeyringTrouble,
    SecretShelf,
    SecretStore,
    keyring_trouble,
    take_back,
)
from mcpproxy_py.cli.importing.undo import UndoneImport, last_record, new_record, undo_servers
from mcpproxy_py.cli.importing.variables import AskedFor, ImportPlace
from mcpproxy_py.cli.output import cell, clean, note
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings.data_dir import ensure_data_dir

__all__ = ["STORES", "ImportRun", "ImportWish", "UndoRun"]
_WHERE: Final = {
    "keyring": "to the system's keyring",
    "file": "to a private file for each",
    "keep": "into the configuration file, as they are",
}
_CHOICES: Final = {
    "keyring": "put them into the keyring",
    "file": "into a private file each",
    "keep": "keep them as they are in the configuration",
}


@dataclass(frozen=True, slots=True)
class ImportWish:
    """What a person asked for."""

    source: str | None
    project: Path | None
    only: tuple[str, ...]
    replace: bool
    secrets: str | None
    move: bool

    def check(self) -> None:
        if self.project is not None and not self.project.is_dir():
            raise typer.BadParameter(f"there is no directory {self.project}", param_hint="--project")
        if self.move and self.source == "-":
            raise typer.BadParameter("what came on stdin cannot be taken out of anything", param_hint="--move")


class ImportRun:
    """What was found, what will be done with it, and how it went."""

    def __init__(self, session: CommandContext, wish: ImportWish) -> None:
        self._session = session
        self._wish = wish
        self._project = wish.project.resolve() if wish.project else None
        self._machine = Machine.this()
        self._answers: dict[str, str] = {}
        self._store: SecretStore = "keep"
        self._moved: dict[str, list[str]] = {}
        self._failed: dict[str, str] = {}
        self._taken: list[str] = []
        self._notes: list[str] = []
        self.found = FoundServers()
        self.rows: list[ImportRow] = []

    # --- reading and planning ---

    def read(self) -> None:
        self.found = self._read()
        servers, unknown = chosen(self.found.servers, self._wish.only)
        if unknown:
            known = ", ".join(sorted({server.name for server in self.found.servers})) or "none"
            names = ", ".join(unknown)
            raise typer.BadParameter(clean(f"no server is called {names}; found: {known}"), param_hint="--only")
        self.found.servers = servers
        self._destination = ImportDestination(self._session)
        self._plan()

    def _read(self) -> FoundServers:
        source = self._wish.source
        if source is None:
            return from_all(self._machine, self._project)
        if source == "-":
            return from_stdin(self._project)
        if source in CLIENTS:
            found = from_client(CLIENTS[source], self._machine, self._project)
            if not found.files:
                title, where = CLIENTS[source].title, f" in {self._project}" if self._project else ""
                looked = ", ".join(places_of(CLIENTS[source], self._machine, self._project)) or "nowhere"
                remedy = f"Looked at: {looked}. A file elsewhere can be named itself: mcpproxy import FILE"
                message = f"{title} has no file with servers{where or ' here'}"
                raise GatewayError(Code.NOT_FOUND, message, details={"remedy": remedy})
            return found
        return from_file(Path(source), self._machine, self._project)

    def _plan(self) -> None:
        made = [(server, self._converted(server)) for server in self.found.servers]
        self._asked = {asked.name: (server, asked) for server, one in made for asked in one.asks}
        rows = planned(made, self._destination.present(), replacing=self._wish.replace)
        self.rows = [_moved(row) if self._wish.move and row.here else row for row in rows]

    def _converted(self, server: ForeignServer) -> ConvertedServer:
        base = server.path.parent if server.path.is_absolute() else Path.cwd()
        home = str(self._machine.home) if self._machine.home else ""
        project = str(server.project) if server.project else None
        read = read_env_file(server.project or base)
        place = ImportPlace(home, os.environ, str(base), project, self._answers, read)
        return converted(server.client, server.name, server.raw, place, server.inputs)

    def ask_values(self) -> None:
        """What a client would ask for when it starts a server: inputs of VS Code, keys that Goose keeps."""
        if not self._asked or not sys.stdin.isatty():
            return
        note("Some servers need values that their client asks for, or keeps. Without one, press Enter.")
        for server, asked in self._asked.values():
            answer = _asked(server, asked)
            if answer:
                self._answers[asked.name] = answer
        self._plan()

    @property
    def _to_take(self) -> list[ImportRow]:
        return [row for row in self.rows if row.action in TAKEN]

    @property
    def _to_move(self) -> list[ImportRow]:
        return [row for row in self.rows if row.here] if self._wish.move else []

    @property
    def has_work(self) -> bool:
        return bool(self._to_take or self._to_move)

    def plan_as_json(self) -> dict[str, Any]:
        return {
            "servers": [row.as_json() for row in self.rows],
            "files": [str(path) for path in self.found.files],
            "problems": self.found.problems,
        }

    # --- questions ---

    def choose_secret_store(self, yes: bool) -> None:
        count = sum(len(row.secrets) for row in self._to_take)
        if not count:
            return
        trouble = keyring_trouble() if self._wish.secrets in (None, "keyring") else ""
        if trouble and self._wish.secrets == "keyring":
            raise _no_keyring(trouble)
        usual = "file" if trouble else "keyring"
        if trouble:
            note(f"No keyring for secrets: {trouble}.")
        said = self._wish.secrets
        if said is None and not yes and sys.stdin.isatty():
            ways = {store: says for store, says in _CHOICES.items() if not (trouble and store == "keyring")}
            said = _choice(f"{_secrets(count)}: {', or '.join(ways.values())}?", tuple(ways), usual)
        self._store = cast("SecretStore", said or usual)
        note(f"{_secrets(count)}: {_WHERE[self._store]}.")

    def question(self) -> str:
        parts: list[str] = []
        if self._to_take:
            where = "the running gateway" if self._destination.is_running else str(self._destination.path)
            count = len(self._to_take)
            parts.append(f"Take {count} server{'s' if count > 1 else ''} into {where}")
        if self._to_move:
            files = {str(row.server.path) for row in self._to_move}
            what = (
                ("it" if len(self._to_move) == 1 else "them")
                if parts
                else ", ".join(row.server.name for row in self._to_move)
            )
            parts.append(f"{'and take' if parts else 'Take'} {what} out of {', '.join(sorted(files))}")
        return clean(" ".join(parts) + "?")

    # --- doing it ---

    def carry_out(self) -> None:
        ensure_data_dir(self._destination.home)
        self._record = new_record(self._destination.home, self._destination.path)
        shelf = SecretShelf(self._store, self._destination.home)
        entries = self._with_secrets_put_away(shelf)
        before = self._destination.written()
        for row in self._to_take:
            old = before.get(row.name) if row.action == "replace" else None
            if row.action == "replace" and old is None:
                self._notes.append(f"what {row.name} was before cannot be put back by --undo")
            if row.name in entries:
                self._record.took(row.name, entries[row.name], old)
        self._record.secrets = shelf.put
        try:
            self._record.save()
            self._write(entries)
        except GatewayError:
            take_back(shelf.put, self._destination.home)
            self._record.forget()
            raise
        self._forget_what_failed(entries)
        self._move()
        if self._taken or self._moved:
            self._record.save()
        else:
            self._record.forget()
        self._say_next()

    def _with_secrets_put_away(self, shelf: SecretShelf) -> dict[str, Mapping[str, Any]]:
        entries: dict[str, Mapping[str, Any]] = {}
        self._put_for: dict[str, list[dict[str, str]]] = {}
        for row in self._to_take:
            assert row.config is not None
            known = len(shelf.put)
            try:
                entries[row.name] = row.config if shelf.store == "keep" else _put_away(row, shelf)
            except KeyringTrouble as why:
                if self._wish.secrets == "keyring" or shelf.put:
                    take_back(shelf.put, self._destination.home)
                    raise _no_keyring(str(why)) from None
                note(f"The secrets cannot go to the keyring: {why}. They go to a private file each.")
                shelf.store = "file"
                entries[row.name] = _put_away(row, shelf)
            except GatewayError:
                take_back(shelf.put, self._destination.home)
                raise
            self._put_for[row.name] = shelf.put[known:]
        return entries

    def _write(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        if not entries:
            return
        replaced = frozenset(row.name for row in self._to_take if row.action == "replace")
        self._failed = self._destination.change(entries, replaced)
        self._taken = [name for name in entries if name not in self._failed]

    def _forget_what_failed(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        for name in self._failed:
            take_back(self._put_for.get(name, []), self._destination.home)
            self._record.servers.pop(name, None)
        kept = [each for name in entries if name not in self._failed for each in self._put_for.get(name, [])]
        self._record.secrets = kept

    def _move(self) -> None:
        """Only what the gateway has now, and one file after the other."""
        removals: dict[Path, list[ImportRow]] = {}
        for row in self._to_move:
            if row.name not in self._failed:
                removals.setdefault(row.server.path, []).append(row)
        for path, rows in removals.items():
            entries = {row.server.keys: row.server.raw for row in rows}
            remember = partial(self._record.keep, path)
            try:
                moved = take_out_of_file(path, rows[0].server.syntax, entries, remember)
            except GatewayError as error:
                self._failed[str(path)] = f"the servers are taken, and still in this file: {error.message}"
                continue
            if moved:
                self._moved[str(path)] = [row.server.name for row in rows]

    def _say_next(self) -> None:
        if self._taken and not self._destination.is_running:
            self._notes.append(
                f"No gateway is running, so {self._destination.path} was changed; it applies when one starts."
            )
        elif self._taken:
            self._notes.append("`mcpproxy upstream list` shows how they connect.")
        connected = {row.server.path for row in self.rows if row.itself}
        for path in self._moved:
            client = next(row.server.client for row in self.rows if str(row.server.path) == path)
            if Path(path) not in connected and client in CLIENTS:
                self._notes.append(f"{CLIENTS[client].title} has no way to the gateway yet: mcpproxy connect {client}")

    def result(self) -> dict[str, Any]:
        return {
            "taken": self._taken,
            "failed": self._failed,
            "moved": self._moved,
            "secrets": self._store if self._record.secrets else None,
            "notes": self._notes,
            "undo": "mcpproxy import --undo" if self._taken or self._moved else None,
        }


def _moved(row: ImportRow) -> ImportRow:
    return replace(row, notes=(*row.notes, f"it is taken out of {row.server.path}"))


def _put_away(row: ImportRow, shelf: SecretShelf) -> dict[str, Any]:
    references = {each.place: shelf.reference(f"{row.name}.{each.label}", each.value) for each in row.secrets}
    return with_references(row.config or {}, references, row.secrets)


def _secrets(count: int) -> str:
    return f"{count} plain secret{'s' if count > 1 else ''}"


def _no_keyring(why: str) -> GatewayError:
    remedy = "Use --secrets file for a private file each, or --secrets keep. Nothing was changed."
    return GatewayError(Code.CONFLICT, f"The secrets cannot go to the keyring: {why}", details={"remedy": remedy})


def _asked(server: ForeignServer, asked: AskedFor) -> str:
    about = cell(f"{server.name} ({server.origin}): {asked.name}" + (f", {asked.about}" if asked.about else ""))
    if asked.choices:
        about = f"{about} ({', '.join(map(clean, asked.choices))})"
    usual = asked.default if asked.default is not None else ""
    return typer.prompt(
        about, default=usual, hide_input=asked.secret, show_default=bool(usual) and not asked.secret, err=True
    )


def _choice(question: str, answers: tuple[str, ...], usual: str) -> str:
    while True:
        said = typer.prompt(f"{question} [{'/'.join(answers)}]", default=usual, err=True).strip().lower()
        if said in answers:
            return said
        note(f"Answer one of {', '.join(answers)}.")


class UndoRun:
    """Taking back the last import."""

    def __init__(self, session: CommandContext) -> None:
        self._destination = ImportDestination(session)
        self._record = last_record(self._destination.home)
        if self._record.config != str(self._destination.path):
            raise GatewayError(
                Code.CONFLICT,
                f"The last import went to {self._record.config}, not to {self._destination.path}",
                details={"remedy": f"mcpproxy import --undo --config {self._record.config}"},
            )

    def question(self) -> str:
        names = ", ".join(self._record.servers)
        files = ", ".join(each.path for each in self._record.moved)
        parts = [f"take back {names}" if names else "", f"put the servers back into {files}" if files else ""]
        question = " and ".join(part for part in parts if part)
        return clean(f"{question[:1].upper()}{question[1:]}?")

    def carry_out(self) -> dict[str, Any]:
        """The clients' files first: a server that is in two places does no harm, one in none is lost."""
        undone = UndoneImport()
        left = [moved for moved in self._record.moved if not restore_file(moved, undone)]
        self._record.moved = left
        undo_servers(self._record, self._destination, undone)
        if undone.left:
            for name in (*undone.removed, *undone.restored):
                self._record.servers.pop(name, None)
            self._record.save()
        else:
            self._record.forget()
        return {
            "removed": undone.removed,
            "restored": undone.restored,
            "files": undone.files,
            "refilled": undone.refilled,
            "left": undone.left,
        }
