"""`mcpproxy upstream`: the servers behind the gateway. With none running, the configuration file is edited instead."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Final

import typer

from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group
from mcpproxy_py.cli.output import Format, note, say
from mcpproxy_py.cli.servers import add as upstream_add
from mcpproxy_py.cli.servers import login as upstream_login
from mcpproxy_py.cli.servers.changes import DryRun, described, edited, previewed, print_previewed, undo_line
from mcpproxy_py.cli.servers.entry import Name
from mcpproxy_py.cli.servers.settle import WAIT_SECONDS, NoWait, WaitFor, report
from mcpproxy_py.cli.servers.view import print_servers
from mcpproxy_py.errors import Code, GatewayError

app = group("The MCP servers behind the gateway.")

MAX_LOG_LINES: Final = 5000
POLL_SECONDS: Final = 1.0


@command(app, "list")
def list_upstreams(session: CommandContext) -> None:
    """Every upstream on one line: its state, its tools by class (r read, w write, d destructive, ? without hints), how
    its sessions are shared, and what is wrong.

    For example: mcpproxy upstream list
    """
    session.show(session.client.get("servers"), print_servers)


upstream_add.register(app)
upstream_login.register(app)


@command(app, "remove")
def remove(
    session: CommandContext,
    name: Name,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove an upstream, after a confirmation; without a terminal --yes is needed. Where no gateway runs, this mends
    the configuration file: what is wrong in the entry does not matter.

    For example: mcpproxy upstream remove time
    """
    if dry_run:
        session.show(previewed(session, "remove", name), print_previewed)
        return
    config = described(session, name)
    what = (config or {}).get("command") or (config or {}).get("url") or "no configuration known"
    confirmed(f"Remove the upstream {name} ({what})?", yes)
    answer = edited(session, name, lambda client: client.delete("servers", name), lambda file: file.drop_server(name))
    session.show(answer, lambda _: say(f"Removed {name}."))
    if config is not None:
        note(f"To undo: {undo_line(name, config)}")


@command(app, "enable")
def enable(session: CommandContext, name: Name, no_wait: NoWait = False, wait_for: WaitFor = WAIT_SECONDS) -> int:
    """Enable an upstream again, and wait until it is connected or has failed.

    For example: mcpproxy upstream enable time
    """
    return _switch(session, name, "enable", wait=not no_wait, seconds=wait_for)


@command(app, "disable")
def disable(session: CommandContext, name: Name) -> int:
    """Disable an upstream; it stays configured.

    For example: mcpproxy upstream disable time
    """
    return _switch(session, name, "disable", wait=False, seconds=0)


def _switch(session: CommandContext, name: str, verb: str, *, wait: bool, seconds: float) -> int:
    answer = edited(
        session,
        name,
        lambda client: client.post("servers", name, verb),
        lambda file: file.set_enabled(name, verb == "enable"),
    )
    return report(session, name, answer, f"{verb.capitalize()}d {name}.", wait=wait, seconds=seconds)


@command(app, "restart")
def restart(session: CommandContext, name: Name, no_wait: NoWait = False, wait_for: WaitFor = WAIT_SECONDS) -> int:
    """Stop an upstream and start it again, with its secrets read anew; wait until it is connected or has failed.

    For example: mcpproxy upstream restart time
    """
    answer = session.client.post("servers", name, "restart")
    return report(session, name, answer, f"Restarted {name}.", wait=not no_wait, seconds=wait_for)


@command(app, "logs")
def logs(
    session: CommandContext,
    name: Name,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=1, max=MAX_LOG_LINES, help="Number of lines, from the end.")
    ] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines, until Ctrl-C.")] = False,
) -> None:
    """What an upstream wrote to its stderr.

    For example: mcpproxy upstream logs time --follow
    """
    if not follow:
        answer = session.client.get("servers", name, "logs", lines=lines)
        session.show(answer, lambda shown: _print_lines(shown.get("lines", [])))
        return
    if session.format is Format.YAML:
        raise GatewayError(Code.BAD_REQUEST, "--follow prints lines; use it with -o table or json")
    emit = _print_lines if session.human else _print_json_lines
    for fresh in _fresh_lines(lambda: session.client.get("servers", name, "logs", lines=MAX_LOG_LINES)["lines"], lines):
        emit(fresh)


def _fresh_lines(read: Callable[[], list[str]], first: int) -> Iterator[list[str]]:
    """The last so many lines, then new ones, by comparing one tail of the log with the next: the log has no position to
    ask for."""
    seen = read()
    yield seen[-first:]
    while True:
        time.sleep(POLL_SECONDS)
        now = read()
        yield now[_overlap(seen, now) :]
        seen = now


def _overlap(before: list[str], after: list[str]) -> int:
    """How many lines at the start of `after` are the end of `before`."""
    longest = min(len(before), len(after))
    return next((size for size in range(longest, 0, -1) if before[-size:] == after[:size]), 0)


def _print_lines(lines: list[str]) -> None:
    if lines:
        say("\n".join(lines))
        sys.stdout.flush()


def _print_json_lines(lines: list[str]) -> None:
    import json

    for line in lines:
        print(json.dumps(line), flush=True)
