"""`mcpproxy tools classify` and `mcpproxy tools set`: the class of tools whose servers do not say it, or say it wrong.

Loaded with the other commands of `mcpproxy tools`, which this adds to.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import typer

from mcpproxy_py.cli.commands.tools import tools_app
from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed
from mcpproxy_py.cli.gateway.client import every_page
from mcpproxy_py.cli.gateway.locate import NoGatewayError
from mcpproxy_py.cli.output import cell, note, say, table
from mcpproxy_py.errors import Code, GatewayError

UNDO: Final = "tool-classes-undo.json"
"""In the data directory: what the last run of `classify` wrote."""
EXCLUDED: Final = "excluded_by_operator"


class ProposedClass(NamedTuple):
    """One row of what a person is asked about."""

    server: str
    tool: str
    now: str
    """The class by the server's hints; `unknown` where there are none, or where they are not trusted."""
    origin: str
    proposed: str
    basis: str
    why: str
    source: str | None
    """Of a curated class, what it was judged by."""


class Skipped(NamedTuple):
    server: str
    why: str


@command(tools_app, "classify")
def classify(
    session: CommandContext,
    server: Annotated[str | None, typer.Argument(metavar="SERVER", help="Only this server's tools.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also tools with hints, where the proposal is higher than the hint.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the proposals, and write nothing.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back what the last run wrote.")] = False,
    yes: Yes = False,
) -> None:
    """Propose a class for each tool without hints, and write it after a yes.

    A class comes from the shipped list of well-known servers, or else from the tool's name, its description and its
    schema. An uncertain one is the higher class. What is written are overrides, under `tools` of the server.

    For example: mcpproxy tools classify sqlite --dry-run
    """
    if not session.human and not (yes or dry_run):
        raise typer.BadParameter("with -o json or yaml, add --yes or --dry-run", param_hint="--yes")
    if undo:
        _undo(session, server, dry_run, yes)
        return
    found = list(_proposals(session, server, every))
    rows = [each for each in found if isinstance(each, ProposedClass)]
    skipped = [each for each in found if isinstance(each, Skipped)]
    if session.human:
        _print_proposals(rows, skipped, every)
    if rows and not dry_run:
        confirmed(_question(rows), yes)
        _write(session, rows)
    answer = {
        "proposals": [row._asdict() for row in rows],
        "skipped": [each._asdict() for each in skipped],
        "written": bool(rows) and not dry_run,
    }
    session.show(answer, lambda shown: _print_written(rows) if shown["written"] else None)


def _proposals(session: CommandContext, wanted: str | None, every: bool) -> Iterator[ProposedClass | Skipped]:
    entries = session.client.get("config").get("mcpServers") or {}
    states = {row["name"]: row for row in session.client.get("servers")["servers"]}
    if wanted is not None:
        states = {wanted: _row_of(wanted, states)}
    for name, row in states.items():
        if name not in entries:
            if row.get("unannotated_tools") or wanted is not None:
                yield Skipped(name, "is no server of `mcpServers`; set the classes of its tools in the configuration")
        elif not row.get("tool_count"):
            if wanted is not None or row.get("state") != "disabled":
                state = "has failed" if row.get("state") == "failed" else f"is {row.get('state')}"
                yield Skipped(name, f"{state}, so its tools are not known")
        else:
            yield from _of_server(session, name, entries[name], every)


def _row_of(name: str, states: Mapping[str, Any]) -> Mapping[str, Any]:
    from mcpproxy_py.core.search.tokens import nearest

    if name in states:
        return states[name]
    near = nearest(name, states)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise GatewayError(Code.NOT_FOUND, f"There is no server '{name}'{hint}")


def _of_server(session: CommandContext, name: str, entry: Mapping[str, Any], every: bool) -> Iterator[ProposedClass]:
    from mcpproxy_py.core.values import RANK

    curated = _curated(session, entry)
    for tool in every_page(session.client, "tools", items="tools", server=name)["tools"]:
        own, now = str(tool["name"]).partition(":")[2], tool["class"]
        if tool["class_origin"] == "override" or tool.get("unavailable_reason") == EXCLUDED:
            continue
        if now != "unknown" and not every:
            continue
        row = _proposed(name, own, tool, curated)
        if now == "unknown" or RANK[row.proposed] > RANK[now]:  # type: ignore[index]
            yield row


