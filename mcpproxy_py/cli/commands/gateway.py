"""`mcpproxy serve` and `mcpproxy stdio`: the two commands that are a gateway, or lead to one."""

from __future__ import annotations

import gc
from typing import Annotated, Literal

import typer

from mcpproxy_py.cli.common import Session, command, group

app = group("Run a gateway, or reach one over stdio.")


@command(app, "serve", prints=False)
def serve(
    session: Session,
    idle_exit: Annotated[float | None, typer.Option("--idle-exit", metavar="SECONDS", min=0.0, hidden=True)] = None,
    detached: Annotated[bool, typer.Option("--detached", hidden=True)] = False,
) -> int:
    """Run the gateway in the foreground.

    Without any configuration it makes a data directory, serves the gate without any servers yet, and prints the
    address to connect to.
    """
    # Nothing that an import makes is garbage, and looking for some takes a twentieth of the start.
    gc.disable()
    # Before the import of the server: a mistake in the configuration is told at once.
    loaded = session.where.loaded()
    from mcpproxy_py.app import compose as gateway

    gc.freeze()
    gc.enable()
    return gateway.serve(loaded, idle_exit=idle_exit, detached=detached)


@command(app, "stdio", prints=False)
def stdio(
    session: Session,
    surface: Annotated[
        Literal["gate", "direct"], typer.Option("--surface", metavar="gate|direct", help="Which tools to show.")
    ] = "gate",
    server: Annotated[
        str | None, typer.Option("--server", metavar="NAME", help="Show this one upstream (passthrough) instead.")
    ] = None,
) -> int:
    """Speak MCP over stdin and stdout.

    For clients that launch a command. It attaches to the one gateway of the data directory; with none running it
    starts one, which ends after it was idle for a while.
    """
    from mcpproxy_py.cli import attach

    return attach.run(session.where.home(), surface=surface, server=server, config=session.where.config)
