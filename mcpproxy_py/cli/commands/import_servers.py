"""`mcpproxy import`: takes over the servers that clients have already, and says what it could not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group
from mcpproxy_py.cli.completion import client_names
from mcpproxy_py.cli.output import note, say

app = group("Take over the servers that your clients have.")


@command(app, "import")
def import_servers(
    session: CommandContext,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="CLIENT|FILE",
            help="A client such as cursor or claude-code, a file with servers in it, or - for stdin. Without it: every "
            "client that is found here.",
            autocompletion=client_names,
        ),
    ] = None,
    project: Annotated[
        Path | None,
        typer.Option("--project", metavar="DIR", help="The servers of this project, instead of the person's own."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="Only the server of this name; repeatable.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put a server in the place of one of ours that has its name.")
    ] = False,
    secrets: Annotated[
        str | None,
        typer.Option(
            "--secrets",
            metavar="keyring|file|keep",
            help="Where plain secrets go: the system's keyring, a private file for each, or into the configuration as "
            "they are. Asked for on a terminal. [default: keyring, or file where there is none]",
        ),
    ] = None,
    move: Annotated[bool, typer.Option("--move", help="Take the servers out of the client's file as well.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back the last import, and what --move took out.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    yes: Yes = False,
) -> int | None:
    """Take over the servers that your clients have.

    Shows what it will take, and how, before it asks. What cannot be carried over is said.

    For example: mcpproxy import cursor
    """
    from mcpproxy_py.cli.importing import run

    if secrets is not None and secrets not in run.STORES:
        raise typer.BadParameter(f"must be one of {', '.join(run.STORES)}", param_hint="--secrets")
    if undo:
        return _undo(session, run, yes)
    wanted = run.ImportWish(source, project, tuple(only or ()), replace, secrets, move)
    wanted.check()
    running = run.ImportRun(session, wanted)
    running.read()
    if not (dry_run or yes):
        running.ask_values()
    if session.human:
        show_plan(running)
    if dry_run or not running.has_work:
        return _said(session, running, None)
    running.choose_secret_store(yes)
    confirmed(running.question(), yes)
    running.carry_out()
    return _said(session, running, running.result())


def _undo(session: CommandContext, run: Any, yes: bool) -> int | None:
    undoing = run.UndoRun(session)
    confirmed(undoing.question(), yes)
    undone = undoing.carry_out()
    session.show(undone, lambda shown: say_undone(shown))
    return 1 if undone["left"] else None


def _said(session: CommandContext, running: Any, result: Mapping[str, Any] | None) -> int | None:
    if session.human:
        say_result(running, result)
    else:
        session.show({**running.plan_as_json(), "result": result}, lambda _: None)
    return 1 if result and result["failed"] else None


def show_plan(running: Any) -> None:
    """What was found and what becomes of it."""
    from mcpproxy_py.cli.importing.plan_shown import show_rows

    show_rows(running.rows, [str(path) for path in running.found.files])
    for problem in running.found.problems:
        note(f"Not read: {problem}")


def say_result(running: Any, result: Mapping[str, Any] | None) -> None:
    if result is None:
        if running.rows and not running.has_work:
            note("There is nothing to take.")
        return
    for name in result["taken"]:
        say(f"Took {name}.")
    for path, names in result["moved"].items():
        say(f"Took {_listed(names)} out of {path}.")
    for name, why in result["failed"].items():
        note(f"Not done: {name}: {why}")
    for text in result["notes"]:
        note(text)
    if result["taken"] or result["moved"]:
        note("To undo: mcpproxy import --undo")


def say_undone(undone: Mapping[str, Any]) -> None:
    for name in undone["removed"]:
        say(f"Removed {name}, which the import had added.")
    for name in undone["restored"]:
        say(f"Put back {name} as it was before the import.")
    for path in undone["files"]:
        say(f"Put back {path}, byte for byte.")
    for path in undone["refilled"]:
        say(f"Put the servers back into {path}, which was changed since and keeps its changes.")
    for name, why in undone["left"].items():
        note(f"Left: {name}: {why}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
