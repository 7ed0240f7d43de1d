"""The agent token of one client, which `connect` makes and `disconnect` revokes, so that the record says which client
it was (SEC-2). It is in a file of the data directory; what the client has is the path of that."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from mcpproxy_py.cli.clients.connections import digest
from mcpproxy_py.cli.clients.plan import Target
from mcpproxy_py.cli.common import CommandContext
from mcpproxy_py.cli.gateway.locate import NoGatewayError, announcement
from mcpproxy_py.errors import Code, GatewayError

FOLDER: Final = "tokens"
NOTE: Final = "made by `mcpproxy connect`"


class ClientToken(NamedTuple):
    """`is_there`: whether it has been made, and still opens something as far as can be told."""

    name: str
    file: Path
    is_there: bool = False


def token_of(home: Path, target: Target) -> ClientToken:
    """By the name of the client; an entry of another name, or of a project, has one of its own."""
    name = target.client.name
    if target.name != "mcpproxy":
        name = f"{name}.{target.name.lower()}"
    if target.project is not None:
        name = f"{name}.{digest(str(target.servers_file).encode())[:8]}"
    return ClientToken(name[:64], home / FOLDER / f"{name[:64]}.token")


def wanted(session: CommandContext, home: Path, target: Target) -> ClientToken | None:
    """The one that this client is to have; `None` where there is none and none can be made, because the gateway is not
    of this data directory, or does not run."""
    if session.where.is_named:
        return None
    token = token_of(home, target)
    has_file = token.file.is_file()
    unasked = token._replace(is_there=True) if has_file else None
    if announcement(home) is None:
        return unasked  # without loading what it takes to ask
    try:
        state = session.client.get("tokens", token.name).get("state")
    except NoGatewayError:
        return unasked
    except GatewayError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        state = None
    return token._replace(is_there=has_file and state == "active")


def make(session: CommandContext, home: Path, token: ClientToken) -> None:
    """Raises `GatewayError` where a person gave one of this name to somebody else."""
    from mcpproxy_py.files import private_folder, write_private

    try:
        made = session.client.post("tokens", body={"name": token.name, "note": NOTE})
    except GatewayError as error:
        if error.code is not Code.CONFLICT:
            raise
        remedy = f"Revoke it (`mcpproxy token revoke {token.name}`), or connect with --no-token."
        message = f"There is a token '{token.name}' already, and its secret is not in {token.file}"
        raise GatewayError(Code.CONFLICT, message, details={"remedy": remedy}) from None
    private_folder(home / FOLDER)
    write_private(token.file, f"{made['token']}\n")


def revoke(session: CommandContext, token: ClientToken) -> bool:
    """Whether the gateway knows of it; the file is gone in any case."""
    is_known = True
    try:
        session.client.post("tokens", token.name, "revoke")
    except GatewayError as error:
        is_known = error.code is Code.NOT_FOUND
    with suppress(OSError):
        token.file.unlink(missing_ok=True)
        os.rmdir(token.file.parent)
    return is_known