def _curated(session: CommandContext, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    from mcpproxy_py.providers.catalog.data_files import DataError
    from mcpproxy_py.providers.catalog.tool_classes import curated_classes

    try:
        return curated_classes(entry, session.where.home() / "catalog")
    except DataError as error:
        note(f"The catalog is left out: {error}")
        return {}


def _proposed(server: str, name: str, tool: Mapping[str, Any], curated: Mapping[str, Any]) -> ProposedClass:
    from mcpproxy_py.core.policy.class_proposals import propose

    now, origin = tool["class"], tool["class_origin"]
    if (known := curated.get(name)) is not None:
        return ProposedClass(server, name, now, origin, known.tool_class, "curated", known.reason, known.source)
    found = propose(name, tool.get("description"), tool.get("inputSchema"))
    return ProposedClass(server, name, now, origin, found.tool_class, found.basis, found.why, None)


def _print_proposals(rows: list[ProposedClass], skipped: list[Skipped], every: bool) -> None:
    shown = [[f"{row.server}:{row.tool}", _hint(row), row.proposed, _why(row)] for row in rows]
    nothing = "No hint is lower than what is proposed." if every else "Every tool has hints or an override."
    table(("tool", "now", "proposed", "why"), shown, empty="Nothing to propose." if skipped else nothing)
    for each in skipped:
        note(f"{cell(each.server)}: {cell(each.why)}")
    for source in sorted({row.source for row in rows if row.source}):
        note(f"Curated by {source}")


def _hint(row: ProposedClass) -> str:
    if row.now != "unknown":
        return row.now
    return "not trusted" if row.origin == "untrusted" else "no hints"


def _why(row: ProposedClass) -> str:
    return f"curated: {row.why}" if row.basis == "curated" else row.why


def _question(rows: list[ProposedClass]) -> str:
    counts = Counter(row.proposed for row in rows)
    each = ", ".join(f"{counts[name]} {name}" for name in ("read", "write", "destructive") if counts[name])
    return f"Write {len(rows)} {'override' if len(rows) == 1 else 'overrides'} ({each})?"


def _write(session: CommandContext, rows: list[ProposedClass]) -> None:
    """What it wrote is kept first, so that whatever goes wrong in between can be taken back."""
    from mcpproxy_py.files import write_private

    wanted: dict[str, dict[str, str]] = {}
    for row in rows:
        wanted.setdefault(row.server, {})[row.tool] = row.proposed
    kept = _undo_file(session)
    kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(kept, json.dumps(wanted, indent=1) + "\n")
    for server, classes in wanted.items():
        session.client.post("servers", server, "tools", body={"tools": classes})


def _print_written(rows: list[ProposedClass]) -> None:
    say(f"Wrote {len(rows)} {'override' if len(rows) == 1 else 'overrides'}.")
    note("To undo: mcpproxy tools classify --undo")


def _undo_file(session: CommandContext) -> Path:
    return session.where.home() / UNDO


def _undo(session: CommandContext, server: str | None, dry_run: bool, yes: bool) -> None:
    """Only overrides that still are what was written: who changed one since meant it."""
    kept = _kept(session)
    wrote = {name: classes for name, classes in kept.items() if server in (None, name)}
    gone = {name: _still(session, name, classes) for name, classes in wrote.items()}
    gone = {name: tools for name, tools in gone.items() if tools}
    count = sum(map(len, gone.values()))
    if session.human:
        shown = [[f"{name}:{tool}", wrote[name][tool]] for name, tools in gone.items() for tool in tools]
        table(("override", "class"), shown, empty="Nothing of what the last run wrote is still there.")
    if count and not dry_run:
        confirmed(f"Take out {count} {'override' if count == 1 else 'overrides'}?", yes)
        for name, tools in gone.items():
            set_classes(session, name, dict.fromkeys(tools))
    if not dry_run:
        _forget(session, {name: classes for name, classes in kept.items() if name not in wrote})
    answer = {"undone": gone, "written": bool(count) and not dry_run}
    session.show(answer, lambda shown: say(f"Took out {count}.") if shown["written"] else None)


def _kept(session: CommandContext) -> dict[str, dict[str, str]]:
    try:
        kept = json.loads(_undo_file(session).read_text(encoding="utf-8"))
        return {str(name): {str(tool): str(value) for tool, value in tools.items()} for name, tools in kept.items()}
    except FileNotFoundError:
        raise GatewayError(Code.NOT_FOUND, "There is nothing to undo: `tools classify` has written nothing") from None
    except (OSError, ValueError, AttributeError) as error:
        raise GatewayError(Code.CONFIG_INVALID, f"{_undo_file(session)} cannot be read: {error}") from None


def _forget(session: CommandContext, left: Mapping[str, Any]) -> None:
    from mcpproxy_py.files import write_private

    if left:
        write_private(_undo_file(session), json.dumps(left, indent=1) + "\n")
    else:
        _undo_file(session).unlink(missing_ok=True)


def _still(session: CommandContext, server: str, classes: Mapping[str, str]) -> list[str]:
    overrides = _overrides(session, server)
    return [tool for tool, written in classes.items() if _simple(_override_of(overrides, tool)) == written]


def _overrides(session: CommandContext, server: str) -> Mapping[str, Any]:
    try:
        shown = session.client.get("config")
    except NoGatewayError:
        if session.where.is_named:
            raise
        from mcpproxy_py import settings

        shown = settings.shown(session.where.loaded().settings)
    return ((shown.get("mcpServers") or {}).get(server) or {}).get("tools") or {}


def _override_of(overrides: Mapping[str, Any], tool: str) -> Any:
    from mcpproxy_py.core.policy.tool_names import own_entry

    entry = own_entry(tool, overrides)
    return overrides[entry] if entry is not None else None


def _simple(override: Any) -> str | None:
    """The class of an override that does not depend on arguments."""
    if isinstance(override, list) and len(override) == 1 and not override[0].get("when"):
        return override[0].get("class")
    return override if isinstance(override, str) else None


def set_classes(session: CommandContext, server: str, classes: Mapping[str, Any]) -> Mapping[str, Any]:
    """By the running gateway, or else in the file; the overrides that stood there before."""
    try:
        return session.client.post("servers", server, "tools", body={"tools": classes})["before"]
    except NoGatewayError:
        if session.where.is_named:
            raise
    from mcpproxy_py import settings

    path = session.where.config_path()
    before = settings.ConfigFile(path).set_classes(server, classes)
    note(f"No gateway is running, so {path} was changed; it applies when one starts.")
    return before


@command(tools_app, "set")
def set_class(
    session: CommandContext,
    name: Annotated[str, typer.Argument(metavar="SERVER:TOOL", help="The tool, as `tools list` names it.")],
    tool_class: Annotated[
        Literal["read", "write", "destructive", "default"],
        typer.Argument(metavar="CLASS", help="read, write, destructive, or default: what the server says."),
    ],
    yes: Yes = False,
) -> None:
    """Set the class of one tool, whatever its server says of it.

    A class that is lower than now is asked about first.

    For example: mcpproxy tools set git:git_checkout destructive
    """
    server, colon, tool = name.partition(":")
    if not (server and colon and tool):
        raise typer.BadParameter("give it as SERVER:TOOL", param_hint="SERVER:TOOL")
    now = _class_now(session, name)
    wanted = None if tool_class == "default" else tool_class
    change = _change(name, now, wanted)
    past = _past_calls(session, server, tool, wanted)
    if session.human:
        say(change.says)
        if past is not None and past["calls"]:
            say(past["says"].partition(". ")[2])
    if change.lowers:
        confirmed("It is lower than now. Set it?", yes)
    before = set_classes(session, server, {tool: wanted})[tool]
    calls = past["calls"] if past else None
    shown = {"tool": name, "class": tool_class, "before": before, "lowers": change.lowers, "past_calls": calls}
    session.show(shown, lambda _: None)
    note(f"To undo: {_undo_line(name, before)}")


def _past_calls(session: CommandContext, server: str, tool: str, wanted: str | None) -> Mapping[str, Any] | None:
    """What the class would have done to calls that are on record; nothing where no gateway runs that can tell."""
    try:
        return session.client.post("preview", "tools", body={"server": server, "tools": {tool: wanted}})["tools"][0]
    except NoGatewayError:
        if session.where.is_named:
            raise
        return None
    except GatewayError as error:
        if error.code in (Code.NOT_FOUND, Code.CONFIG_INVALID, Code.STORE_UNAVAILABLE):
            return None  # what is wrong is said by the change itself
        raise


class ClassChange(NamedTuple):
    says: str
    lowers: bool


def _class_now(session: CommandContext, name: str) -> Mapping[str, Any] | None:
    """The tool as a running gateway shows it."""
    try:
        return session.client.get("tools", name)
    except NoGatewayError:
        if session.where.is_named:
            raise
        return None


def _change(name: str, tool: Mapping[str, Any] | None, wanted: str | None) -> ClassChange:
    """A tool of an unknown class counts as a write where it matters, and so does one that nobody can ask."""
    from mcpproxy_py.core.policy.tool_class import classify as declared_class
    from mcpproxy_py.core.values import RANK

    if tool is None:
        return ClassChange(f"{name}: {wanted or 'what its server says'}", wanted in (None, "read"))
    now, declared = tool["class"], declared_class(tool.get("annotations"))
    by = {"override": "by your override", "server": "by its server"}.get(tool["class_origin"], "no hints")
    after = wanted or declared
    said = "by your override" if wanted else "by its server" if declared != "unknown" else "no hints"
    lowers = RANK[after] < RANK[now]  # type: ignore[index]
    why = ". A freeze and `confirm` take a tool without a class for a write" if lowers and now == "unknown" else ""
    return ClassChange(f"{name}: {now} ({by}) -> {after} ({said}){why}", lowers)


def _undo_line(name: str, before: Any) -> str:
    old = "default" if before is None else _simple(before)
    if old is not None:
        return f"mcpproxy tools set {shlex.quote(name)} {old}"
    return f"put this back under `tools` of the server: {json.dumps({name.partition(':')[2]: before})}"


__all__: Iterable[str] = ("classify", "set_class", "tools_app")
