"""`mcpproxy ui`: the page of the running gateway, in a browser."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mcpproxy_py.cli.common import CommandContext, command, group
from mcpproxy_py.cli.output import cell, note, say

app = group("The page of the gateway, in a browser.")


@command(app, "ui")
def ui(
    session: CommandContext,
    print_link: Annotated[
        bool, typer.Option("--print", help="Print a link that works once and for a minute; open no browser.")
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="URL",
            help="Where the browser reaches the gateway, if not at its own address on this machine.",
        ),
    ] = None,
    log_out: Annotated[
        bool, typer.Option("--logout", help="End all sessions of the page, and links not used yet.")
    ] = False,
) -> None:
    """Open the page of the running gateway in a browser.

    The browser gets a session by a link that works once and for a minute; the admin key stays here. The session ends
    by logging out, after eight hours, and with `mcpproxy key rotate`. The browser is that of $BROWSER, or of the
    system.

    A link works on this machine only. For a browser elsewhere, behind a tunnel or a proxy with TLS, name the address
    that leads there.

    For example: mcpproxy ui --print --address https://gateway.example
    """
    if log_out:
        if print_link or address:
            raise typer.BadParameter("alone, without --print and --address", param_hint="--logout")
        session.show(session.client.delete("page", "sessions"), _say_ended)
        return
    made = session.client.post("page", "links", body={} if address is None else {"address": address})
    session.show(made, _say_link if print_link or not _opened(str(made["url"])) else _say_opened)


def _opened(url: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _say_opened(made: dict[str, Any]) -> None:
    say(f"The page was opened in a browser, at {cell(str(made['url']).partition('#')[0])}")
    note("If it shows nothing: `mcpproxy ui --print`, and open that link yourself.")


def _say_link(made: dict[str, Any]) -> None:
    say(str(made["url"]))
    where = "on this machine" if made.get("local_only") else "wherever that address leads here"
    note(f"Open it in a browser {where}, within a minute. It works once.")


def _say_ended(answer: dict[str, Any]) -> None:
    count = answer["ended"]
    say("No session of the page was open." if not count else f"Ended {count} session{'s' if count > 1 else ''}.")
