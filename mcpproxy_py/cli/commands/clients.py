"""`mcpproxy connect` and `mcpproxy disconnect`: the gateway put into the settings of a client, and taken out again."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli.clients import connections, diff, documents, entries, launch, plan, states, tokens
from mcpproxy_py.cli.clients.connections import ClientConnection
from mcpproxy_py.cli.clients.entries import Launch
from mcpproxy_py.cli.clients.known import CLIENTS, KnownClient
from mcpproxy_py.cli.clients.places import Machine, servers_file
from mcpproxy_py.cli.clients.plan import FilePlan, Target
from mcpproxy_py.cli.clients.tokens import ClientToken
from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group
from mcpproxy_py.cli.completion import client_names, profile_names
from mcpproxy_py.cli.output import clean, note, say, table
from mcpproxy_py.errors import Code, GatewayError

app = group("Connect the clients that agents live in.")

ONE_OF: Final = f"One of {', '.join(CLIENTS)}."
Client = Annotated[str | None, typer.Argument(metavar="CLIENT", help=ONE_OF, autocompletion=client_names)]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="What the entry is called in the client.")]
Project = Annotated[
    Path | None,
    typer.Option("--project", metavar="DIR", help="Write the file of this project instead (`.` for this one)."),
]
Print = Annotated[bool, typer.Option("--print", help="Only show what would change.")]
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@command(app, "connect")
def connect(
    session: CommandContext,
    client: Client = None,
    stdio: Annotated[bool, typer.Option("--stdio", help="Have the client start `mcpproxy stdio`.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Have the client call the gateway's address.")] = False,
    project: Project = None,
    name: Name = "mcpproxy",
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Make no agent token for this client: over stdio it is you, then.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="NAME", help="Show it only what is in this profile.", autocompletion=profile_names
        ),
    ] = None,
    rules: Annotated[
        bool | None,
        typer.Option("--rules/--no-rules", help="Let reads run without asking, and writes and deletions ask, or not."),
    ] = None,
    only_print: Print = False,
    yes: Yes = False,
) -> None:
    """Connect a client to the gateway; without a name, list the clients of this machine.

    Shows what would change in the client's own file, asks, keeps a copy, and writes. `disconnect` puts everything back.
    While the gateway runs, the client gets an agent token of its own, so that the record says which one it was.

    For example: mcpproxy connect claude-code
    """
    if client is None:
        _list(session)
        return
    if stdio and http:
        raise typer.BadParameter("choose one of --stdio and --http", param_hint="--stdio")
    target = _target(client, name, project)
    way = _launch(session, target.client, "stdio" if stdio else "http" if http else None, profile)
    home = launch.data_dir(session.where)
    own = None if no_token else _own_token(session, home, target, way)
    if own is not None and way.way == "stdio":
        way = launch.by_stdio(session.where, own.file, profile)
    kept = connections.kept(home, target.client.name, name, target.servers_file)
    servers = _servers(target)
    if rules is not True and _is_connected(target, way, servers):
        _show(session, target, way, [], "already connected")
        return
    with_rules = target.has_rules() and _wants_rules(target, rules, yes or only_print)
    plans = plan.connecting(target, way, kept, with_rules=with_rules)
    changing = [each for each in plans if each.changes]
    if not changing:
        _show(session, target, way, [], "already connected")
        return
    _show_changes(session, changing, target.machine.home)
    makes_token = own is None and way.way == "http" and launch.lacks_token(session.where)
    if makes_token and session.human:
        note(f"This gateway needs an agent token and has none: one will be made in {home / launch.TOKEN_FILE}.")
    if own is not None and not own.is_there and session.human:
        note(f"The agent token {own.name} will be made for it, in {diff.shown_path(own.file, target.machine.home)}.")
    if only_print:
        _show(session, target, way, changing, "would be connected")
        return
    taken = kept is None and name in servers
    question = f"{target.client.title} has another entry {name} already. Replace it?" if taken else "Write this?"
    confirmed(question, yes)
    token = launch.make_token(session.where) if makes_token else None if own is None else own.file
    with _made(session, home, own):
        _carry_out(home, plan.connection(target, way, plans), kept, plans)
    _show(session, target, way, changing, "connected")
    if session.human:
        _say_next(session, target, way, token, with_rules)
        if makes_token:
            say("  A gateway that is running asks for the new token after a restart.")
        if own is None and not no_token and way.way == "stdio":
            say("  It has no token of its own, since no gateway runs that could make one: it is you in the record.")


@command(app, "disconnect")
def disconnect(
    session: CommandContext,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help=ONE_OF, autocompletion=client_names)],
    project: Project = None,
    name: Name = "mcpproxy",
    only_print: Print = False,
    yes: Yes = False,
) -> None:
    """Take the gateway out of a client again.

    Files that nothing else changed since `connect` are put back byte for byte. From others only our entry and rules go.

    For example: mcpproxy disconnect claude-code
    """
    target = _target(client, name, project)
    home = launch.data_dir(session.where)
    kept = connections.kept(home, target.client.name, name, target.servers_file)
    plans = plan.disconnecting(kept) if kept else _by_hand(target)
    changing = [each for each in plans if each.changes]
    _show_changes(session, changing, target.machine.home)
    state = "disconnected" if changing else "not connected"
    if changing and not only_print:
        confirmed("Write this?", yes)
        plan.carry_out(changing)
    if kept and not only_print:
        connections.forget(home, kept)
    if not only_print and (own := tokens.token_of(home, target)).file.exists() and not _revoked(session, own):
        note(f"The token {own.name} could not be revoked now; do it later: mcpproxy token revoke {own.name}")
    answer = {"client": target.client.name, "state": f"would be {state}" if only_print and changing else state,
              "files": [] if session.human else [_outcome(each) for each in changing]}  # fmt: skip
    session.show(answer, lambda _: None if only_print and changing else _say_disconnected(target, changing))


def _own_token(session: CommandContext, home: Path, target: Target, way: Launch) -> ClientToken | None:
    """Over HTTP only where a token is needed: an entry refers to it by a variable, and where that is not set, what a
    client sends is no token, and would be turned away."""
    if way.way == "http" and not way.needs_token:
        return None
    return tokens.wanted(session, home, target)


@contextmanager
def _made(session: CommandContext, home: Path, own: ClientToken | None) -> Iterator[None]:
    """It is there when the client's file names it; where that could not be written, it is revoked."""
    if own is None or own.is_there:
        yield
        return
    tokens.make(session, home, own)
    try:
        yield
    except BaseException:
        tokens.revoke(session, own)
        raise


