"""Changing upstreams where no gateway runs, and telling how to undo it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcpproxy_py.cli.common import Session
from mcpproxy_py.cli.locate import NoGatewayError
from mcpproxy_py.cli.output import note

MASK: Final = "***"


def edited(
    session: Session, name: str, ask: Callable[[Any], dict[str, Any]], edit: Callable[[Any], None]
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


def described(session: Session, name: str) -> Mapping[str, Any] | None:
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
