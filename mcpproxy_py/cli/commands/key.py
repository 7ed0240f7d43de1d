"""`mcpproxy key`: the admin key, which opens REST and never an MCP surface."""

from __future__ import annotations

from typing import Any

from mcpproxy_py.cli.common import Session, command, group
from mcpproxy_py.cli.locate import NoGatewayError
from mcpproxy_py.cli.output import note, say
from mcpproxy_py.errors import Code, GatewayError

app = group("The admin key, which opens the REST interface.")


@command(app, "show")
def show(session: Session) -> None:
    """Print the admin key; one is made if there is none yet."""
    session.show({"key": session.where.configured_key() or _kept_key(session)}, _print_key)


def _kept_key(session: Session) -> str:
    from mcpproxy_py import settings

    home = session.where.home()
    settings.ensure_data_dir(home)
    return settings.load_or_create_key(home)


@command(app, "rotate")
def rotate(session: Session) -> None:
    """Make a new admin key; the old one stops working at once."""
    session.show(_rotated(session), _print_key)


def _rotated(session: Session) -> dict[str, Any]:
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
