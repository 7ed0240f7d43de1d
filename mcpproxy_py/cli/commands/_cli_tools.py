"""`mcpproxy tools`: what can be called, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from mcpproxy_py.cli.common import Session, command, group
from mcpproxy_py.cli.output import first_line, note, pairs, pretty, say, table
from mcpproxy_py.cli.paging import every_page

app = group("The tools behind the gateway.")

ServerFilter = Annotated[str | None, typer.Option("--server", metavar="NAME", help="Only this server's tools.")]


@command(app, "list")
def list_tools(session: Session, server: ServerFilter = None) -> None:
    """Every tool, with its class and the variant to call it with."""
    session.show(every_page(session.client, "tools", items="tools", server=server), _print_tools)


@command(app, "search")
def search(
    session: Session,
    query: Annotated[str, typer.Argument(help="What you need, in plain words.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=50, help="Maximum number of results.")] = 5,
    detail: Annotated[
        Literal["full", "compact"],
        typer.Option("--detail", metavar="full|compact", help="compact: signatures instead of schemas."),
    ] = "full",
    server: ServerFilter = None,
    read_only_only: Annotated[bool, typer.Option("--read-only-only", help="Only read-only tools.")] = False,
    exclude_destructive: Annotated[bool, typer.Option("--exclude-destructive", help="No destructive tools.")] = False,
) -> None:
    """Find tools as an agent finds them, by `retrieve_tools`."""
    flags = {"read_only_only": read_only_only or None, "exclude_destructive": exclude_destructive or None}
    found = session.client.get("tools", "search", query=query, limit=limit, detail=detail, server=server, **flags)
    session.show(found, _print_hits)


@command(app, "show")
def show(session: Session, name: Annotated[str, typer.Argument(metavar="SERVER:TOOL")]) -> None:
    """One tool: its class, its description and its input schema."""
    session.show(session.client.get("tools", name), _print_tool)


def _print_tools(answer: Mapping[str, Any]) -> None:
    rows = [[tool.get("name"), tool.get("class"), tool.get("call_with"), _availability(tool),
             first_line(tool.get("description"))] for tool in answer.get("tools", [])]  # fmt: skip
    table(("name", "class", "call with", "callable", "description"), rows, empty="No tools.")


def _availability(tool: Mapping[str, Any]) -> str:
    return "yes" if tool.get("callable", True) else str(tool.get("unavailable_reason") or "no")


def _print_hits(answer: Mapping[str, Any]) -> None:
    rows = [[hit.get("score"), hit.get("name"), hit.get("call_with"), _gist(hit)] for hit in answer.get("tools", [])]
    table(("score", "name", "call with", "description"), rows, empty="No matching tool.")
    left_out = answer.get("unavailable")
    if left_out:
        note("Not callable now, left out: " + ", ".join(f"{count} {why}" for why, count in left_out.items()))


def _gist(hit: Mapping[str, Any]) -> str:
    return str(hit.get("signature") or first_line(hit.get("description")))


def _print_tool(tool: Mapping[str, Any]) -> None:
    brief = {key: value for key, value in tool.items() if key not in ("description", "inputSchema", "outputSchema")}
    pairs(brief)
    if tool.get("description"):
        say(f"\n{str(tool['description']).strip()}")
    say(f"\nInput schema:\n{pretty(tool.get('inputSchema', {}))}")
