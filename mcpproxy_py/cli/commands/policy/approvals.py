"""`mcpproxy approvals`: what agents ask of a person, and that person's word. An approval connects nothing by itself.

`mcpproxy gaps`: what agents missed, for whoever decides what to connect next.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from mcpproxy_py.cli import times
from mcpproxy_py.cli.common import CommandContext, command, group, person
from mcpproxy_py.cli.completion import approval_ids
from mcpproxy_py.cli.gateway.client import every_page
from mcpproxy_py.cli.output import clean, note, pairs, say, table
from mcpproxy_py.core.record.short_ids import short_ids

approvals_app = group("Servers that agents request, and your decisions.")

State = Literal["pending", "approved", "denied", "expired"]
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The request, as `mcpproxy approvals list` shows it, or the beginning of its id.",
        autocompletion=approval_ids,
    ),
]
Notes = Annotated[str | None, typer.Option("--notes", metavar="TEXT", help="Why; the agent sees it too.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal nothing is asked.")]


@command(approvals_app, "list")
def list_approvals(
    session: CommandContext,
    status: Annotated[
        State | None, typer.Option("--status", metavar="pending|approved|denied|expired", help="Only in this state.")
    ] = None,
) -> None:
    """Requests, newest first.

    For example: mcpproxy approvals list --status pending
    """
    answer = every_page(session.client, "approvals", items="approvals", status=status)
    session.show(answer, _print_requests)


@command(approvals_app, "show")
def show(session: CommandContext, approval_id: Id) -> None:
    """One complete request.

    For example: mcpproxy approvals show apr_1
    """
    session.show(session.client.get("approvals", approval_id), _print_request)


@command(approvals_app, "approve")
def approve(session: CommandContext, approval_id: Id, notes: Notes = None, yes: Yes = False) -> None:
    """Approve a request. Nothing is connected: the command that would do that is printed.

    For example: mcpproxy approvals approve apr_1 --notes 'for the release'
    """
    _decide(session, approval_id, "approve", notes, yes)


@command(approvals_app, "deny")
def deny(session: CommandContext, approval_id: Id, notes: Notes = None, yes: Yes = False) -> None:
    """Deny a request. The same request is denied again for a day.

    For example: mcpproxy approvals deny apr_1 --notes 'use git instead'
    """
    _decide(session, approval_id, "deny", notes, yes)


def _decide(session: CommandContext, approval_id: str, step: str, notes: str | None, yes: bool) -> None:
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
    session.show(answer, _print_decided)


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
