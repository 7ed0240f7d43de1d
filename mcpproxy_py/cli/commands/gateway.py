"""`mcpproxy serve` and `mcpproxy stdio`: the two commands that are a gateway, or lead to one.

`mcpproxy freeze` and `unfreeze`: the running gateway as a whole.

`mcpproxy key`: the admin key, which opens REST and never an MCP surface.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group
from mcpproxy_py.cli.completion import profile_names, server_names
from mcpproxy_py.cli.gateway.locate import NoGatewayError
from mcpproxy_py.cli.output import note, say
from mcpproxy_py.errors import Code, GatewayError

serve_app = group("Run a gateway, or reach one over stdio.")


@command(serve_app, "serve", prints=False)
def serve(
    session: CommandContext,
    idle_exit: Annotated[float | None, typer.Option("--idle-exit", metavar="SECONDS", min=0.0, hidden=True)] = None,
    detached: Annotated[bool, typer.Option("--detached", hidden=True)] = False,
) -> int:
    """Run the gateway in the foreground.

    Without any configuration it makes a data directory, serves the gate without any servers yet, and prints the
    address to connect to.

    For example: mcpproxy serve --listen 127.0.0.1:9000
    """
    # Nothing that an import makes is garbage, and looking for some takes a twentieth of the start.
    gc.disable()
    # Before the import of the server: a mistake in the configuration is told at once.
    loaded = session.where.loaded()
    from mcpproxy_py.app import compose as gateway

    gc.freeze()
    gc.enable()
    return gateway.serve(loaded, idle_exit=idle_exit, detached=detached, examine=_examined)


def _examined(settings: Any, status: Any, rows: Any) -> list[dict[str, Any]]:
    """Imported when somebody asks how it is."""
    from mcpproxy_py.doctor import examined

    return examined(settings, status, rows)


@command(serve_app, "stdio", prints=False)
def stdio(
    session: CommandContext,
    surface: Annotated[
        Literal["gate", "direct"], typer.Option("--surface", metavar="gate|direct", help="Which tools to show.")
    ] = "gate",
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="NAME",
            help="Show this one upstream (passthrough) instead.",
            autocompletion=server_names,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="Show only what is in this profile.",
            autocompletion=profile_names,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            envvar="MCPPROXY_TOKEN_FILE",
            metavar="FILE",
            help="Be the agent whose token is in this file; without one, you.",
        ),
    ] = None,
) -> int:
    """Speak MCP over stdin and stdout.

    For clients that launch a command. It attaches to the one gateway of the data directory; with none running it
    starts one, which ends after it was idle for a while. When the gateway is restarted it attaches again, and only
    requests that were under way fail.

    A file .mcpproxy.json in the project where the client works names a profile too: {"profile": "NAME"}. It is looked
    for from the current directory up, and in the client's roots. All that are named apply.

    Who may open the gateway's socket is its user, and may do everything. With a token it is that agent, on record as
    agent:NAME, and may do what that may. The file is read again at each attachment.

    For example: mcpproxy stdio --surface direct
    """
    from mcpproxy_py.cli.stdio import bridge as stdio_bridge

    return stdio_bridge.run(
        session.where.home(),
        surface=surface,
        server=server,
        profile=profile,
        config=session.where.config,
        token_file=token_file.expanduser().absolute() if token_file else None,
    )


gateway_app = group("The running gateway.")


@command(gateway_app, "freeze")
def freeze(session: CommandContext) -> None:
    """Refuse everything above read, at once.

    Reads go on. It lasts until `mcpproxy unfreeze`, also through a restart.

    For example: mcpproxy freeze
    """
    answer = session.client.post("freeze")
    session.show(answer, lambda _: say("Frozen: only reads run, until `mcpproxy unfreeze`."))


@command(gateway_app, "unfreeze")
def unfreeze(session: CommandContext) -> None:
    """Lift a freeze.

    For example: mcpproxy unfreeze
    """
    answer = session.client.post("unfreeze")
    session.show(answer, lambda _: say("Unfrozen: writes and deletions run again."))


key_app = group("The admin key, which opens the REST interface.")


@command(key_app, "show")
def show(session: CommandContext) -> None:
    """Print the admin key; one is made if there is none yet.

    For example: mcpproxy key show
    """
    session.show({"key": session.where.configured_key() or _kept_key(session)}, _print_key)


def _kept_key(session: CommandContext) -> str:
    from mcpproxy_py import settings

    home = session.where.home()
    settings.ensure_data_dir(home)
    return settings.load_or_create_key(home)


@command(key_app, "rotate")
def rotate(session: CommandContext, yes: Yes = False) -> None:
    """Make a new admin key, after a confirmation; the old one stops working at once.

    For example: mcpproxy key rotate
    """
    confirmed("Make a new admin key? Whatever uses the old one stops working at once.", yes)
    session.show(_rotated(session), _print_key)


def _rotated(session: CommandContext) -> dict[str, Any]:
    try:
        return session.client.post("key", "rotate")
    except NoGatewayError:
        if session.where.is_named:
            raise
    from mcpproxy_py import settings

    if session.where.configured_key():
        raise GatewayError(Code.CONFLICT, "The key is set by api_key in the configuration; change it there")
    home = session.where.home()
    settings.ensure_data_dir(home)
    note("No gateway is running; the next one starts with this key.")
    return {"key": settings.rotate_key(home)}


def _print_key(answer: dict[str, Any]) -> None:
    say(answer["key"])
