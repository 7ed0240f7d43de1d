"""What an entry for the gateway says in each client's words, and what an entry that is there leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, Literal

from mcpproxy_py.cli.clients.editing.values import Addition
from mcpproxy_py.cli.clients.known import ASK_TOOLS, READ_TOOLS, KnownClient, Slot, ToolRule

PROFILE_OPTION: Final = "--profile"
OF_A_PROFILE: Final = "/p/"
TOKEN_VARIABLE: Final = "MCPPROXY_MCP_TOKEN"
Way = Literal["stdio", "http"]


@dataclass(frozen=True, slots=True)
class Launch:
    """How the client reaches the gateway."""

    way: Way
    command: tuple[str, ...] = ()
    url: str = ""
    needs_token: bool = False


def entry(client: KnownClient, name: str, launch: Launch) -> dict[str, Any]:
    """The entry that leads to the gateway."""
    template = client.stdio if launch.way == "stdio" else client.http or {}
    values = _values(client, name, launch)
    filled = {key: values.get(said) if isinstance(said, Slot) else said for key, said in template.items()}
    return {key: value for key, value in filled.items() if value is not None}


def _values(client: KnownClient, name: str, launch: Launch) -> dict[Slot, Any]:
    token = launch.needs_token or None
    return {
        Slot.COMMAND: launch.command[0] if launch.command else None,
        Slot.ARGS: list(launch.command[1:]),
        Slot.COMMAND_AND_ARGS: list(launch.command),
        Slot.URL: launch.url,
        Slot.HEADERS: token and {"Authorization": f"Bearer {reference(client, name)}"},
        Slot.TOKEN_VARIABLE: token and TOKEN_VARIABLE,
        Slot.TOKEN_VARIABLES: token and [TOKEN_VARIABLE],
        Slot.NAME: name,
    }


def can_send_token(client: KnownClient) -> bool:
    """Whether an entry can refer to the token without holding it."""
    return client.variable is not None or Slot.TOKEN_VARIABLE in (client.http or {}).values()


def reference(client: KnownClient, name: str) -> str:
    if client.token_input:
        return f"${{input:{name}-token}}"
    return (client.variable or "").replace("NAME", TOKEN_VARIABLE)


def server_additions(client: KnownClient, name: str, launch: Launch, *, with_rules: bool) -> list[Addition]:
    """What the file of the servers gets."""
    value = entry(client, name, launch) | (dict(client.permissions.in_entry) if with_rules else {})
    added = [Addition((*client.servers, name), value)]
    if client.token_input and launch.needs_token:
        asked = {"type": "promptString", "id": f"{name}-token", "description": f"Agent token of {name}",
                 "password": True}  # fmt: skip
        added.insert(0, Addition(("inputs",), asked, is_item=True))
    return added


def rule_additions(client: KnownClient, name: str) -> list[Addition]:
    """The rules that stand beside the entry, or in a file of their own."""
    rules = client.permissions
    return [*_expanded(rules.reads, name, READ_TOOLS), *_expanded(rules.asks, name, ASK_TOOLS)]


def _expanded(rule: ToolRule | None, name: str, tools: tuple[str, ...]) -> Iterator[Addition]:
    for tool in tools if rule else ():
        assert rule is not None
        path = tuple(key.replace("{server}", name).replace("{tool}", tool) for key in rule.path)
        if rule.item is not None:
            item = rule.item.replace("{server}", name).replace("{tool}", tool)
            yield Addition(path, item, is_item=True)
        else:
            yield Addition(path, rule.value)


def entry_way(client: KnownClient, said: Any) -> Way | None:
    """By which way an entry leads anywhere."""
    if not isinstance(said, Mapping):
        return None
    if _said(client.stdio, said, Slot.COMMAND) or _said(client.stdio, said, Slot.COMMAND_AND_ARGS):
        return "stdio"
    return "http" if _url(client, said) else None


def is_gateway(client: KnownClient, said: Any) -> bool:
    """Whether an entry starts `mcpproxy stdio`, of whichever data directory."""
    words = command_line(client, said)
    starts = bool(words) and PurePath(words[0].replace("\\", "/")).name.removesuffix(".exe") == "mcpproxy"
    return "stdio" in words and (starts or "mcpproxy_py" in words)


def command_line(client: KnownClient, said: Any) -> list[str]:
    """The program and arguments of an entry."""
    if not isinstance(said, Mapping):
        return []
    whole = _said(client.stdio, said, Slot.COMMAND_AND_ARGS)
    parts = whole if isinstance(whole, list) else [_said(client.stdio, said, Slot.COMMAND)]
    args = _said(client.stdio, said, Slot.ARGS)
    return [part for part in [*parts, *(args if isinstance(args, list) else [])] if isinstance(part, str)]


def leads_to(client: KnownClient, said: Any, launch: Launch, *, any_profile: bool = False) -> bool:
    """Whether an entry leads where this launch does, whatever else it says; with `any_profile` also where it leads to
    a part of that."""
    if not isinstance(said, Mapping):
        return False
    if launch.way == "http":
        url = _url(client, said) or ""
        return url == launch.url or (any_profile and url.startswith(f"{launch.url}{OF_A_PROFILE}"))
    places = _places(command_line(client, said))
    if any_profile and PROFILE_OPTION in places:
        at = places.index(PROFILE_OPTION)
        del places[at : at + 2]
    return is_gateway(client, said) and places == _places(list(launch.command))


def is_still_ours(client: KnownClient, said: Any, written: Any) -> bool:
    """Whether an entry that `connect` wrote leads to a gateway still, whatever else somebody changed in it."""
    if is_gateway(client, said):
        return True
    if not isinstance(said, Mapping) or not isinstance(written, Mapping):
        return False
    url = _url(client, said)
    return url is not None and url == _url(client, written)


def _places(words: list[str]) -> list[str]:
    """What names a gateway on a command line: everything after `stdio`, but for who comes."""
    places = words[words.index("stdio") :] if "stdio" in words else []
    if "--token-file" in places:
        at = places.index("--token-file")
        del places[at : at + 2]
    return places


def _said(template: Mapping[str, Any], said: Mapping[str, Any], slot: Slot) -> Any:
    return next((said.get(key) for key, each in template.items() if each is slot and key in said), None)


def _url(client: KnownClient, said: Mapping[str, Any]) -> str | None:
    url = _said(client.http or {}, said, Slot.URL)
    return url if isinstance(url, str) else None
