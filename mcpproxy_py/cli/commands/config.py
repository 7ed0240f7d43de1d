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
) -> int:
    """Check a configuration file and list all mistakes in it.

    For example: mcpproxy config validate
    """
    path = file or session.where.config_path()
    problems = _problems(session, path, chosen=bool(file or session.where.config))
    session.show({"file": str(path), "valid": not problems, "problems": problems}, _print_problems)
    return FACTS[Code.CONFIG_INVALID].exit if problems else EXIT_OK


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


def _problems(session: CommandContext, path: Path, *, chosen: bool) -> list[str]:
    from mcpproxy_py import settings

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if chosen:
            raise GatewayError(Code.NOT_FOUND, f"There is no file {path}") from None
        note(f"There is no file {path}; the defaults apply.")
        return []
    except (OSError, UnicodeDecodeError) as error:
        return [f"{path}: cannot be read: {error}"]
    return settings.validate_text(text, origin=str(path))


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
