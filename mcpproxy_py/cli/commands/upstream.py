"""`mcpproxy upstream`: the servers behind the gateway. With none running, the configuration file is edited instead.

Changing upstreams where no gateway runs, and telling how to undo it.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group, json_object, key_values
from mcpproxy_py.cli.completion import server_names
from mcpproxy_py.cli.locate import NoGatewayError
from mcpproxy_py.cli.output import Format, cell, note, say, table
from mcpproxy_py.errors import Code, GatewayError

MASK: Final = "***"


def edited(
    session: CommandContext, name: str, ask: Callable[[Any], dict[str, Any]], edit: Callable[[Any], None]
) -> dict[str, Any]:
    """The change made by the running gateway, or else to the file. A gateway that was named must be there."""
    try:
        return ask(session.client)
    except NoGatewayError:
        if session.where.is_named:
            raise
    from mcpproxy_py import settings

    path = session.where.config_path()
    settings.ensure_data_dir(session.where.home())
    edit(settings.ConfigFile(path))
    note(f"No gateway is running, so {path} was changed; it applies when one starts.")
    return {"name": name, "changed": str(path)}


def described(session: CommandContext, name: str) -> Mapping[str, Any] | None:
    """How an upstream is configured now, secrets masked."""
    try:
        shown = session.client.get("config")
    except NoGatewayError:
        if session.where.is_named:
            raise
        from mcpproxy_py import settings

        shown = settings.shown(session.where.loaded().settings)
    servers = shown.get("mcpServers")
    found = servers.get(name) if isinstance(servers, dict) else None
    return found if isinstance(found, dict) else None


def undo_line(name: str, config: Mapping[str, Any]) -> str:
    """The command that would put it back; what is masked has to be filled in again by the person."""
    entry = json.dumps({key: value for key, value in config.items() if value != _defaults().get(key)})
    line = f"mcpproxy upstream add {shlex.quote(name)} --json {shlex.quote(entry)}"
    return f"{line}\n(with its secrets in place of {MASK})" if MASK in entry else line


def _defaults() -> dict[str, Any]:
    from mcpproxy_py.settings import ServerSettings

    return json.loads(
        json.dumps({key: field.default for key, field in ServerSettings.model_fields.items()}, default=str)
    )


app = group("The MCP servers behind the gateway.")

MAX_LOG_LINES: Final = 5000
POLL_SECONDS: Final = 1.0

Name = Annotated[str, typer.Argument(help="The name of the upstream.", autocompletion=server_names)]


@command(app, "list")
def list_upstreams(session: CommandContext) -> None:
    """Every upstream with its state.

    For example: mcpproxy upstream list
    """
    session.show(session.client.get("servers"), _print_servers)


@command(app, "add")
def add(
    session: CommandContext,
    name: Name,
    program: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND ARGS", help="The command that starts it.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="Its address, for a server over HTTP.")] = None,
    transport: Annotated[str | None, typer.Option("--transport", metavar="http|sse", help="Its transport.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="K=V", help="A variable for the command; repeatable. ${env:NAME} works."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="K=V", help="A header for the address; repeatable. ${env:NAME} works."),
    ] = None,
    lazy: Annotated[bool, typer.Option("--lazy", help="Start it on first use.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="How long a call may take.")
    ] = None,
    json_config: Annotated[
        str | None,
        typer.Option("--json", metavar="JSON", help="The whole entry as in mcpServers: an object, @file, or -."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an upstream of this name.")] = False,
) -> None:
    """Add an upstream, to the running gateway and to its configuration file.

    For example: mcpproxy upstream add time -- uvx mcp-server-time
    """
    given: dict[str, Any] = {
        "command": program[0] if program else None,
        "args": program[1:] if program else None,
        "url": url,
        "transport": transport,
        "env": key_values(env, "--env"),
        "headers": key_values(header, "--header"),
        "lazy": lazy,
        "timeout": timeout,
    }
    config = {key: value for key, value in given.items() if value}
    if json_config is not None:
        config = {**json_object(json_config, "--json"), **config}
    elif bool(program) == bool(url):
        raise typer.BadParameter("give either a command after -- or --url", param_hint="NAME")
    answer = _put(session, name, config, replace)
    session.show(answer, lambda _: say(f"Added {name}."))


def _put(session: CommandContext, name: str, config: dict[str, Any], replace: bool) -> dict[str, Any]:
    def ask(client: Any) -> dict[str, Any]:
        return client.post("servers", body={"name": name, "config": config, **({"replace": True} if replace else {})})

    return edited(session, name, ask, lambda file: file.put_server(name, config, replace=replace))


@command(app, "remove")
def remove(
    session: CommandContext,
    name: Name,
    yes: Yes = False,
) -> None:
    """Remove an upstream, after a confirmation; without a terminal --yes is needed.

    For example: mcpproxy upstream remove time
    """
    config = described(session, name)
    what = (config or {}).get("command") or (config or {}).get("url") or "no configuration known"
    confirmed(f"Remove the upstream {name} ({what})?", yes)
    answer = edited(session, name, lambda client: client.delete("servers", name), lambda file: file.drop_server(name))
    session.show(answer, lambda _: say(f"Removed {name}."))
    if config is not None:
        note(f"To undo: {undo_line(name, config)}")


@command(app, "enable")
def enable(session: CommandContext, name: Name) -> None:
    """Enable an upstream again.

    For example: mcpproxy upstream enable time
    """
    _switch(session, name, "enable")


@command(app, "disable")
def disable(session: CommandContext, name: Name) -> None:
    """Disable an upstream; it stays configured.

    For example: mcpproxy upstream disable time
    """
    _switch(session, name, "disable")


def _switch(session: CommandContext, name: str, verb: str) -> None:
    answer = edited(
        session,
        name,
        lambda client: client.post("servers", name, verb),
        lambda file: file.set_enabled(name, verb == "enable"),
    )
    session.show(answer, lambda _: say(f"{verb.capitalize()}d {name}."))


@command(app, "restart")
def restart(session: CommandContext, name: Name) -> None:
    """Stop an upstream and start it again.

    For example: mcpproxy upstream restart time
    """
    session.show(session.client.post("servers", name, "restart"), lambda _: say(f"Restarted {name}."))


@command(app, "logs")
def logs(
    session: CommandContext,
    name: Name,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=1, max=MAX_LOG_LINES, help="Number of lines, from the end.")
    ] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines, until Ctrl-C.")] = False,
) -> None:
    """What an upstream wrote to its stderr.

    For example: mcpproxy upstream logs time -f
    """
    if not follow:
        answer = session.client.get("servers", name, "logs", lines=lines)
        session.show(answer, lambda shown: _print_lines(shown.get("lines", [])))
        return
    if session.format is Format.YAML:
        raise GatewayError(Code.BAD_REQUEST, "--follow prints lines; use it with -o table or json")
    emit = _print_lines if session.human else _print_json_lines
    for fresh in _fresh_lines(lambda: session.client.get("servers", name, "logs", lines=MAX_LOG_LINES)["lines"], lines):
        emit(fresh)


def _fresh_lines(read: Callable[[], list[str]], first: int) -> Iterator[list[str]]:
    """The last so many lines, then new ones, by comparing one tail of the log with the next: the log has no position to
    ask for."""
    seen = read()
    yield seen[-first:]
    while True:
        time.sleep(POLL_SECONDS)
        now = read()
        yield now[_overlap(seen, now) :]
        seen = now


def _overlap(before: list[str], after: list[str]) -> int:
    """How many lines at the start of `after` are the end of `before`."""
    longest = min(len(before), len(after))
    return next((size for size in range(longest, 0, -1) if before[-size:] == after[:size]), 0)


def _print_lines(lines: list[str]) -> None:
    if lines:
        say("\n".join(lines))
        sys.stdout.flush()


def _print_json_lines(lines: list[str]) -> None:
    import json

    for line in lines:
        print(json.dumps(line), flush=True)


def _print_servers(answer: Mapping[str, Any]) -> None:
    keys = ("name", "state", "transport", "tool_count", "error")
    rows = [[server.get(key) for key in keys] for server in answer.get("servers", [])]
    table(("name", "state", "transport", "tools", "error"), rows, empty="No upstreams.")
    for server in answer.get("servers", []):
        for tool, why in server.get("left_out", {}).items():
            note(f"{cell(server.get('name'))}: the tool {cell(tool)} is left out: {cell(why)}")
        for entry in server.get("unmatched_entries", []):
            note(f"{cell(server.get('name'))}: none of its tools is meant by {cell(entry)}")
