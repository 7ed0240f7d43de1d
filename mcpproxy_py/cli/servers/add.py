"""`mcpproxy upstream add`, `edit` and `show`: one server from its entry to what came of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import typer

from mcpproxy_py.cli.common import CommandContext, command
from mcpproxy_py.cli.completion import catalog_slugs
from mcpproxy_py.cli.gateway.locate import NoGatewayError
from mcpproxy_py.cli.output import note
from mcpproxy_py.cli.servers import entry as entries
from mcpproxy_py.cli.servers.changes import DryRun, edited, entry_of, previewed, print_previewed
from mcpproxy_py.cli.servers.editor import edit_entry
from mcpproxy_py.cli.servers.settle import WAIT_SECONDS, NoWait, WaitFor, report
from mcpproxy_py.cli.servers.view import LOG_LINES, print_configured, print_server
from mcpproxy_py.errors import EXIT_OK, GatewayError

Program = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND ARGS", help="The command that starts it.")]


def register(app: typer.Typer) -> None:
    """Put the commands into the group `upstream`."""
    command(app, "add")(add)
    command(app, "show")(show)
    command(app, "edit")(edit)


def add(
    session: CommandContext,
    name: Annotated[str | None, typer.Argument(help="The name of the upstream; that of the catalog by itself.")] = None,
    program: Program = None,
    from_catalog: Annotated[
        str | None,
        typer.Option(
            "--from-catalog",
            metavar="SLUG",
            help="A server of the catalog; see `mcpproxy catalog servers`.",
            autocompletion=catalog_slugs,
        ),
    ] = None,
    url: entries.Url = None,
    transport: entries.Transport = None,
    env: entries.Env = None,
    header: entries.Header = None,
    arg: entries.MoreArgs = None,
    lazy: entries.Lazy = False,
    timeout: entries.Timeout = None,
    cwd: entries.Cwd = None,
    sessions: entries.Sessions = None,
    allow_tool: entries.AllowTools = None,
    deny_tool: entries.DenyTools = None,
    trust: entries.Trust = None,
    json_config: entries.Json = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an upstream of this name.")] = False,
    no_check: entries.NoCheck = False,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    wait_for: WaitFor = WAIT_SECONDS,
) -> int:
    """Add an upstream, to the running gateway and to its configuration file, and wait until it is connected or has
    failed. Nothing is written that could not be used.

    For example: mcpproxy upstream add time -- uvx mcp-server-time
    """
    flags = (transport, env, header, lazy, timeout, cwd, sessions, allow_tool, deny_tool, trust)
    if from_catalog is not None:
        if url or json_config is not None:
            raise typer.BadParameter("give no --url and no --json with it", param_hint="--from-catalog")
        name = entries.checked_name(name or from_catalog)
        config = _from_catalog(session, from_catalog, name, flags, [*(program or ()), *(arg or ())])
    else:
        if name is None:
            raise typer.BadParameter("give a name, or --from-catalog SLUG", param_hint="NAME")
        name = entries.checked_name(name)
        config = entries.from_flags([*(program or ()), *(arg or ())] if program else None, url, *flags)
        if json_config is not None:
            config = {**entries.from_json(json_config, name), **config}
        elif bool(program) == bool(url):
            raise typer.BadParameter("give either a command after -- or --url", param_hint="NAME")
    return added(
        session, name, config, replace=replace, check=not no_check, dry_run=dry_run, wait=not no_wait, seconds=wait_for,
        may_log_in=url is not None,
    )  # fmt: skip


def added(
    session: CommandContext, name: str, config: dict[str, Any], *, replace: bool, check: bool, dry_run: bool,
    wait: bool, seconds: float, may_log_in: bool,
) -> int:  # fmt: skip
    """The one way by which a server is added, wherever its entry is from: the checks, the record, and what came of
    it."""
    _recommend(config)
    if dry_run:
        action = "replace" if replace else "add"
        session.show(previewed(session, action, name, config, check=check), print_previewed)
        return EXIT_OK
    answer = _put(session, name, config, replace=replace, check=check)
    status = report(session, name, answer, f"Added {name}.", wait=wait, seconds=seconds)
    if not (may_log_in and wait):
        return status
    from mcpproxy_py.cli.servers.login import offered

    after = offered(session, name)
    return status if after is None else after


def _recommend(config: dict[str, Any]) -> None:
    """What the catalog knows of how its sessions had better be shared, where nobody said how."""
    if "sessions" in config or not config.get("command"):
        return
    from mcpproxy_py.providers.catalog.recommended_sessions import recommended_sessions

    if known := recommended_sessions(str(config["command"]), [str(arg) for arg in config.get("args", ())]):
        config["sessions"], why = known
        note(f"Its sessions: {config['sessions']}, as the catalog recommends: {why}")


def _from_catalog(
    session: CommandContext, slug: str, name: str, flags: tuple[Any, ...], args: list[str]
) -> dict[str, Any]:
    from mcpproxy_py.cli.servers.from_catalog import entry_for, found

    return entry_for(found(session, slug), entries.from_flags(None, None, *flags), args, name=name)


def _put(
    session: CommandContext, name: str, config: dict[str, Any], *, replace: bool, check: bool = True
) -> dict[str, Any]:
    said = {**({"replace": True} if replace else {}), **({} if check else {"check": False})}
    return edited(
        session,
        name,
        lambda client: client.post("servers", body={"name": name, "config": config, **said}),
        lambda file: file.put_server(name, config, replace=replace, secrets_must_be_there=check),
    )


def edit(
    session: CommandContext,
    name: entries.Name,
    program: Program = None,
    url: entries.Url = None,
    transport: entries.Transport = None,
    env: entries.Env = None,
    header: entries.Header = None,
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="VALUE", help="Its arguments, instead of those it has; repeatable."),
    ] = None,
    lazy: Annotated[bool | None, typer.Option("--lazy/--no-lazy", help="Start it on first use.")] = None,
    timeout: entries.Timeout = None,
    cwd: entries.Cwd = None,
    sessions: entries.Sessions = None,
    allow_tool: entries.AllowTools = None,
    deny_tool: entries.DenyTools = None,
    trust: entries.Trust = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Take a key out, such as timeout or env.TOKEN; repeatable."),
    ] = None,
    json_config: entries.Json = None,
    no_check: entries.NoCheck = False,
    no_wait: NoWait = False,
    wait_for: WaitFor = WAIT_SECONDS,
) -> int:
    """Change an upstream: in the editor of $VISUAL or $EDITOR, or by flags. It is checked before it is written; `***`
    stands for a secret that stays as it is.

    For example: mcpproxy upstream edit time --timeout 30 --env TZ=UTC
    """
    given = entries.from_flags(
        program, url, transport, env, header, lazy, timeout, cwd, sessions, allow_tool, deny_tool, trust
    )
    given |= {"lazy": False} if lazy is False else {}
    given |= {"args": arg} if arg and not program else {"args": [*given.get("args", ()), *arg]} if arg else {}

    def put(config: dict[str, Any]) -> dict[str, Any]:
        return _put(session, name, config, replace=True, check=not no_check)

    if json_config is not None:
        answer = put({**entries.from_json(json_config, name), **given})
    elif given or unset:
        answer = put(entries.changed(entry_of(session, name), given, unset))
    else:
        answer = edit_entry(name, entry_of(session, name), put)
        if answer is None:
            note("Nothing was changed.")
            return EXIT_OK
    return report(session, name, answer, f"Changed {name}.", wait=not no_wait, seconds=wait_for)


def show(session: CommandContext, name: entries.Name) -> None:
    """One upstream: its state and why, its tools by class, its sessions, its configuration with secrets masked, and the
    end of its log.

    For example: mcpproxy upstream show time
    """
    try:
        answer = session.client.get("servers", name)
    except NoGatewayError:
        if session.where.is_named:
            raise
        note("No gateway is running; this is how it is configured.")
        config = dict(entry_of(session, name))
        session.show({"config": config}, lambda shown: print_configured(name, shown["config"]))
        return
    log: list[str] = []
    with suppress(GatewayError):
        log = session.client.get("servers", name, "logs", lines=LOG_LINES).get("lines", [])
    session.show({**answer, "log": log}, lambda shown: print_server(shown, log))
