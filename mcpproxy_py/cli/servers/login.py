"""`mcpproxy upstream login` and `logout`: the person's part of a login. The gateway does the rest."""

from __future__ import annotations

import sys
import time
import webbrowser
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli.common import CommandContext, command
from mcpproxy_py.cli.output import cell, note, say, waiting
from mcpproxy_py.cli.servers.entry import Name
from mcpproxy_py.cli.servers.settle import WAIT_SECONDS, report
from mcpproxy_py.errors import EXIT_FAILED, Code, GatewayError

PAUSE: Final = 0.3
EXIT_INTERRUPTED: Final = 130


def register(app: typer.Typer) -> None:
    """Put the commands into the group `upstream`."""
    command(app, "login")(login)
    command(app, "logout")(logout)


def login(
    session: CommandContext,
    name: Name,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address only; open it yourself, on this machine.")
    ] = False,
    paste: Annotated[
        bool,
        typer.Option("--paste", help="Log in with a browser on another machine, and paste the address it ends at."),
    ] = False,
    device: Annotated[bool, typer.Option("--device", help="Log in by a code, entered on any other device.")] = False,
) -> int:
    """Log in to an upstream that needs it. The login lasts: it is renewed by itself, and outlives a restart.

    For example: mcpproxy upstream login linear
    """
    return log_in(session, name, no_browser=no_browser, paste=paste, device=device)


def log_in(session: CommandContext, name: str, *, no_browser: bool, paste: bool, device: bool) -> int:
    if paste and device:
        raise typer.BadParameter("either --paste or --device", param_hint="--paste")
    begun = session.client.post("servers", name, "login", body={"device": device})
    try:
        _ask(begun, no_browser=no_browser, paste=paste)
        if paste or not (begun.get("listens") or begun.get("user_code")):
            _hand_over(session, name)
        done = _awaited(session, name, float(begun.get("lasts") or 600))
    except KeyboardInterrupt:
        note("\nNot logged in; the page that was opened is of no use any more.")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if done.get("state") not in ("valid", "stepped_up", "refreshing"):
        raise GatewayError(Code.SERVER_UNAVAILABLE, f"Not logged in to {name}: {done.get('error') or 'it was ended'}")
    row = {"server": _row(session, name), "login": done}
    lasts = "It is renewed by itself." if done.get("renews") else "It cannot be renewed by itself."
    return report(session, name, row, f"Logged in to {name} at {cell(done.get('issuer'))}. {lasts}", wait=True,
                  seconds=WAIT_SECONDS)  # fmt: skip


def _ask(begun: Mapping[str, Any], *, no_browser: bool, paste: bool) -> None:
    url = str(begun["authorization_url"])
    if begun.get("user_code"):
        note(f"Open {cell(begun.get('verification_uri'))} on any device, and enter the code {cell(begun['user_code'])}")
        return
    if not (no_browser or paste) and _opened(url):
        note("A browser was opened. If it shows nothing, open this address yourself:")
    else:
        note("Open this address in a browser:")
    note(f"\n  {url}\n")


def _opened(url: str) -> bool:
    """By `$BROWSER`, or as the system does it."""
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _hand_over(session: CommandContext, name: str) -> None:
    """It ends at an address that leads nowhere on that machine, which is all that is needed."""
    note("Log in there. The browser then ends at a page that it may not be able to show: paste its address here.")
    sys.stderr.write("Address: ")
    sys.stderr.flush()
    address = sys.stdin.readline().strip()
    if not address:
        raise GatewayError(Code.BAD_REQUEST, "No address was given; begin again")
    session.client.post("servers", name, "login", "answer", body={"address": address})


def _awaited(session: CommandContext, name: str, lasts: float) -> Mapping[str, Any]:
    give_up = time.monotonic() + lasts + 60
    with waiting(f"Waiting for you to log in to {name} (Ctrl-C gives up)"):
        while True:
            found = session.client.get("servers", name, "login")
            if not found.get("waiting") or time.monotonic() > give_up:
                return found
            time.sleep(PAUSE)


def _row(session: CommandContext, name: str) -> Mapping[str, Any]:
    return session.client.get("servers", name).get("server") or {"name": name}


def logout(
    session: CommandContext,
    name: Name,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Have the authorization server end it too; nothing is forgotten otherwise.")
    ] = False,
) -> None:
    """Forget the login at an upstream.

    For example: mcpproxy upstream logout linear --revoke
    """
    answer = session.client.post("servers", name, "logout", body={"revoke": revoke})
    session.show(answer, lambda _: say(f"Logged out of {name}." + (" Its tokens are revoked." if revoke else "")))


def offered(session: CommandContext, name: str) -> int | None:
    """Where somebody is there to log in, and it is needed, they are asked at once; `None` where not. The server is
    there already, so a question that fails is no failure of the command."""
    if not session.human or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    try:
        needed = _row(session, name).get("state") == "needs_login"
    except GatewayError:
        return None
    if not needed:
        return None
    if not typer.confirm(f"{name} needs a login. Log in now?", default=True, err=True):
        return EXIT_FAILED
    return log_in(session, name, no_browser=False, paste=False, device=False)
