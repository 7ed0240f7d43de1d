"""`mcpproxy pins`: what servers listed when it was approved, how what they list now differs, and your word on it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from mcpproxy_py.cli import times
from mcpproxy_py.cli.common import CommandContext, command, confirmed, group, person
from mcpproxy_py.cli.completion import server_names, waiting_subjects
from mcpproxy_py.cli.output import cell, note, say, table
from mcpproxy_py.cli.servers.differences import colour_lines, difference_lines, finding_lines, subject_of, visible
from mcpproxy_py.core.json_values import text_of
from mcpproxy_py.errors import EXIT_OK

app = group("What servers listed when it was approved, and what they list now.")

Server = Annotated[
    str | None, typer.Argument(metavar="SERVER", help="The name of the upstream.", autocompletion=server_names)
]
ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="SERVER", help="The name of the upstream.", autocompletion=server_names),
]
Subjects = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TOOL]...",
        help="Tools by name; `prompt:NAME`, `instructions` and `server` work too.",
        autocompletion=waiting_subjects,
    ),
]
All = Annotated[bool, typer.Option("--all", help="All that waits: of this server, or without --server of every one.")]
Notes = Annotated[str | None, typer.Option("--notes", metavar="TEXT", help="Why, for the record.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal nothing is asked.")]
MOST_SHOWN = 20


@command(app, "list")
def list_pins(session: CommandContext, server: ServerOption = None) -> None:
    """Each server: how much of it is approved, and how much waits for you.

    For example: mcpproxy pins list
    """
    answer = session.client.get("pins")
    rows = [row for row in answer["pins"] if server in (None, row["server"])]
    session.show({"pins": rows}, _print_pins)


@command(app, "show")
def show(session: CommandContext, server: Server = None, option: ServerOption = None) -> None:
    """What is approved of a server: its tools with their texts and schemas, its instructions, its prompts and what else
    it says about itself; what the scan found in them, and what waits. -o json has all of it.

    For example: mcpproxy pins show github
    """
    session.show(session.client.get("pins", _named(server, option), texts="true"), _print_pin)


@command(app, "diff")
def diff(session: CommandContext, server: Server = None, option: ServerOption = None) -> None:
    """How what servers list now differs from what was approved. Characters that nobody sees are shown by their code
    points.

    For example: mcpproxy pins diff github
    """
    named = server or option
    answers = [session.client.get("pins", each) for each in ([named] if named else _waiting(session))]
    session.show({"pins": answers}, _print_differences)


@command(app, "approve")
def approve(
    session: CommandContext, tools: Subjects = None, server: ServerOption = None, everything: All = False,
    notes: Notes = None, yes: Yes = False,
) -> int:  # fmt: skip
    """Approve what a server lists now; first it is shown, on a terminal. What it changes in between is not approved.

    For example: mcpproxy pins approve --server github --all
    """
    return _decide(session, "approve", tools or [], server, everything, notes, yes)


@command(app, "reject")
def reject(
    session: CommandContext, tools: Subjects = None, server: ServerOption = None, everything: All = False,
    notes: Notes = None, yes: Yes = False,
) -> int:  # fmt: skip
    """Refuse what a server lists now: what was approved stays, blocked tools stay blocked, and you are not asked again
    before it changes once more.

    For example: mcpproxy pins reject --server github delete_repo
    """
    return _decide(session, "reject", tools or [], server, everything, notes, yes)


def _named(server: str | None, option: str | None) -> str:
    if named := server or option:
        return named
    raise typer.BadParameter("give the name of a server; `mcpproxy pins list` has them", param_hint="SERVER")


def _waiting(session: CommandContext) -> list[str]:
    return [row["server"] for row in session.client.get("pins")["pins"] if row["waiting"]]


def _decide(
    session: CommandContext, step: str, tools: Sequence[str], server: str | None, everything: bool, notes: str | None,
    yes: bool,
) -> int:  # fmt: skip
    if bool(tools) == everything:
        raise typer.BadParameter("name tools, or take all that waits with --all", param_hint="TOOL")
    if tools and server is None:
        raise typer.BadParameter("say of which server: --server NAME", param_hint="--server")
    servers = [server] if server is not None else _waiting(session)
    answers: list[Any] = []
    for each in servers:
        shown = session.client.get("pins", each)  # what is decided about is what was shown, and nothing newer
        if everything and not shown["waiting"]:
            continue
        subjects = [subject_of(name) for name in tools]
        if sys.stdin.isatty() and not yes:
            _print_difference(shown, subjects)
            confirmed(f"{step.capitalize()} {_counted(shown, subjects)} of {each}?", yes)
        body = {"seen": shown["seen"], "subjects": subjects or None, "notes": notes, "name": person(),
                "terminal": sys.stdin.isatty()}  # fmt: skip
        answers.append(
            session.client.post("pins", each, step, body={key: said for key, said in body.items() if said is not None})
        )
        if session.human:
            done = "approved" if step == "approve" else "rejected"
            say(f"{each}: {done} {_counted(shown, subjects)}.")
            _note_left(answers[-1])
    if not session.human:
        session.show({"pins": answers}, lambda _: None)
    elif not answers:
        note("Nothing waits for a decision.")
    return EXIT_OK


def _counted(shown: Mapping[str, Any], subjects: Sequence[str]) -> str:
    named = subjects or list(dict.fromkeys(each["subject"] for each in shown["differences"]))
    return visible(named[0]) if len(named) == 1 else f"{len(named)} changes"


def _note_left(answer: Mapping[str, Any]) -> None:
    if answer["waiting"]:
        note(f"{answer['waiting']} more wait: mcpproxy pins diff {answer['server']}")
    elif answer["blocked"]:
        note(f"{answer['blocked']} of its tools stay blocked, as you decided.")


def _print_pins(answer: Mapping[str, Any]) -> None:
    rows = [
        [row["server"], row["trust"], row["tools"], row["waiting"] or None, row["blocked"] or None,
         row["findings"] or None, row["by"], _time(row["at"]), _doubts(row)]
        for row in answer["pins"]
    ]  # fmt: skip
    columns = ("server", "trust", "approved", "waiting", "blocked", "findings", "by", "at", "problem")
    if not any(row[-1] for row in rows):
        rows, columns = [row[:-1] for row in rows], columns[:-1]
    table(columns, rows, empty="No server was listed yet.")
    if any(row["waiting"] for row in answer["pins"]):
        note("What waits: mcpproxy pins diff")


def _doubts(row: Mapping[str, Any]) -> str | None:
    if row.get("unusable"):
        return row["unusable"]
    return "not written yet: the database does not take it" if row.get("unwritten") else None


def _time(at: Any) -> str | None:
    if at is None:
        return None
    utc = datetime.fromtimestamp(at, UTC).isoformat(timespec="minutes").replace("+00:00", "Z")
    return times.clock_time(utc, times.now(), seconds=False) if sys.stdout.isatty() else utc


def _print_pin(answer: Mapping[str, Any]) -> None:
    texts = answer.get("approved_texts") or {}
    who = f", by {cell(answer['by'])} at {_time(answer['at'])}" if answer.get("by") and answer.get("at") else ""
    say(f"{cell(answer['server'])}: {answer['tools']} tools approved{who}, version {answer['version']}")
    if problem := _doubts(answer):
        note(f"{answer['server']}: {problem}")
    for name in ("instructions", "server"):
        if value := texts.get(name):
            lines = (value if isinstance(value, str) else text_of(value)).splitlines()
            say("\n".join((f"\n{name}", *(f"  {visible(line)}" for line in lines))))
    for kind in ("tools", "prompts"):
        for wire in texts.get(kind) or ():
            _print_wire(kind.removesuffix("s"), wire)
    colour_lines(finding_lines(answer.get("finding_rows") or {}))
    _print_difference(answer, [])


def _print_wire(kind: str, wire: Mapping[str, Any]) -> None:
    """Short: what an agent reads first. All of it is in JSON."""
    hints = wire.get("annotations") or {}
    said = ", ".join(f"{visible(str(key))}: {cell(value)}" for key, value in hints.items()) if hints else ""
    say(f"\n{kind} {visible(str(wire.get('name')))}{f' ({said})' if said else ''}")
    for text in (wire.get("title"), wire.get("description")):
        if text:
            say("\n".join(f"  {visible(line)}" for line in str(text).splitlines()))
    properties = (wire.get("inputSchema") or {}).get("properties") or {}
    if isinstance(properties, Mapping) and properties:
        say(f"  takes: {', '.join(visible(str(name)) for name in list(properties)[:MOST_SHOWN])}")


def _print_differences(answer: Mapping[str, Any]) -> None:
    waiting = [each for each in answer["pins"] if each["differences"] or _doubts(each)]
    for number, each in enumerate(waiting):
        if number:
            say("")
        _print_difference(each, [])
    if not waiting:
        note("Nothing waits: all is as it was approved.")
        return
    first = waiting[0]["server"]
    note(f"To go on with what is listed now: mcpproxy pins approve --server {first} --all")
    note(f"To stay with what was approved:   mcpproxy pins reject --server {first} --all")


def _print_difference(answer: Mapping[str, Any], subjects: Sequence[str]) -> None:
    if problem := _doubts(answer):
        note(f"{answer['server']}: {problem}")
    shown = [each for each in answer["differences"] if not subjects or each["subject"] in subjects]
    rows = {each: rows for each, rows in (answer.get("finding_rows") or {}).items()
            if any(each == one["subject"] for one in shown)}  # fmt: skip
    colour_lines([*difference_lines(answer["server"], shown), *finding_lines(rows)])
    if refused := [visible(str(each)) for each in answer.get("refused") or () if not subjects]:
        note(f"Refused by you, and listed so still: {', '.join(refused[:MOST_SHOWN])}")
    if answer.get("cut"):
        note(f"{answer['cut']} more differences are not shown")
