"""`mcpproxy gaps`: what agents missed, for whoever decides what to connect next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mcpproxy_py.cli.common import Session, command, group
from mcpproxy_py.cli.inputs import moment
from mcpproxy_py.cli.output import note, table

app = group("Capabilities that agents did not find.")


@command(app, "report")
def report(
    session: Session,
    since: Annotated[
        str | None,
        typer.Option("--since", help="From this time on: RFC 3339, or an age such as 7d. [default: 30d]"),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Maximum number of gaps.")] = 50,
) -> None:
    """What was missing, ranked: requested, hinted at, searched without result, refused, failing."""
    answer = session.client.get("gaps", since=moment(since), limit=limit)
    session.show(answer, _print_gaps)


def _print_gaps(answer: Mapping[str, Any]) -> None:
    rows = [
        [gap["capability"], gap["count"], ", ".join(f"{kind} {count}" for kind, count in gap["kinds"].items()),
         gap["last_seen"], gap["examples"][0]["id"]]
        for gap in answer["gaps"]
    ]  # fmt: skip
    table(("capability", "count", "kinds", "last seen", "example"), rows, empty="Nothing was missing.")
    if answer["total"] > len(rows):
        note(f"{answer['total'] - len(rows)} more: add --limit")
    if answer["cut"]:
        note(f"Only the newest records were read of: {', '.join(answer['cut'])}")
