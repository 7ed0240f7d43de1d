"""`mcpproxy activity`: the record of every ask."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mcpproxy_py.cli.client import every_page, matching, records
from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group, moment, one_line
from mcpproxy_py.cli.completion import bare_tool_names, server_names, statuses
from mcpproxy_py.cli.output import cell, complain, note, pairs, pretty, save, say, table, waiting
from mcpproxy_py.errors import EXIT_FAILED, EXIT_NOT_VERIFIABLE, EXIT_OK, Code, GatewayError

app = group("The record: what was called, by whom, and how it ended.")

Text = str | None
FILTERS: dict[str, tuple[str, str]] = {
    "intent_type": ("--intent-type", "read, write or destructive, as declared."),
    "type": ("--type", "Kind of record, such as tool_call."),
    "status": ("--status", "Such as success, error or blocked."),
    "server": ("--server", "Only this upstream."),
    "tool": ("--tool", "Only this tool."),
    "session_id": ("--session-id", "Only this session."),
    "request_id": ("--request-id", "Only this request."),
    "client": ("--client", "Only the client of this name."),
    "principal": ("--principal", "Only this principal."),
    "start_time": ("--since", "From this time on: RFC 3339, or an age such as 10m, 2h, 3d."),
    "end_time": ("--until", "Up to this time: RFC 3339, or an age."),
    "q": ("--q", "Only records that contain all of these words."),
}

COMPLETED = {"server": server_names, "tool": bare_tool_names, "status": statuses}


def filtered(function: Any) -> Any:
    """Add every filter of the REST interface to a command, which gets them as `query`."""

    def run(session: CommandContext, **values: Any) -> int | None:
        query = {name: values.pop(name) for name in FILTERS}
        for name in ("start_time", "end_time"):
            query[name] = moment(query[name])
        return function(session, query=query, **values)

    own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "query"]
    filters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None,
                          annotation=Annotated[Text, typer.Option(option, help=about,
                                                                  autocompletion=COMPLETED.get(name))])
        for name, (option, about) in FILTERS.items()
    ]  # fmt: skip
    run.__signature__ = inspect.Signature([*own, *filters])  # type: ignore[attr-defined]
    run.__doc__ = function.__doc__
    return run


@command(app, "list")
@filtered
def list_activity(
    session: CommandContext,
    *,
    query: dict[str, Any],
    limit: Annotated[int | None, typer.Option("--limit", help="Records per page, 1 to 500. [default: 50]")] = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Start after the page that gave this cursor.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every page, not only the first.")] = False,
) -> None:
    """Records, newest first.

    For example: mcpproxy activity list --status blocked --since 2h
    """
    query |= {"limit": limit or (500 if everything else None), "cursor": cursor}
    read = every_page if everything else _one_page
    session.show(read(session.client, "activity", items="activities", **query), _print_records)


def _one_page(client: Any, /, *path: str, items: str, **query: Any) -> dict[str, Any]:
    return client.get(*path, **query)


@command(app, "show")
def show(session: CommandContext, activity_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """One complete record.

    For example: mcpproxy activity show 01997a3c
    """
    session.show(session.client.get("activity", activity_id), _print_record)


@command(app, "watch")
def watch(
    session: CommandContext,
    *,
    server: Annotated[Text, typer.Option("--server", help="Only this upstream.", autocompletion=server_names)] = None,
    tool: Annotated[Text, typer.Option("--tool", help="Only this tool.", autocompletion=bare_tool_names)] = None,
    status: Annotated[
        Text, typer.Option("--status", help="Such as success, error or blocked.", autocompletion=statuses)
    ] = None,
) -> None:
    """New records as they arrive, until interrupted. With `-o json`, one per line.

    For example: mcpproxy activity watch --server git
    """
    wanted = matching({"server": server, "tool": tool, "status": status})
    with suppress(KeyboardInterrupt):
        for kind, record in records(session.client):
            if wanted(record):
                say("  ".join(map(cell, (kind, *_watched(kind, record)))) if session.human else json.dumps(record))
                sys.stdout.flush()


@command(app, "verify")
def verify(
    session: CommandContext,
    *,
    anchor: Annotated[
        Text,
        typer.Option("--anchor", metavar="LINE", help="What `activity anchor` printed; @FILE reads it, - takes stdin."),
    ] = None,
) -> int:
    """Check that the record is still what was written: intact, broken, or not verifiable here.

    Exits with 0 if it is intact, 1 if it is broken, and 5 if not all of it can be checked, such as the chain of
    a gateway with another key. With an anchor, a record that was put back to before it, or written anew, is found too.

    For example: mcpproxy activity verify
    """
    kept = None if anchor is None else one_line(anchor, "--anchor")
    try:
        with waiting("Reading every event and every record"):
            answer = session.client.get_patiently("activity", "verify", anchor=kept)
    except GatewayError as error:
        if error.code is not Code.STORE_UNAVAILABLE:
            raise
        complain(error.as_json(), session.format)
        return EXIT_NOT_VERIFIABLE
    session.show(answer, _print_verdict)
    return RESULTS[_result(answer)][0]


RESULTS: dict[str, tuple[int, str]] = {
    "intact": (EXIT_OK, "intact"),
    "broken": (EXIT_FAILED, "NOT what was written: {wrong} findings"),
    "not_verifiable": (EXIT_NOT_VERIFIABLE, "NOT VERIFIABLE: not all of it could be checked"),
}


def _result(answer: Mapping[str, Any]) -> str:
    """An answer that says none of the three is not believed."""
    said = answer.get("result", "intact" if answer.get("intact") else "broken")
    return said if said in RESULTS else "broken"


@command(app, "anchor")
def anchor(session: CommandContext) -> None:
    """The head of the record as one line, to be kept where nobody can change it together with the record.

    `activity verify --anchor LINE` then finds a record that was put back to before it.

    For example: mcpproxy activity anchor
    """
    session.show(session.client.get("activity", "anchor"), lambda answer: say(str(answer.get("anchor"))))


def _print_verdict(answer: Mapping[str, Any]) -> None:
    for chain in answer.get("chains", []):
        said = f"{chain.get('events')} events, at {chain.get('head')}" if chain.get("checked") else chain.get("reason")
        say(f"chain {cell(chain.get('name'))}: {cell(said)}")
    for finding in answer.get("findings", []):
        say(f"{cell(finding.get('kind'))}: {cell(finding.get('message'))}")
    for message in answer.get("unverified", []):
        say(f"not checked: {cell(message)}")
    found = RESULTS[_result(answer)][1].format(wrong=answer.get("wrong"))
    say(f"{answer.get('events')} events and {answer.get('rows')} records: {found}")


@command(app, "erase")
def erase(session: CommandContext, activity_id: Annotated[str, typer.Argument(metavar="ID")], yes: Yes = False) -> None:
    """Erase the arguments and the answer of a record for good, after a confirmation.

    That the call was made stays on record.

    For example: mcpproxy activity erase 01997a3c
    """
    confirmed(f"Erase the arguments and the answer of {activity_id}? Nothing brings them back.", yes)
    session.show(session.client.delete("activity", activity_id, "payload"), _print_record)


@command(app, "summary")
@filtered
def summary(session: CommandContext, *, query: dict[str, Any]) -> None:
    """Counts and durations.

    For example: mcpproxy activity summary --since 7d
    """
    session.show(session.client.get("activity", "summary", **query), pairs)


@command(app, "export", prints=False)
@filtered
def export(
    session: CommandContext,
    *,
    query: dict[str, Any],
    form: Annotated[
        Literal["jsonl", "csv"],
        typer.Option("--format", metavar="jsonl|csv", help="One JSON object per line, or CSV."),
    ] = "jsonl",
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Output file; - is stdout.", allow_dash=True)
    ] = Path("-"),
) -> None:
    """Every matching record, as a file.

    For example: mcpproxy activity export --format csv --out activity.csv
    """
    with session.client.stream("activity", "export", format=form, **query) as chunks:
        save(chunks, out)


def _print_records(answer: Mapping[str, Any]) -> None:
    rows = [_row(record) for record in answer.get("activities", [])]
    columns = ("time", "status", "intent", "tool", "ms", "client", "id", "why")
    table(columns, rows, empty="No records.")
    if answer.get("next_cursor"):
        note(f"More: add --cursor {answer['next_cursor']}, or --all")


def _row(record: Mapping[str, Any]) -> list[Any]:
    intent = _dict(_dict(record.get("metadata")).get("intent"))
    server, tool = record.get("server"), record.get("tool")
    name = f"{server}:{tool}" if server and tool and not str(tool).startswith(f"{server}:") else tool or server
    why = _dict(record.get("error")).get("message") or intent.get("reason")
    return [record.get("timestamp"), record.get("status"), intent.get("operation_type"), name,
            record.get("duration_ms"), _dict(record.get("client")).get("name"), record.get("id"), why]  # fmt: skip


def _watched(kind: str, record: Mapping[str, Any]) -> list[Any]:
    if kind != "approval":
        return _row(record)
    return [record.get("status"), _dict(record.get("context")).get("mcp_name"), record.get("approval_id"),
            record.get("rationale")]  # fmt: skip


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _print_record(record: Mapping[str, Any]) -> None:
    """Short values first, then the payloads as JSON: they are what one wants to read or copy."""
    payloads = ("arguments", "response", "metadata")
    pairs({key: value for key, value in record.items() if key not in payloads})
    for key in payloads:
        if record.get(key) is not None:
            say(f"\n{key}:\n{pretty(record[key])}")
