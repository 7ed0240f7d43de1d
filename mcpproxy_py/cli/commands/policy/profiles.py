"""`mcpproxy profiles`: what there is for one project or kind of work, and what of it means nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mcpproxy_py.cli.common import CommandContext, command, group
from mcpproxy_py.cli.completion import profile_names
from mcpproxy_py.cli.output import cell, note, pairs, say, table

app = group("Profiles: what there is for one project or kind of work.")


@command(app, "list")
def list_profiles(session: CommandContext) -> None:
    """All profiles of the configuration: their servers, what they tighten, and which of their names mean nothing.

    For example: mcpproxy profiles list
    """
    session.show(session.client.get("profiles"), _print_list)


@command(app, "show")
def show(
    session: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of the profiles.", autocompletion=profile_names)],
) -> None:
    """What is in a profile now: its servers, their tools by class, and what it tightens.

    For example: mcpproxy profiles show frontend
    """
    session.show(session.client.get("profiles", name), _print_one)


def _print_list(answer: Mapping[str, Any]) -> None:
    rows = [
        [row["name"], ", ".join(row["servers"]), _counts(row["tools_by_class"]), "; ".join(row["tightens"]),
         row.get("description")]
        for row in answer["profiles"]
    ]  # fmt: skip
    columns = ("name", "servers", "tools", "tightens", "description")
    table(columns, rows, empty="No profiles. Write one into the configuration: mcpproxy config set profiles.NAME JSON")
    for row in answer["profiles"]:
        for why in row["without_effect"]:
            note(f"{cell(row['name'])}: {cell(why)}")


def _print_one(row: Mapping[str, Any]) -> None:
    said = {key: row.get(key) for key in ("name", "description")}
    said["only these tools"] = ", ".join(row["tools"] or ())
    said["path"] = f"/mcp/p/{row['name']}"
    pairs({key: value for key, value in said.items() if value})
    rows = [[each["name"], each["state"], _counts(each["tools_by_class"])] for each in row["in_reach"]]
    table(("server", "state", "tools"), rows, empty="None of its servers is there.")
    for sentence in row["tightens"] or ["It tightens nothing: its servers and tools are all that it narrows."]:
        say(cell(sentence))
    for why in row["without_effect"]:
        note(f"{cell(why)}")


def _counts(by_class: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in by_class.items() if count) or "none"
