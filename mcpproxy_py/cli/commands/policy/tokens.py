"""`mcpproxy token`: a token for each agent, so that the record says which one it was, and each may do what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli import times
from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group
from mcpproxy_py.cli.completion import profile_names, server_names, token_names
from mcpproxy_py.cli.output import cell, note, pairs, say, table
from mcpproxy_py.errors import Code, GatewayError

app = group("Tokens of agents: who may come in over MCP, and what each may do.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the token is called.", autocompletion=token_names)]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="30d|12h|DATE", help="When it ends: after a span, or at a date (UTC)."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Write the secret into this new file, for its owner only, and not here."
    ),
]
GRACE: Final = "24h"


@command(app, "create")
def create(
    session: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", help="a-z, 0-9, _, . and -; it is agent:NAME in the record.")],
    servers: Annotated[
        str | None,
        typer.Option("--servers", metavar="A,B", help="Only these servers.", autocompletion=server_names),
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option("--tools", metavar="GLOB", help="Only tools that fit: server:tool or tool. Repeatable."),
    ] = None,
    operations: Annotated[
        str | None,
        typer.Option(
            "--operations",
            metavar="read[,write[,destructive]]",
            help="A ceiling on the risk of its calls. [default: all]",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", help="Only what this profile has.", autocompletion=profile_names),
    ] = None,
    expires: Expires = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="N/s|m|h", help="How often it may ask, at each gateway: 60/m.")
    ] = None,
    note_text: Annotated[str | None, typer.Option("--note", metavar="TEXT", help="For people.")] = None,
    out: Out = None,
) -> None:
    """Make a token. Its secret is shown this once; the gateway keeps only a digest of it.

    For example: mcpproxy token create ci --servers github --operations read --expires 30d
    """
    body = {
        "name": name, "servers": _parts(servers), "tools": tools or None, "operations": _parts(operations),
        "profile": profile, "expires": expires, "rate": rate, "note": note_text,
    }  # fmt: skip
    file = _new_file(out)
    answer = session.client.post("tokens", body={key: value for key, value in body.items() if value is not None})
    _hand_over(session, answer, file)


@command(app, "list")
def list_tokens(session: CommandContext) -> None:
    """All tokens, also those that have ended. Secrets are never shown.

    For example: mcpproxy token list
    """
    session.show(session.client.get("tokens"), _print_tokens)


@command(app, "show")
def show(session: CommandContext, name: Name) -> None:
    """One token: what it may do, until when, and when it was last used.

    For example: mcpproxy token show ci
    """
    session.show(session.client.get("tokens", name), _print_token)


@command(app, "revoke")
def revoke(session: CommandContext, name: Name, yes: Yes = False) -> None:
    """End a token at every gateway, and what goes on with it: sessions, streams, calls.

    A name may be used again. Who comes with the new token is somebody else in the record.

    For example: mcpproxy token revoke ci --yes
    """
    confirmed(f"Revoke the token {name}? Whoever uses it loses its connection", yes)
    answer = session.client.post("tokens", name, "revoke")
    session.show(answer, lambda shown: say(f"{shown['name']} is {shown['state']}."))


@command(app, "rotate")
def rotate(
    session: CommandContext,
    name: Name,
    grace: Annotated[
        str, typer.Option("--grace", metavar="24h|30m|0", help="How long the old secret is still good.")
    ] = GRACE,
    expires: Expires = None,
    out: Out = None,
) -> None:
    """A new secret for a token. Who it is, what it may do and its sessions stay.

    For example: mcpproxy token rotate ci --grace 24h --expires 30d
    """
    file = _new_file(out)
    body = {"grace": grace, **({} if expires is None else {"expires": expires})}
    _hand_over(session, session.client.post("tokens", name, "rotate", body=body), file)


def _parts(given: str | None) -> list[str] | None:
    return None if given is None else [part.strip() for part in given.split(",")]


def _new_file(out: Path | None) -> Path | None:
    """Before anything is made: a secret that cannot be written would be lost."""
    if out is None:
        return None
    try:
        os.close(os.open(out.expanduser(), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise GatewayError(Code.CONFLICT, f"{out} cannot be made: {error.strerror}") from None
    return out.expanduser()


def _hand_over(session: CommandContext, answer: Mapping[str, Any], file: Path | None) -> None:
    if file is not None:
        file.write_text(f"{answer['token']}\n", encoding="ascii")
        answer = {**answer, "token": None, "token_file": str(file)}
    session.show(answer, _print_new)


def _print_new(answer: Mapping[str, Any]) -> None:
    for warning in answer["warnings"]:
        note(cell(warning))
    if answer["token"] is None:
        say(f"{answer['principal']}: the secret is in {answer['token_file']}.")
        note(f"  An agent that starts the gateway's client: mcpproxy stdio --token-file {answer['token_file']}")
        return
    say(answer["token"])
    note(f"This is the only time that the secret of {answer['principal']} is shown.")
    note("  Over HTTP a client sends it with each request:  Authorization: Bearer TOKEN")
    note("  Over stdio it is read from a file:  mcpproxy stdio --token-file FILE")
    if (until := answer.get("old_secret_until")) is not None:
        note(f"  The old secret is good until {_time(until)}.")


def _print_tokens(answer: Mapping[str, Any]) -> None:
    rows = [
        [row["name"], row["state"], _scope(row), row.get("rate"), _time(row.get("expires_at")),
         _time(row.get("last_used_at")), row.get("note")]
        for row in answer["tokens"]
    ]  # fmt: skip
    columns = ("name", "state", "scope", "rate", "expires", "last used", "note")
    table(columns, rows, empty="No tokens. Make one: mcpproxy token create NAME")


def _print_token(row: Mapping[str, Any]) -> None:
    times_of = {key: _time(row[key]) for key in row if key.endswith(("_at", "_until")) and row[key]}
    pairs({**{key: value for key, value in row.items() if value not in (None, "", [])}, **times_of})


def _scope(row: Mapping[str, Any]) -> str:
    """In a few words what it is limited to."""
    operations = row.get("operations") or ()
    said = [",".join(operations)] if len(operations) < 3 and operations else []
    said += [f"servers {', '.join(row['servers'])}"] if row.get("servers") else []
    said += [f"tools {', '.join(row['tools'])}"] if row.get("tools") else []
    said += [f"profile {row['profile']}"] if row.get("profile") else []
    return "; ".join(said) or ("everything" if operations else "")


def _time(said: str | None) -> str | None:
    """For people, as their clock has it; for programs as it came."""
    if said is None or not sys.stdout.isatty():
        return said
    return times.clock_time(said, times.now(), seconds=False)
