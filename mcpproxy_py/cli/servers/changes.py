"""Changing servers at the running gateway, or in the configuration file where none runs; and how to undo it.

Where no gateway runs a file is mended whatever is wrong in it, so nothing here may need it to be right.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli.common import CommandContext
from mcpproxy_py.cli.gateway.locate import NoGatewayError
from mcpproxy_py.cli.output import note
from mcpproxy_py.errors import Code, GatewayError

MASK: Final = "***"
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and change nothing.")]


def edited(
    session: CommandContext, name: str, ask: Callable[[Any], dict[str, Any]], edit: Callable[[Any], None]
) -> dict[str, Any]:
    """The change made by the running gateway, or else to the file. A gateway that was named must be there."""
    client = _client(session)
    try:
        if client is not None:
            return ask(client)
    except NoGatewayError:
        if session.where.is_named:
            raise
    file = _file(session)
    edit(file)
    note(f"No gateway is running, so {file.path} was changed; it applies when one starts.")
    for says in file.left_wrong:
        note(f"Still wrong: {says}")
    return {"name": name, "changed": str(file.path)}


def entry_of(session: CommandContext, name: str) -> Mapping[str, Any]:
    """How a server is written in the configuration file, secrets masked. Raises `NOT_FOUND` where it is not there."""
    client = _client(session)
    entry: Mapping[str, Any] | None = None
    try:
        if client is None:
            return _known(_file(session), name)
        entry = client.get("servers", name).get("config")
    except NoGatewayError:
        if session.where.is_named:
            raise
        return _known(_file(session), name)
    if entry is None:
        remedy = "It lives inside the gateway, or comes from the environment."
        message = f"{name} is not in the configuration file, so there is no entry to change"
        raise GatewayError(Code.NOT_FOUND, message, details={"name": name, "remedy": remedy})
    return entry


def previewed(session: CommandContext, action: str, name: str, config: Mapping[str, Any] | None = None,
              *, check: bool = True) -> dict[str, Any]:  # fmt: skip
    """What the running gateway says that it would do. Nothing is written."""
    body = {"action": action, "name": name, "check": check, **({"config": config} if config is not None else {})}
    return session.client.post("preview", "server", body=body)


def print_previewed(answer: Mapping[str, Any]) -> None:
    from mcpproxy_py.cli.output import clean, say

    for sentence in answer["says"]:
        say(clean(sentence))
    for direction in ("looser", "tighter"):
        for sentence in answer[direction]:
            note(f"{direction.capitalize()}: {clean(sentence)}")
    note("Nothing was changed.")


def described(session: CommandContext, name: str) -> Mapping[str, Any] | None:
    """How an upstream is configured now, secrets masked; `None` where nobody can tell."""
    client = _client(session)
    try:
        if client is None:
            return _file(session).entry(name)
        found = (client.get("config").get("mcpServers") or {}).get(name)
        return found if isinstance(found, dict) else None
    except NoGatewayError:
        if session.where.is_named:
            raise
        return _file(session).entry(name)


def _client(session: CommandContext) -> Any:
    """`None` where the configuration is too broken to say where a gateway would listen, and none said so itself."""
    try:
        return session.client
    except GatewayError as error:
        if error.code is not Code.CONFIG_INVALID or session.where.is_named:
            raise
        return None


def _file(session: CommandContext) -> Any:
    from mcpproxy_py import settings

    with suppress(GatewayError):  # of a broken file nobody knows the directory; its own is made with the first change
        settings.ensure_data_dir(session.where.home())
    return settings.ConfigFile(session.where.config_path(), check=session.where.check, mends=True)


def _known(file: Any, name: str) -> Mapping[str, Any]:
    found = file.entry(name)
    if found is None:
        raise file.unknown(name)
    return found


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