def _revoked(session: CommandContext, own: ClientToken) -> bool:
    return not session.where.is_named and tokens.revoke(session, own)


def _list(session: CommandContext) -> None:
    machine, ours = Machine.this(), launch.all_ways(session.where)
    found = [states.state_of(each, machine, ours) for each in CLIENTS.values()]
    answer = {"clients": [each.as_json() for each in found]}
    session.show(answer, lambda _: _print_states(found, machine.home))


def _print_states(found: list[states.ClientState], home: Path | None) -> None:
    here = [each for each in found if each.state != "not found"]
    rows = [(each.name, each.state, each.way, diff.shown_path(Path(each.file), home) if each.file else None)
            for each in here]  # fmt: skip
    table(("client", "state", "over", "file"), rows, empty="None of the known clients was found on this machine.")
    for each in here:
        if each.problem:
            note(each.problem)
    missing = [each.name for each in found if each.state == "not found"]
    if missing:
        note(f"Not found: {', '.join(missing)}")
    waiting = [each.name for each in here if each.state == "found"]
    if waiting:
        note(f"Connect one: mcpproxy connect {waiting[0]}")


def _target(client: str, name: str, project: Path | None) -> Target:
    known = CLIENTS.get(client.lower())
    if known is None:
        close = difflib.get_close_matches(client.lower(), CLIENTS, 1, 0.5)
        hint = f"; did you mean {close[0]}?" if close else f"; one of {', '.join(CLIENTS)}"
        raise typer.BadParameter(f"no client is called '{clean(client)}'{hint}", param_hint="CLIENT")
    if not name or len(name) > 48 or not _NAME_CHARACTERS.issuperset(name):
        raise typer.BadParameter("letters, digits, - and _ only, at most 48 of them", param_hint="--name")
    root = Path(os.path.abspath(project.expanduser())) if project is not None else None
    if root is not None and not root.is_dir():
        raise typer.BadParameter(f"{root} is not a folder", param_hint="--project")
    machine = Machine.this()
    file = servers_file(known, machine, root)
    if file is None:
        raise typer.BadParameter(f"{known.title} has no file of a project", param_hint="--project")
    return Target(known, name, file, root, machine)


def _launch(session: CommandContext, client: KnownClient, said: str | None, profile: str | None) -> Launch:
    if profile is not None:
        launch.check_profile(session.where, profile)
    way = said or ("http" if session.where.is_named and client.http else "stdio")
    if way == "stdio":
        if session.where.is_named:
            raise typer.BadParameter(
                "--stdio starts the gateway itself; give --data-dir instead", param_hint="--listen"
            )
        return launch.by_stdio(session.where, profile=profile)
    if client.http is None:
        raise typer.BadParameter(f"{client.title} starts commands only; use --stdio", param_hint="--http")
    made = launch.by_http(session.where, profile)
    if made.needs_token and not entries.can_send_token(client):
        remedy = "Use --stdio, which needs no token."
        message = f"{client.title} cannot refer to a token, and none is written into its file"
        raise GatewayError(Code.CONFLICT, message, details={"remedy": remedy})
    return made


def _servers(target: Target) -> dict[str, Any]:
    """The entries that the client has, by name."""
    data = documents.load(target.servers_file, target.client.syntax).data
    found = documents.at(data, target.client.servers)
    return found if isinstance(found, dict) else {}


