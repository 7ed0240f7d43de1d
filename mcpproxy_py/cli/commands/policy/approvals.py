"""`mcpproxy approvals`: what agents ask of a person, and that person's word. An approval connects nothing by itself.

`mcpproxy gaps`: what agents missed, for whoever decides what to connect next.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from mcpproxy_py.cli import times
from mcpproxy_py.cli.commands.policy import waiting_calls
from mcpproxy_py.cli.common import CommandContext, command, group, person
from mcpproxy_py.cli.completion import approval_ids
from mcpproxy_py.cli.gateway.client import RestClient, every_page
from mcpproxy_py.cli.output import Format, clean, note, pairs, say, table
from mcpproxy_py.core.record.short_ids import short_ids
from mcpproxy_py.errors import Code, GatewayError

approvals_app = group("What waits for you: calls, and servers that agents request; and your decisions.")

State = Literal["pending", "approved", "denied", "expired", "cancelled"]
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The call or request, as `mcpproxy approvals list` shows it, or the beginning of its id.",
        autocompletion=approval_ids,
    ),
]
Notes = Annotated[str | None, typer.Option("--notes", metavar="TEXT", help="Why; the agent sees it too.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal nothing is asked.")]


@command(approvals_app, "list")
def list_approvals(
    session: CommandContext,
    status: Annotated[
        State | None,
        typer.Option("--status", metavar="pending|approved|denied|expired|cancelled", help="Only in this state."),
    ] = None,
) -> None:
    """Calls that wait for a yes, then requests for servers, newest first. With a status, calls that were decided too.

    For example: mcpproxy approvals list --status pending
    """
    calls = waiting_calls.listed(session.client, status)
    answer: dict[str, Any] = {"approvals": [], "next_cursor": None}
    if status != "cancelled":
        answer = every_page(session.client, "approvals", items="approvals", status=status)
    session.show({**answer, "confirmations": calls}, _print_list)


@command(approvals_app, "watch")
def watch(session: CommandContext) -> None:
    """What waits for you, as it comes, until Ctrl-C; on a terminal with its bell. With `-o json` one object a line.

    For example: mcpproxy approvals watch
    """
    if session.format is Format.YAML:
        raise GatewayError(Code.BAD_REQUEST, "watch prints lines; use it with -o table or json")
    with suppress(KeyboardInterrupt):
        waiting_calls.watch(session, lambda: RestClient(session.where))


@command(approvals_app, "show")
def show(session: CommandContext, approval_id: Id) -> None:
    """One complete call or request.

    For example: mcpproxy approvals show apr_1
    """
    if (call := waiting_calls.found(session.client, approval_id)) is not None:
        session.show(call, waiting_calls.show)
    else:
        session.show(session.client.get("approvals", approval_id), _print_request)


@command(approvals_app, "approve")
def approve(session: CommandContext, approval_id: Id, notes: Notes = None, yes: Yes = False) -> None:
    """Say yes to a call, which then runs; or approve a request, which connects nothing: how to do that is printed.

    For example: mcpproxy approvals approve apr_1 --notes 'for the release'
    """
    _decide(session, approval_id, "approve", notes, yes)


@command(approvals_app, "deny")
def deny(session: CommandContext, approval_id: Id, notes: Notes = None, yes: Yes = False) -> None:
    """Say no to a call, or deny a request, which is denied again for a day then.

    For example: mcpproxy approvals deny apr_1 --notes 'use git instead'
    """
    _decide(session, approval_id, "deny", notes, yes)


def _decide(session: CommandContext, approval_id: str, step: str, notes: str | None, yes: bool) -> None:
    if (call := waiting_calls.found(session.client, approval_id)) is not None:
        return waiting_calls.decide(session, call, step, notes, yes)
    terminal = sys.stdin.isatty()
    if terminal and not yes:
        shown = session.client.get("approvals", approval_id)
        _print_request(shown)
        approval_id = shown["approval_id"]  # of what was shown, whatever was filed meanwhile
        typer.confirm(clean(f"{step.capitalize()} {approval_id}?"), abort=True, err=True)
    body = {"terminal": terminal, "name": person(), "notes": notes}
    answer = session.client.post(
        "approvals", approval_id, step, body={key: value for key, value in body.items() if value is not None}
    )
    return session.show(answer, _print_decided)


def _print_request(request: Mapping[str, Any]) -> None:
    """What there is to know, with times that people can read."""
    terminal = sys.stdout.isatty()
    pairs({
        name.removesuffix("_ms"): _time(value, local=terminal) if name.endswith("_at_ms") else value
        for name, value in request.items()
        if value is not None
    })  # fmt: skip


def _print_decided(request: Mapping[str, Any]) -> None:
    say(f"{request['approval_id']} is {request['status']}.")
    if request["status"] == "approved":
        command = request.get("connect_command")
        note("An approval changes nothing by itself." + (f" To connect the server: {command}" if command else ""))


def _print_list(answer: Mapping[str, Any]) -> None:
    if calls := answer["confirmations"]:
        found = waiting_calls.rows(calls, short=sys.stdout.isatty())
        table(("id", "status", "server", "tool", "expires", "reason"), found, empty="")
        if answer["approvals"]:
            say("")
    if answer["approvals"] or not calls:
        _print_requests(answer)


def _print_requests(answer: Mapping[str, Any]) -> None:
    terminal = sys.stdout.isatty()
    ids = _shown_ids([row["approval_id"] for row in answer["approvals"]])
    rows = [
        [ids[row["approval_id"]], row["status"], row["context"].get("mcp_name"), row["target_resource"]["id"],
         _time(row["expires_at_ms"], local=terminal), row["rationale"]]
        for row in answer["approvals"]
    ]  # fmt: skip
    table(("id", "status", "server", "agent", "expires", "rationale"), rows, empty="No requests.")


def _shown_ids(ids: Sequence[str]) -> Mapping[str, str]:
    """Short ones for people; whole ones for a pipe, whose columns stay as they are."""
    return short_ids(ids) if sys.stdout.isatty() else {each: each for each in ids}


def _time(millis: int, *, local: bool) -> str:
    utc = datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="minutes").replace("+00:00", "Z")
    return times.clock_time(utc, times.now(), seconds=False) if local else utc


gaps_app = group("Capabilities that agents did not find.")


@command(gaps_app, "report")
def report(
    session: CommandContext,
    since: Annotated[
        str | None,
        typer.Option("--since", help=f"From this time on: {times.HELP}. [default: 30d]"),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Maximum number of gaps.")] = 50,
) -> None:
    """What was missing, ranked: requested, hinted at, searched without result, refused, failing.

    For example: mcpproxy gaps report --since 7d
    """
    answer = session.client.get("gaps", since=times.moment(since, option="--since"), limit=limit)
    session.show(answer, _print_gaps)


def _print_gaps(answer: Mapping[str, Any]) -> None:
    ids = _shown_ids([gap["examples"][0]["id"] for gap in answer["gaps"]])
    terminal, now = sys.stdout.isatty(), times.now()
    rows = [
        [gap["capability"], gap["count"], ", ".join(f"{kind} {count}" for kind, count in gap["kinds"].items()),
         times.clock_time(gap["last_seen"], now, seconds=False) if terminal else gap["last_seen"],
         ids[gap["examples"][0]["id"]]]
        for gap in answer["gaps"]
    ]  # fmt: skip
    table(("capability", "count", "kinds", "last seen", "example"), rows, empty="Nothing was missing.")
    if answer["total"] > len(rows):
        note(f"{answer['total'] - len(rows)} more: add --limit")
    if answer["cut"]:
        note(f"Only the newest records were read of: {', '.join(answer['cut'])}")
