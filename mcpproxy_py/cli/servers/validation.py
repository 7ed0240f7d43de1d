"""What `mcpproxy config validate` finds beyond the text of a file: all that a start would stumble over."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mcpproxy_py.cli.common import CommandContext
from mcpproxy_py.cli.gateway.locate import NoGatewayError
from mcpproxy_py.errors import Code, GatewayError

if TYPE_CHECKING:
    from mcpproxy_py.settings import Settings


@dataclass(frozen=True, slots=True)
class Validation:
    """`problems` keep the gateway or a server from starting; `warnings` may be right on another machine."""

    problems: list[str]
    warnings: list[str] = field(default_factory=list[str])


def of_start(session: CommandContext, path: Path | None) -> Validation:
    """As `serve` would read it; `path` is the file, where there is one."""
    from mcpproxy_py import settings
    from mcpproxy_py.gateway.access.tokens import may_have_tokens

    try:
        loaded = session.where.loaded(path)
    except GatewayError as error:
        if error.code is not Code.CONFIG_INVALID:
            raise
        return Validation(list(error.details.get("problems", [error.message])))
    found = loaded.settings
    problems = [
        f"server {name} will fail: {why}"
        for name, why in found.missing_secrets.items()
        if name in found.servers and found.servers[name].enabled
    ]
    shared = found.activity.database_url is not None
    has_tokens = may_have_tokens(found.data_dir, shared=shared)
    for check in (
        lambda: settings.check_doors(found, has_tokens=has_tokens),
        lambda: settings.check_data_dir(found.data_dir),
    ):
        try:
            check()
        except GatewayError as error:
            problems.append(error.message)
    return Validation(problems, [*loaded.warnings, *_not_found(found)])


def _not_found(found: Settings) -> list[str]:
    from mcpproxy_py import doctor

    looks = doctor.commands(found)
    return [f"{look.subject} will fail: {look.says}" for look in looks if look.state == "problem"]


def of_running(session: CommandContext) -> list[str]:
    """What only a running gateway knows; nothing where none runs."""
    try:
        rows = session.client.get("servers").get("servers", [])
    except NoGatewayError:
        if session.where.is_named:
            raise
        return []
    except GatewayError as error:
        if session.where.is_named:
            raise
        return [] if error.code is Code.CONFIG_INVALID else [f"the running gateway could not be asked: {error.message}"]
    return [
        f"server {row['name']}: none of its tools is meant by {entry}"
        for row in rows
        for entry in row.get("unmatched_entries") or ()
    ]
