"""`mcpproxy approvals`: what agents ask of a person, and that person's word. An approval connects nothing by itself."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from mcpproxy_py.cli.common import Session, command, group
from mcpproxy_py.cli.output import clean, note, pairs, say, table
from mcpproxy_py.cli.paging import every_page

app = group("Servers that agents request, and your decisions.")

State = Literal["pending", "approved", "denied", "expired"]
Id = Annotated[str, typer.Argument(metavar="ID", help="The request, as `mcpproxy approvals list` shows it.")]
Notes = Annotated[str | None, typer.Option("--notes", metavar="TEXT", help="Why; the agent sees it too.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal nothing is asked.")]


@command(app, "list")
def list_approvals(
    session: Session,
    status: Annotated[
        State | None, typer.Option("--status", metavar="pending|approved|denied|expired", help="Only in this state.")
    ] = None,
) -> None:
    """Requests, newest first."""
    answer = every_page(session.client, "approvals", items="approvals", status=status)
    session.show(answer, _print_requests)


@command(app, "show")
def show(session: Session, approval_id: Id) -> None:
    """One complete request."""
    session.show(session.client.get("approvals", approval_id), pairs)


@command(app, "approve")
def approve(session: Session, approval_id: Id, notes: Notes = None, yes: Yes = False) -> None:
    """Approve a request. Nothing is connected: the command that would do that is printed."""
    _decide(session, approval_id, "approve", notes, yes)


@command(app, "deny")
def deny(session: Session, approval_id: Id, notes: Notes = None, yes: Yes = False) -> None:
    """Deny a request. The same request is denied again for a day."""
    _decide(session, approval_id, "deny", notes, yes)


def _decide(session: Session, approval_id: str, step: str, notes: str | None, yes: bool) -> None:
    terminal = sys.stdin.isatty()
    if terminal and not yes:
        pairs(session.client.get("approvals", approval_id))
        typer.confirm(clean(f"{step.capitalize()} {approval_id}?"), abort=True, err=True)
    body = {"terminal": terminal, "name": _name(), "notes": notes}
    answer = session.client.post(
        "approvals", approval_id, step, body={key: value for key, value in body.items() if value is not None}
    )
    session.show(answer, _print_decided)


def _name() -> str | None:
    """Who this system says is typing. The gateway knows only that they had the admin key."""
    try:
        return getpass.getuser()[:128] or None
    except (OSError, KeyError):  # a container's user without a name
        return None


def _print_decided(request: Mapping[str, Any]) -> None:
    say(f"{request['approval_id']} is {request['status']}.")
    if request["status"] == "approved":
        command = request.get("connect_command")
        note("An approval changes nothing by itself." + (f" To connect the server: {command}" if command else ""))


def _print_requests(answer: Mapping[str, Any]) -> None:
    rows = [
        [row["approval_id"], row["status"], row["context"].get("mcp_name"), row["target_resource"]["id"],
         _time(row["expires_at_ms"]), row["rationale"]]
        for row in answer["approvals"]
    ]  # fmt: skip
    table(("id", "status", "server", "agent", "expires", "rationale"), rows, empty="No requests.")


def _time(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="minutes").replace("+00:00", "Z")
