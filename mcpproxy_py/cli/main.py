"""The command `mcpproxy`: the table of its commands, each loaded only when it is the one asked for."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from mcpproxy_py import __version__
from mcpproxy_py.cli.common import group, with_shared_options


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """Where a top-level command lives (`module:group`, below `cli/commands/`), and the line `mcpproxy --help` shows
    without importing it."""

    where: str
    help: str
    is_group: bool = False


COMMANDS: Final[dict[str, CommandEntry]] = {
    "serve": CommandEntry("gateway:serve_app", "Run the gateway in the foreground."),
    "stdio": CommandEntry("gateway:serve_app", "Speak MCP over stdin and stdout."),
    "connect": CommandEntry(
        "clients:app", "Connect a client to the gateway; without a name, list the clients of this machine."
    ),
    "disconnect": CommandEntry("clients:app", "Take the gateway out of a client again."),
    "status": CommandEntry("status:app", "State of the running gateway."),
    "ui": CommandEntry("page:app", "Open the page of the running gateway in a browser."),
    "stop": CommandEntry("process:app", "Stop the gateway, and wait until it has ended."),
    "restart": CommandEntry("process:app", "Restart the gateway in place."),
    "logs": CommandEntry("process:app", "The gateway's own log, or that of one upstream."),
    "service": CommandEntry("service:app", "The gateway as a service of yours, started at login.", is_group=True),
    "doctor": CommandEntry("doctor:app", "Find what is wrong, and say how to fix it."),
    "call": CommandEntry("tools:call_app", "Call a tool through the intent gate.", is_group=True),
    "tools": CommandEntry("policy.classify:tools_app", "The tools behind the gateway.", is_group=True),
    "explain": CommandEntry("tools:explain_app", "Show what the gate would decide, rung by rung."),
    "upstream": CommandEntry("upstream:app", "The MCP servers behind the gateway.", is_group=True),
    "import": CommandEntry("import_servers:app", "Take over the servers that your clients have."),
    "activity": CommandEntry("activity:app", "The record: what was called, by whom, and how it ended.", is_group=True),
    "approvals": CommandEntry(
        "policy.approvals:approvals_app",
        "What waits for you: calls, and servers that agents request; and your decisions.",
        is_group=True,
    ),
    "profiles": CommandEntry(
        "policy.profiles:app", "Profiles: what there is for one project or kind of work.", is_group=True
    ),
    "token": CommandEntry(
        "policy.tokens:app", "Tokens of agents: who may come in over MCP, and what each may do.", is_group=True
    ),
    "pins": CommandEntry(
        "policy.pins:app", "What servers listed when it was approved, and what they list now.", is_group=True
    ),
    "gaps": CommandEntry("policy.approvals:gaps_app", "Capabilities that agents did not find.", is_group=True),
    "catalog": CommandEntry("catalog:app", "Servers to add, and the data of the capability catalog.", is_group=True),
    "freeze": CommandEntry("gateway:gateway_app", "Refuse everything above read, at once."),
    "unfreeze": CommandEntry("gateway:gateway_app", "Lift a freeze."),
    "config": CommandEntry("config:app", "The configuration: shown, checked and changed.", is_group=True),
    "backup": CommandEntry("backup:app", "Save the data directory in one file."),
    "restore": CommandEntry("backup:app", "Put a backup in place of the data directory."),
    "version": CommandEntry("process:app", "The version of this program, and of the gateway that runs."),
    "key": CommandEntry("gateway:key_app", "The admin key, which opens the REST interface.", is_group=True),
}


SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Run it": ("serve", "stdio", "status", "ui", "stop", "restart", "logs", "service", "doctor"),
    "Connect": (
        "connect",
        "disconnect",
        "import",
        "token",
        "profiles",
        "upstream",
        "pins",
        "approvals",
        "gaps",
        "catalog",
    ),
    "Call": ("call", "tools", "explain", "freeze", "unfreeze"),
    "Look back": ("activity",),
    "Manage": ("config", "key", "backup", "restore", "version"),
}
"""In what order, and under what heading, `mcpproxy --help` lists the commands."""


class LazyRoot(TyperGroup):
    """Lists every command from the table above and imports only the one that is run.

    Loading all of them would triple what `mcpproxy --help` costs.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands.update({name: _placeholder(name, entry) for name, entry in COMMANDS.items()})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shown = {name: entry.help for name, entry in COMMANDS.items()}
        widest = max(map(len, shown))
        for title, names in {**SECTIONS, "More": tuple(shown)}.items():
            if rows := [(name.ljust(widest), shown.pop(name)) for name in names if name in shown]:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, loaded(name) if name in COMMANDS else command, rest


def _placeholder(name: str, entry: CommandEntry) -> TyperCommand:
    return TyperCommand(name, help=entry.help, rich_markup_mode=None)


def loaded(name: str) -> Any:
    """The real command or group of this name."""
    entry = COMMANDS[name]
    module, _, attribute = entry.where.partition(":")
    made = typer.main.get_group(getattr(importlib.import_module(f"mcpproxy_py.cli.commands.{module}"), attribute))
    command = made if entry.is_group else made.commands[name]
    command.name = name
    return command


HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
"""What every command below inherits. Wider lines are hard to read; where nobody watches there are 80 columns."""

COMPLETING: Final = "_MCPPROXY_COMPLETE"
"""The variable by which a shell asks for completions."""

app = group("One MCP endpoint for IDE agents, with an intent gate and a record of every call.", cls=LazyRoot,
            add_completion=True, context_settings=HELP)  # fmt: skip


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mcpproxy {__version__}")
        raise typer.Exit


@with_shared_options(app.callback())
def root(
    session: object,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """The shared options may stand before the command as well as after it."""


def main() -> None:
    """Entry point of the console script. Always ends by `SystemExit`."""
    # A lone surrogate in somebody's tool name must not become a traceback.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if COMPLETING in os.environ:
        from mcpproxy_py.cli import completion

        completion.complete(app)
    app(prog_name="mcpproxy")
