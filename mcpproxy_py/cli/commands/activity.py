"""`mcpproxy activity`: the record of every ask."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from mcpproxy_py.cli import times
from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group, one_line
from mcpproxy_py.cli.completion import bare_tool_names, server_names, statuses
from mcpproxy_py.cli.gateway.client import RestClient, every_page, matching
from mcpproxy_py.cli.output import Format, cell, complain, note, pairs, pretty, save, say, table, waiting
from mcpproxy_py.cli.record import facts
from mcpproxy_py.errors import EXIT_FAILED, EXIT_NOT_VERIFIABLE, EXIT_OK, Code, GatewayError

app = group("The record: what was called, by whom, and how it ended.")

Text = str | None
By = Literal["hour", "server", "tool", "client", "status", "rule"]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="As `activity list` shows it, or the beginning of it that only one has.")
]
FILTERS: dict[str, tuple[str, ...]] = {
    "intent_type": ("--intent-type", "read, write or destructive, as declared."),
    "type": ("--type", "Kind of record, such as tool_call."),
    "status": ("--status", "Such as success, error or blocked."),
    "server": ("--server", "Only this upstream."),
    "tool": ("--tool", "Only this tool."),
    "session_id": ("--session-id", "Only this session."),
    "request_id": ("--request-id", "Only this request."),
    "client": ("--client", "Only the client of this name."),
    "principal": ("--principal", "Only this principal."),
    "start_time": ("--since", f"From this time on: {times.HELP}."),
    "end_time": ("--until", "Up to this time, given like --since."),
    "q": ("-q", "--q", "Only records that contain all of these words."),
}

COMPLETED = {"server": server_names, "tool": bare_tool_names, "status": statuses}


def filtered(function: Any) -> Any:
    """Add every filter of the REST interface to a command, which gets them as `query`."""

    def run(session: CommandContext, **values: Any) -> int | None:
        query = {name: values.pop(name) for name in FILTERS}
        for name in ("start_time", "end_time"):
            query[name] = times.moment(query[name], option=FILTERS[name][0])
        return function(session, query=query, **values)

    own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "query"]
    filters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None,
                          annotation=Annotated[Text, typer.Option(*options, help=about,
                                                                   autocompletion=COMPLETED.get(name))])
        for name, (*options, about) in FILTERS.items()
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
    everything: Annotated[
        bool, typer.Option("--all", help="Every page, and what servers do of their own accord too.")
    ] = False,
) -> None:
    """Records, newest first.

    On a terminal one ask is one line: its time, its short id, how it ended, its intent, what was called, what refused
    it, and the reason that the agent gave. Signs: ✓ success, ✗ error, ⊘ refused, ◔ timeout, – cancelled,
    ! interrupted, ~ under way. Intents: r read, w write, d destructive. The wider the terminal, the more a line says.

    For example: mcpproxy activity list --since yesterday --status blocked
    """
    query |= {"limit": limit or (500 if everything else None), "cursor": cursor}
    hides = _hide_servers_own(session, query, everything)
    read = every_page if everything else _one_page
    answer = read(session.client, "activity", items="activities", **query)
    session.show(answer, _print_records)
    if hides:
        _tell_hidden(session, query, answer.get("activities", []))


def _hide_servers_own(session: CommandContext, query: dict[str, Any], everything: bool) -> bool:
    """What servers do of their own accord is nothing that anybody asked for. Programs get all there is."""
    hides = session.human and not everything and query.get("type") is None
    if hides:
        query["exclude_type"] = facts.SERVERS_OWN
    return hides


def _tell_hidden(
    session: CommandContext, query: Mapping[str, Any], shown: list[Mapping[str, Any]] | None = None
) -> None:
    """How many are hidden among those that are shown. A gateway of an older version may not know."""
    asked = {**query, "type": facts.SERVERS_OWN, "exclude_type": None, "limit": None, "cursor": None}
    if shown and query.get("cursor"):
        asked["end_time"] = shown[0].get("timestamp")
    if shown and len(shown) >= (query.get("limit") or 50):
        asked["start_time"] = shown[-1].get("timestamp")
    with suppress(GatewayError):
        hidden = session.client.get("activity", "summary", **asked).get("total")
        if hidden:
            note(f"Hidden: {hidden} that servers did themselves; --all shows them")


def _one_page(client: Any, /, *path: str, items: str, **query: Any) -> dict[str, Any]:
    return client.get(*path, **query)


@command(app, "show")
def show(
    session: CommandContext,
    activity_id: Id,
    full: Annotated[bool, typer.Option("--full", help="Arguments and answer whole, however long they are.")] = False,
) -> None:
    """One complete record: who, what, when, what was decided and how far it came, arguments and answer.

    For example: mcpproxy activity show 9d3fc2a1
    """
    session.show(session.client.get("activity", activity_id), lambda record: _print_record(record, full))


@command(app, "watch")
def watch(
    session: CommandContext,
    *,
    server: Annotated[Text, typer.Option("--server", help="Only this upstream.", autocompletion=server_names)] = None,
    tool: Annotated[Text, typer.Option("--tool", help="Only this tool.", autocompletion=bare_tool_names)] = None,
    status: Annotated[
        Text, typer.Option("--status", help="Such as success, error or blocked.", autocompletion=statuses)
    ] = None,
    kind: Annotated[Text, typer.Option("--type", help="Kind of record, such as tool_call.")] = None,
    client: Annotated[Text, typer.Option("--client", help="Only the client of this name.")] = None,
    intent_type: Annotated[Text, typer.Option("--intent-type", help="read, write or destructive, as declared.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="What servers do of their own accord too.")] = False,
) -> None:
    """What happens, as it happens, until Ctrl-C.

    One line for each ask when it ends; on a terminal the last line shows those under way. While the gateway restarts
    it waits, and goes on where it was. With `-o json` every event is one line.

    For example: mcpproxy activity watch --status blocked
    """
    from mcpproxy_py.cli.record import watch as watching

    if session.format is Format.YAML:
        raise GatewayError(Code.BAD_REQUEST, "watch prints lines; use it with -o table or json")
    values = {"server": server, "tool": tool, "status": status, "type": kind, "client": client,
              "intent_type": intent_type}  # fmt: skip
    matches = matching(values)
    wanted = watching.Watched(
        lambda record: matches({**record, "client": facts.client_of(record), "intent_type": facts.intent_of(record)}),
        servers_own=everything or kind is not None or not session.human,
    )

    def connect() -> RestClient:
        return RestClient(session.where)

    with suppress(KeyboardInterrupt):
        if not session.human:
            watching.print_json(connect, wanted)
        elif sys.stdout.isatty():
            watching.print_live(connect, wanted)
        else:
            watching.print_plain(connect, wanted, _watched)
    if wanted.hidden:
        note(f"Hidden: {wanted.hidden} that servers did themselves; --all shows them")


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
def erase(session: CommandContext, activity_id: Id, yes: Yes = False) -> None:
    """Erase the arguments and the answer of a record for good, after a confirmation.

    That the call was made stays on record.

    For example: mcpproxy activity erase 9d3fc2a1
    """
    confirmed(f"Erase the arguments and the answer of {activity_id}? Nothing brings them back.", yes)
    session.show(session.client.delete("activity", activity_id, "payload"), _print_erased)


@command(app, "summary")
@filtered
def summary(
    session: CommandContext,
    *,
    query: dict[str, Any],
    by: Annotated[
        By | None,
        typer.Option("--by", metavar="|".join(get_args(By)), help="Only a table of these, most frequent first."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="What servers do of their own accord too.")] = False,
) -> None:
    """How much was asked and when, of which tools and by whom, how long it took, and what was refused.

    On a terminal durations with a ~ are only about right; those of up to 1,000 records are exact. `--by hour` has the
    latest eight days with any records, newest first, by the intent that was declared.

    For example: mcpproxy activity summary --since today
    """
    hides = _hide_servers_own(session, query, everything)
    answer = session.client.get("activity", "summary", **query)
    session.show(answer, lambda answer: _print_table(answer, by) if by else _print_summary(answer, query))
    if hides:
        _tell_hidden(session, query)


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
    found = answer.get("activities", [])
    if found and sys.stdout.isatty():
        from mcpproxy_py.cli.record.lines import print_lines

        print_lines(found, times.now())
    else:
        columns = ("time", "status", "intent", "tool", "ms", "client", "id", "why")
        table(columns, map(_row, found), empty="No records.")
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


def _print_summary(answer: Mapping[str, Any], query: Mapping[str, Any]) -> None:
    if not sys.stdout.isatty():
        pairs(answer)
        return
    from mcpproxy_py.cli.record.summary import print_summary

    print_summary(answer, query.get("start_time"))


def _print_table(answer: Mapping[str, Any], by: By) -> None:
    counted, intents = _dict(answer.get(f"by_{by}")), ("read", "write", "destructive", "none")
    if by == "hour":
        of_hour = _dict(answer.get("by_hour_and_intent_type"))
        rows = [[hour, many, *(_dict(of_hour.get(hour)).get(each, 0) for each in intents)]
                for hour, many in counted.items()]  # fmt: skip
        table(("hour", "asks", *intents), rows, empty="No records.")
        return
    took = _dict(answer.get(f"duration_ms_by_{by}"))
    columns = (by, "asks", "p50", "p95") if by in ("server", "tool") else (by, "refusals" if by == "rule" else "asks")
    rows = [[each, many, *(_dict(took.get(each)).get(share) for share in columns[2:])]
            for each, many in counted.items()]  # fmt: skip
    table(columns, rows, empty="No records.")


def _print_erased(record: Mapping[str, Any]) -> None:
    say("Erased. What is left of the record:")
    _print_record(record)


def _print_record(record: Mapping[str, Any], full: bool = False) -> None:
    """Short values first, then the payloads as JSON: they are what one wants to read or copy."""
    if sys.stdout.isatty():
        from mcpproxy_py.cli.record.page import print_page

        print_page(record, whole=full)
        return
    payloads = ("arguments", "rounds", "response", "metadata")
    pairs({key: value for key, value in record.items() if key not in payloads} | {"rungs": facts.rungs(record)})
    for key in payloads:
        if record.get(key) not in (None, []):
            say(f"\n{key}:\n{pretty(record[key])}")
