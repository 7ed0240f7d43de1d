"""What a refusal says to a person at a command line. The gate's own words are for agents, and name tools of theirs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Final

from mcpproxy_py.errors import EXIT_REFUSED, FACTS, Code, GatewayError


def for_person(error: GatewayError, name: str, variant: str) -> GatewayError:
    """The same refusal with the command that helps, and where its steps are shown. `name` and `variant` are what was
    called."""
    if FACTS[error.code].exit != EXIT_REFUSED:
        return error
    message = _AGENTS_WORDS.sub(r"`mcpproxy call tool-\1`", error.message).replace("`mcpproxy call tool-read`: ", "")
    helps = _HELPS.get(error.code, lambda *_: FACTS[error.code].hint)(error, name, variant)
    rule = error.details.get("rule")
    steps = f"\n  Refused by the step `{rule}`: {_command('explain', name, '--variant', variant)}" if rule else ""
    return GatewayError(error.code, message, details={**error.details, "remedy": helps + steps})


_AGENTS_WORDS: Final = re.compile(r"\bcall_tool_(read|write|destructive)\b")
Helps = Callable[[GatewayError, str, str], str]


def _command(*words: str) -> str:
    return shlex.join(("mcpproxy", *words))


def _other_class(error: GatewayError, name: str, variant: str) -> str:
    wanted = _AGENTS_WORDS.search(error.message)
    if wanted is None:
        return FACTS[error.code].hint
    return f"If that is what you want, with the same arguments: {_command('call', f'tool-{wanted[1]}', name)}"


def _another_name(error: GatewayError, name: str, variant: str) -> str:
    return "All names: mcpproxy tools list. To find one by what it does: mcpproxy tools search 'WHAT IT DOES'"


def _unavailable(error: GatewayError, name: str, variant: str) -> str:
    server = name.partition(":")[0]
    if "disabled" in error.message:
        return f"To enable it: {_command('upstream', 'enable', server)}"
    if (error.details or {}).get("reason") == "changed" or "`mcpproxy pins " in error.message:
        return f"How it differs, and how to decide: {_command('pins', 'diff', server)}"
    lists = _command("config", "get", f"mcpServers.{server}")
    return f"The configuration excludes it (allow_tools, deny_tools): {lists}"


def _server_down(error: GatewayError, name: str, variant: str) -> str:
    server = name.partition(":")[0]
    return f"What it wrote: {_command('logs', server)}. To start it again: {_command('upstream', 'restart', server)}"


def _arguments(error: GatewayError, name: str, variant: str) -> str:
    return f"What it takes: {_command('tools', 'show', name)}"


def _ask_a_person(error: GatewayError, name: str, variant: str) -> str:
    if "takes no forms" not in error.message:
        return "Nothing was called."
    return (
        "The configuration wants a person asked before this (confirm). Run the command on a terminal, with arguments "
        "from the line or @FILE, and you are asked there."
    )


def _frozen(error: GatewayError, name: str, variant: str) -> str:
    return "To lift the freeze: mcpproxy unfreeze"


_HELPS: Final[Mapping[Code, Helps]] = {
    Code.SERVER_MISMATCH: _other_class,
    Code.TOOL_NOT_FOUND: _another_name,
    Code.INVALID_NAME: _another_name,
    Code.TOOL_UNAVAILABLE: _unavailable,
    Code.SERVER_UNAVAILABLE: _server_down,
    Code.INVALID_ARGUMENTS: _arguments,
    Code.NOT_CONFIRMED: _ask_a_person,
    Code.FROZEN: _frozen,
}
