"""`mcpproxy config`: the configuration as it stands in the file and the environment. Needs no gateway.

What changes it is in `config_edit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mcpproxy_py.cli.commands import config_edit
from mcpproxy_py.cli.common import CommandContext, command, group
from mcpproxy_py.cli.output import flat, note, pretty, say, table
from mcpproxy_py.cli.servers import validation
from mcpproxy_py.errors import EXIT_OK, FACTS, Code, GatewayError

app = group("The configuration: shown, checked and changed.")


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
        "file": str(path), "valid": not found.problems, "problems": found.problems,
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


config_edit.register(app)


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
        say(f"{answer['file']} is valid.")
    for problem in answer["problems"]:
        note(problem)
    for warning in answer["warnings"]:
        note(f"Warning: {warning}")
