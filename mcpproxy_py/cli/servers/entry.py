"""An entry of `mcpServers` from what people type: flags, JSON, a snippet of somebody's documentation."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli.common import json_object, key_values
from mcpproxy_py.cli.completion import server_names

NAME: Final = re.compile(r"[a-z0-9](?!.*__)[a-z0-9_-]{0,31}")
_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_PAIR: Final = re.compile(r"([^:=]+)([:=])(.*)", re.DOTALL)
MAPPINGS: Final = ("env", "headers", "tools")

Name = Annotated[str, typer.Argument(help="The name of the upstream.", autocompletion=server_names)]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="K=V", help="A variable for the command; repeatable. ${env:NAME} works."),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'K: V'", help="A header for the address; repeatable. ${env:NAME} works."),
]
Transport = Annotated[str | None, typer.Option("--transport", metavar="stdio|http|sse", help="Its transport.")]
Url = Annotated[str | None, typer.Option("--url", help="Its address, for a server over HTTP.")]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="How long a call may take.")]
Cwd = Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="The directory to start it in.")]
Sessions = Annotated[
    str | None,
    typer.Option("--sessions", metavar="auto|shared|exclusive|per_client", help="Which calls share a session with it."),
]
Trust = Annotated[
    str | None,
    typer.Option(
        "--trust", metavar="auto|manual", help="Who approves what it lists first, and new tools: the gateway, or you."
    ),
]
AllowTools = Annotated[
    list[str] | None,
    typer.Option("--allow-tool", metavar="NAME", help="Only these tools can be called; names or globs, repeatable."),
]
DenyTools = Annotated[
    list[str] | None,
    typer.Option("--deny-tool", metavar="NAME", help="These tools cannot be called; names or globs, repeatable."),
]
Json = Annotated[
    str | None,
    typer.Option("--json", metavar="JSON", help="The whole entry as in mcpServers: an object, @file, or -."),
]
Lazy = Annotated[bool, typer.Option("--lazy", help="Start it on first use.")]
MoreArgs = Annotated[
    list[str] | None,
    typer.Option("--arg", metavar="VALUE", help="An argument after those of the catalog; repeatable."),
]
NoCheck = Annotated[bool, typer.Option("--no-check", help="Write it even if one of its secrets is missing.")]


def checked_name(name: str) -> str:
    """The name, if it can be one; what is said of another names one that can."""
    if NAME.fullmatch(name):
        return name
    near = _NO_NAME.sub("-", name.lower()).strip("-")[:32].strip("-")
    example = f", such as {near}" if near else ""
    raise typer.BadParameter(
        f"a name has 1 to 32 of a-z 0-9 _ -, starts with a letter or digit and has no `__`{example}", param_hint="NAME"
    )


def headers(given: Sequence[str] | None) -> dict[str, str]:
    """`K: V` as in HTTP, or `K=V`. What is neither is not repeated: it may be a secret."""
    found: dict[str, str] = {}
    for item in given or ():
        pair = _PAIR.fullmatch(item)
        if pair is None or not pair[1].strip():
            raise typer.BadParameter("expected 'K: V' or K=V", param_hint="--header")
        found[pair[1].strip()] = pair[3].strip() if pair[2] == ":" else pair[3]
    return found


def from_json(given: str, name: str) -> dict[str, Any]:
    """The entry itself, or a whole `mcpServers` of a client with this one or only one in it."""
    value = json_object(given, "--json")
    servers = value.get("mcpServers")
    if set(value) != {"mcpServers"} or not isinstance(servers, Mapping):
        return value
    chosen = servers.get(name) if name in servers else next(iter(servers.values())) if len(servers) == 1 else None
    if not isinstance(chosen, Mapping):
        message = f"has {len(servers)} servers and none is named {name}; give one entry, or use `mcpproxy import`"
        raise typer.BadParameter(message, param_hint="--json")
    return dict(chosen)


def from_flags(
    program: Sequence[str] | None, url: str | None, transport: str | None, env: Sequence[str] | None,
    header: Sequence[str] | None, lazy: bool | None, timeout: float | None, cwd: str | None, sessions: str | None,
    allow: Sequence[str] | None, deny: Sequence[str] | None, trust: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Only what was given."""
    given: dict[str, Any] = {
        "command": _from_here(program[0]) if program else None,
        "args": list(program[1:]) if program else None,
        "url": url,
        "transport": transport,
        "env": key_values(env, "--env"),
        "headers": headers(header),
        "lazy": lazy,
        "timeout": timeout,
        "cwd": str(Path.cwd() / Path(cwd).expanduser()) if cwd else None,
        "sessions": sessions,
        "allow_tools": list(allow or ()),
        "deny_tools": list(deny or ()),
        "trust": trust,
    }
    return {key: value for key, value in given.items() if value}


def _from_here(command: str) -> str:
    """A program that a person named by its path means the same wherever the gateway runs."""
    here = Path.cwd() / command
    return str(here) if os.path.dirname(command) and not command.startswith("~") and here.exists() else command


def changed(entry: Mapping[str, Any], given: Mapping[str, Any], unset: Sequence[str] | None) -> dict[str, Any]:
    """The entry with what was given instead of what it had: of variables and headers each by itself. A command instead
    of an address, or the other way round, takes what belongs to the other with it."""
    kept = dict(entry)
    if "url" in given:
        kept = {key: value for key, value in kept.items() if key not in ("command", "args", "env", "cwd", "transport")}
    if "command" in given:
        kept = {key: value for key, value in kept.items() if key not in ("args", "url", "headers", "transport")}
    for key in unset or ():
        kept = _without(kept, key)
    for key, value in given.items():
        was = kept.get(key)
        kept[key] = {**was, **value} if key in MAPPINGS and isinstance(was, Mapping) else value
    return kept


def _without(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    first, _, rest = key.partition(".")
    found = entry.get(first)
    if first not in entry or (rest and not (isinstance(found, Mapping) and rest in found)):
        has = ", ".join([*entry, *(f"{each}.{name}" for each in MAPPINGS for name in entry.get(each) or ())])
        raise typer.BadParameter(f"there is no {key} in it; it has {has}", param_hint="--unset")
    if not rest:
        return {name: value for name, value in entry.items() if name != first}
    assert isinstance(found, Mapping)
    left = {name: value for name, value in found.items() if name != rest}
    return {**{name: value for name, value in entry.items() if name != first}, **({first: left} if left else {})}
