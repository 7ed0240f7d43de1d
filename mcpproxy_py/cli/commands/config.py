"""`mcpproxy config`: the configuration as it stands in the file and the environment. Needs no gateway.

`get`, `set`, `unset` and `edit` change the file as a careful person would: a running gateway watches it, and nothing is
written that could not be used.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli.common import CommandContext, command, group
from mcpproxy_py.cli.completion import setting_keys
from mcpproxy_py.cli.output import clean, flat, note, pretty, say, table
from mcpproxy_py.cli.servers import validation
from mcpproxy_py.errors import EXIT_OK, FACTS, Code, GatewayError

app = group("The configuration: shown, checked and changed.")

Key = Annotated[
    str,
    typer.Argument(metavar="KEY", help="Such as log.level, or mcpServers.git.timeout.", autocompletion=setting_keys),
]
EDITORS: Final = ("VISUAL", "EDITOR")
ANY_EDITOR: Final = "vi"


@command(app, "show")
def show(session: CommandContext) -> None:
    """Every setting as it applies now, secrets masked, and where it came from.

    For example: mcpproxy config show -o yaml
    """
    from mcpproxy_py import settings

    loaded = session.where.loaded()
    _warn(loaded.warnings)
    session.show(settings.shown(loaded.settings), lambda shown: _print_settings(shown, loaded.sources))


@command(app, "validate")
def validate(
    session: CommandContext,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A file other than the configured one.")] = None,
    without_secrets: Annotated[
        bool, typer.Option("--without-secrets", help="Only the file: its secrets need not be on this machine.")
    ] = False,
) -> int:
    """Check what `mcpproxy serve` would: the configuration file and who can write it, the environment, secrets, the
    data directory, and whether commands are found. Lists all mistakes. If a gateway runs, also names in its lists that
    match no tool.

    For example: mcpproxy config validate
    """
    path = file or session.where.config_path()
    if not path.exists():
        if file or session.where.config:
            raise GatewayError(Code.NOT_FOUND, f"There is no file {path}")
        note(f"There is no file {path}; the defaults apply.")
    found = _of_file(path) if without_secrets else validation.of_start(session, path if path.exists() else None)
    running = [] if file or without_secrets else validation.of_running(session)
    answer = {
        "file": str(path), "exists": path.exists(), "valid": not found.problems, "problems": found.problems,
        "warnings": [*found.warnings, *running],
    }  # fmt: skip
    session.show(answer, _print_problems)
    return FACTS[Code.CONFIG_INVALID].exit if found.problems else EXIT_OK


@command(app, "schema")
def schema(session: CommandContext) -> None:
    """The JSON Schema of the configuration file, for an editor.

    For example: mcpproxy config schema
    """
    from mcpproxy_py import settings

    session.show(settings.json_schema(), lambda made: print(pretty(made)))


@command(app, "path")
def path(session: CommandContext) -> None:
    """Where the configuration file is, or would be.

    For example: mcpproxy config path
    """
    found = session.where.config_path()
    session.show({"path": str(found), "exists": found.exists()}, lambda shown: say(shown["path"]))


def _of_file(path: Path) -> validation.Validation:
    from mcpproxy_py import settings

    try:
        text = path.read_text(encoding="utf-8") if path.exists() else "{}"
    except (OSError, UnicodeDecodeError) as error:
        return validation.Validation([f"{path}: cannot be read: {error}"])
    return validation.Validation(settings.validate_text(text, origin=str(path)))


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        note(f"Warning: {warning}")


def _print_settings(shown: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    rows = [[key, value, sources.get(key, "default")] for key, value in flat(shown)]
    table(("setting", "value", "from"), rows, empty="No settings.")


def _print_problems(answer: Mapping[str, Any]) -> None:
    if answer["valid"]:
        say(f"{answer['file']} is valid." if answer["exists"] else "Nothing is wrong.")
    for problem in answer["problems"]:
        note(problem)
    for warning in answer["warnings"]:
        note(f"Warning: {warning}")


@command(app, "get")
def get(session: CommandContext, key: Key) -> None:
    """One setting as it applies now: of a variable, the file, or the default. Secrets are masked.

    For example: mcpproxy config get log.level
    """
    from mcpproxy_py import settings

    path = _path(key)
    loaded = session.where.loaded()
    value: Any = settings.shown(loaded.settings)
    for step in path:
        if not isinstance(value, dict) or step not in value:
            raise _unknown(path)
        value = value[step]
    source = loaded.sources.get(".".join(path))
    session.show({"key": key, "value": value, "from": source}, lambda shown: _print_value(shown["value"]))


def _print_value(value: Any) -> None:
    say(value) if isinstance(value, str) else print(pretty(value))


@command(app, "set")
def set_value(
    session: CommandContext,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Text, or JSON where no text is meant; - reads stdin.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would change, by the running gateway, and write nothing.")
    ] = False,
) -> None:
    """Set one key in the configuration file. All else in it stays, comments and order too.

    Says what the change permits that was refused before, and what waits for a restart. A list of texts may be written
    with commas. For a secret write a reference such as ${env:NAME}, or give - and type it into stdin, so that it is not
    in the history of your shell. Of a gateway that is named by its address, the settings are changed over REST: not
    those that say who may reach it.

    For example: mcpproxy config set log.level debug
    """
    from mcpproxy_py.settings.document import put_at

    path = _path(key)
    text = sys.stdin.read().rstrip("\n") if value == "-" else value
    wanted = _decoded(path, text)
    if session.where.is_named or dry_run:
        _over_rest(session, path, wanted, dry_run)
        return

    def put(document: dict[str, Any]) -> None:
        try:
            put_at(document, path, wanted)
        except ValueError as error:
            raise GatewayError(Code.BAD_REQUEST, str(error)) from None

    _changed(session, path, _file(session).change(put), "Set")


def _over_rest(session: CommandContext, path: tuple[str, ...], value: Any, dry_run: bool) -> None:
    """By the running gateway: the same checks, and on its record."""
    key = ".".join(path)
    where = ("preview", "settings") if dry_run else ("settings",)
    effect = session.client.post(*where, body={"settings": {key: value}})
    answer = {"changed": not dry_run, **{each: effect[each] for each in ("looser", "tighter", "after_restart")}}
    if dry_run:
        session.show(answer, lambda shown: _print_effect(shown, f"{key} was not changed."))
    else:
        session.show(answer, lambda shown: _print_effect(shown, f"Set {key}."))


@command(app, "unset")
def unset(session: CommandContext, key: Key) -> None:
    """Take one key out of the configuration file, so that its default applies again.

    The file as it was before is kept beside it, as .bak.

    For example: mcpproxy config unset log.level
    """
    from mcpproxy_py.settings.document import take_from

    path = _path(key)
    if session.where.is_named:
        _over_rest(session, path, None, dry_run=False)
        return
    file = _file(session)

    def take(document: dict[str, Any]) -> None:
        try:
            take_from(document, path)
        except KeyError:
            raise GatewayError(Code.NOT_FOUND, f"{key} is not set in {file.path}") from None

    _changed(session, path, file.change(take), "Unset")


@command(app, "edit")
def edit(session: CommandContext) -> int:
    """Open the configuration file in your editor ($VISUAL or $EDITOR), and write it once it can be used.

    With a mistake in it you are asked whether to go on editing. What you typed is never lost: what is not written is
    kept in a file beside it.

    For example: mcpproxy config edit
    """
    from mcpproxy_py import settings

    file = _file(session)
    before = _read(file.path)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-") as private:
        draft = Path(private) / file.path.name
        draft.write_text("{\n}\n" if before is None else before, encoding="utf-8")
        draft.chmod(0o600)
        while True:
            status, typed = _run_editor(draft), _typed(draft)
            if status and typed != before:
                _keep(file.path, typed)
            if status:
                raise GatewayError(
                    Code.BAD_REQUEST,
                    f"The editor ended with status {status}, so nothing was written",
                    details={"remedy": "Where that was not meant, set $EDITOR to one that works here."},
                )
            if typed == before:
                note("Nothing was changed.")
                return EXIT_OK
            problems = settings.validate_text(typed, origin=str(file.path))
            if not problems:
                break
            for problem in problems:
                note(problem)
            if not (sys.stdin.isatty() and typer.confirm("Edit it again?", default=True, err=True)):
                _keep(file.path, typed)
                return FACTS[Code.CONFIG_INVALID].exit

        def replaced(now: str | None) -> str:
            if now != before:
                raise GatewayError(Code.CONFLICT, f"{file.path} was changed by somebody else meanwhile",
                                   details={"remedy": "Put your changes into it by hand."})  # fmt: skip
            return typed

        try:
            change = file.replace(replaced)
        except GatewayError:
            _keep(file.path, typed)
            raise
    _changed(session, (), change, "Wrote")
    return EXIT_OK


def _run_editor(draft: Path) -> int:
    editor = next((said for name in EDITORS if (said := os.environ.get(name, "").strip())), ANY_EDITOR)
    try:
        return subprocess.run([*shlex.split(editor), str(draft)], check=False).returncode
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise GatewayError(
            Code.BAD_REQUEST, f"The editor {editor!r} cannot be run: {why}", details={"remedy": "Set $EDITOR."}
        ) from None


def _typed(draft: Path) -> str:
    try:
        return draft.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise GatewayError(
            Code.BAD_REQUEST, "What the editor wrote is not text in UTF-8; nothing was written"
        ) from None


def _keep(path: Path, typed: str) -> None:
    from mcpproxy_py.files import write_private

    kept = path.with_name(f"{path.name}.edited")
    write_private(kept, typed)
    note(f"Not written. What you typed is in {kept}")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise GatewayError(Code.CONFIG_INVALID, f"{path} cannot be read: {error}") from None


def _file(session: CommandContext) -> Any:
    from mcpproxy_py import settings

    if session.where.is_named:
        raise GatewayError(Code.BAD_REQUEST, "The configuration is a file on this machine; name it with --config")
    settings.ensure_data_dir(session.where.home())
    return settings.ConfigFile(session.where.config_path())


def _path(key: str) -> tuple[str, ...]:
    from mcpproxy_py.settings.document import key_path

    try:
        return key_path(key)
    except ValueError as error:
        raise typer.BadParameter(f"expected {error}", param_hint="KEY") from None


def _decoded(path: tuple[str, ...], text: str) -> Any:
    """As the type of the key wants it, like a variable of the environment."""
    from mcpproxy_py.settings.environment import decode, type_at

    wanted = type_at(path)
    if wanted is None:
        raise _unknown(path)
    value, problems = decode(text, wanted)
    if problems:
        raise typer.BadParameter(problems[0].text, param_hint="VALUE")
    return value


def _unknown(path: tuple[str, ...]) -> GatewayError:
    """With the nearest key there is. What is a name, of a server say, has none."""
    from mcpproxy_py.settings.environment import type_at
    from mcpproxy_py.settings.problems import dotted, unknown_key

    for length in range(1, len(path) + 1):
        if type_at(path[:length]) is None:
            return GatewayError(Code.NOT_FOUND, f"{dotted(path[:length])} {unknown_key(path[:length]).text}")
    return GatewayError(Code.NOT_FOUND, f"{dotted(path)} is not set")


def _changed(session: CommandContext, path: tuple[str, ...], change: Any, verb: str) -> None:
    """Says what came of it: what is looser or tighter now, and what has to wait for a restart."""
    answer: dict[str, Any] = {"changed": change.before != change.after, "file": str(session.where.config_path()),
                              **change.says()}  # fmt: skip
    session.show(answer, lambda shown: _print_changed(shown, ".".join(path), verb))


def _print_changed(answer: Mapping[str, Any], key: str, verb: str) -> None:
    if not answer["changed"]:
        say("Nothing changed.")
        return
    _print_effect(answer, f"{verb} {key}." if key else f"{verb} {answer['file']}.")
    with suppress(KeyError):
        if variable := _overriding(key):
            note(f"The variable {variable} is set, and stronger than the file.")


def _print_effect(answer: Mapping[str, Any], done: str) -> None:
    say(done)
    for direction in ("looser", "tighter"):
        for sentence in answer[direction]:
            note(f"{direction.capitalize()}: {clean(sentence)}")
    if answer["after_restart"]:
        note(f"At the next start: {', '.join(answer['after_restart'])}. To start again now: mcpproxy restart")


def _overriding(key: str) -> str | None:
    from mcpproxy_py.settings.environment import variable_for

    name = variable_for(key) if key else ""
    return name if name in os.environ else None