def _is_connected(target: Target, way: Launch, servers: dict[str, Any]) -> bool:
    """Whether the entry says just this already, or one of another name leads to the same place."""
    wanted, existing = entries.entry(target.client, target.name, way), servers.get(target.name)
    if isinstance(existing, dict) and all(existing.get(key) == value for key, value in wanted.items()):
        return True
    return any(entries.leads_to(target.client, each, way) for name, each in servers.items() if name != target.name)


def _wants_rules(target: Target, said: bool | None, yes: bool) -> bool:
    if said is not None or yes or not sys.stdin.isatty():
        return said is not False
    question = f"Let {target.client.title} run reads without asking, and ask about every write and deletion?"
    return typer.confirm(question, default=True, err=True)


def _carry_out(home: Path, made: ClientConnection, kept: ClientConnection | None, plans: list[FilePlan]) -> None:
    connections.keep(home, made)
    try:
        plan.carry_out(plans)
    except BaseException:
        connections.keep(home, kept) if kept else connections.forget(home, made)
        raise


def _show_changes(session: CommandContext, plans: list[FilePlan], home: Path | None) -> None:
    if session.human:
        for each in plans:
            diff.print_lines(_difference(each, home))


def _difference(each: FilePlan, home: Path | None) -> list[str]:
    document = each.document
    before = document.text if document.exists else None
    return diff.difference(document.path, before, each.after, document.syntax, home)


def _outcome(each: FilePlan) -> dict[str, Any]:
    what = "removed" if each.after is None else "changed" if each.document.exists else "made"
    return {"path": str(each.document.path), "outcome": what, "was_changed_since": each.was_changed,
            "diff": _difference(each, None)}  # fmt: skip


def _show(session: CommandContext, target: Target, way: Launch, plans: list[FilePlan], state: str) -> None:
    answer = {"client": target.client.name, "state": state, "way": way.way, "entry": target.name,
              "file": str(target.servers_file), "files": [] if session.human else [_outcome(each) for each in plans],
              "next_step": target.client.next_step}  # fmt: skip
    file = diff.shown_path(target.servers_file, target.machine.home)
    sentences = {
        "connected": f"Connected {target.client.title} over {way.way}: the entry {target.name} in {file}.",
        "already connected": f"{target.client.title} is already connected over {way.way}: {file} was not changed.",
    }
    session.show(answer, lambda _: say(sentences[state]) if state in sentences else None)


def _say_next(session: CommandContext, target: Target, way: Launch, token: Path | None, with_rules: bool) -> None:
    client = target.client
    name = "" if target.name == "mcpproxy" else f" --name {target.name}"
    where = f" --project {target.project}" if target.project else ""
    say(f"  {client.next_step}")
    if way.needs_token:
        said = f'"$(cat {token})"' if token else "to the gateway's agent token"
        say(f"  {client.title} needs the token in {entries.TOKEN_VARIABLE}: set it {said} where you start it.")
    if way.way == "http":
        say("  The gateway has to be running: mcpproxy serve")
    elif launch.is_passing(way.command):
        say(
            f"  {way.command[0]} is a temporary copy: install mcpproxy (uv tool install mcpproxy-py) and connect again."
        )
    if with_rules and _reads_are_wide(session):
        say("  Reads include tools without hints: mcpproxy tools classify gives them a class.")
    if client.permissions.by_hand and (with_rules or not target.has_rules()):
        say(f"  {client.permissions.by_hand}")
    others = _others(target)
    if others:
        them = f"{others[0]}" if len(others) == 1 else f"{len(others)} servers"
        say(f"  It still reaches {them} past the gate: mcpproxy import {client.name}")
    say(f"  To undo: mcpproxy disconnect {client.name}{name}{where}")


def _reads_are_wide(session: CommandContext) -> bool:
    """Whether a tool that says nothing of itself passes as a read."""
    try:
        return session.where.loaded().settings.intent_declaration.unannotated == "allow"
    except GatewayError:
        return False


def _others(target: Target) -> list[str]:
    """Servers that the client still starts or calls by itself."""
    return [
        clean(str(name))
        for name, said in _servers(target).items()
        if name != target.name and entries.entry_way(target.client, said)
    ]


def _by_hand(target: Target) -> list[FilePlan]:
    """An entry that leads to a gateway and was not made by `connect`."""
    said = _servers(target).get(target.name)
    is_http = target.name == "mcpproxy" and entries.entry_way(target.client, said) == "http"
    return plan.disconnecting_by_hand(target) if is_http or entries.is_gateway(target.client, said) else []


def _say_disconnected(target: Target, plans: list[FilePlan]) -> None:
    home = target.machine.home
    if not plans:
        say(f"{target.client.title} is not connected: nothing was changed.")
        return
    for each in plans:
        file = diff.shown_path(each.document.path, home)
        if each.was_changed and each.after is not None:
            say(f"Took our part out of {file}; it is not as connect left it, and the rest of it stays.")
        elif each.after is None:
            say(f"Removed {file}, which was made by connect.")
        else:
            say(f"{file} is as it was.")
    say(f"Disconnected {target.client.title}. Restart it if it is running.")
