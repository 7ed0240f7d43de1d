"""The registries of the configuration, asked for a person who typed a command."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcpproxy_py.cli.common import CommandContext
from mcpproxy_py.cli.output import clean, note, waiting
from mcpproxy_py.errors import Code, GatewayError

if TYPE_CHECKING:
    from mcpproxy_py.core.catalog.model import ServerEntry
    from mcpproxy_py.providers.registry.places import Heard, RegistryPlace


def configured(session: CommandContext) -> Sequence[RegistryPlace]:
    """Best first. A broken configuration has none, and says so: what is shipped can be found all the same."""
    try:
        return session.where.loaded().settings.catalog.registries
    except GatewayError as error:
        note(f"No registry is asked: {error.message}")
        return ()


def asked(session: CommandContext, words: str, shipped: Mapping[str, ServerEntry]) -> list[Heard]:
    """What each of them knows, asked now."""
    from mcpproxy_py.providers.registry.asking import search

    found: list[Heard] = []
    for place in configured(session):
        with waiting(f"Asking {place.label}"):
            found.append(search(place, words, session.where.home(), time.time(), shipped))
    return found


def looked_up(
    session: CommandContext, name: str, version: str | None, shipped: Mapping[str, ServerEntry]
) -> ServerEntry:
    """The server of this name in the first registry that has it. Raises `NOT_FOUND` with what can be done."""
    from mcpproxy_py.providers.registry.asking import look_up
    from mcpproxy_py.providers.registry.fetch import NotListed
    from mcpproxy_py.providers.registry.places import RegistryAway, RegistryRefused

    places, home = configured(session), session.where.home()
    for place in places:
        try:
            with waiting(f"Asking {place.label}"):
                entry, away = look_up(place, name, version, home, time.time(), shipped)
        except NotListed:
            continue
        except RegistryAway as why:
            remedy = "Try again later, or add it by its command: `mcpproxy upstream add NAME -- COMMAND`."
            raise _failed(f"The registry {place.label} was not of use: {why}", remedy) from None
        except RegistryRefused as why:
            remedy = "Nothing was added. Tell those who run that registry."
            message = f"What the registry {place.label} says of {clean(name)} is not used: {why}"
            raise _failed(message, remedy) from None
        if away is not None:
            note(f"Note: the registry {place.label} did not help: {away}. This is what it said within the last day.")
        return entry
    if not places:
        raise _failed(
            f"The shipped catalog has no server '{clean(name)}', and no registry is configured",
            "`mcpproxy catalog search WORDS` finds servers; `catalog.registries` in the configuration names some.",
        )
    raise _failed(
        f"Neither the catalog nor {' nor '.join(place.label for place in places)} has a server '{clean(name)}'",
        "`mcpproxy catalog search WORDS` finds servers by name and by what they are for.",
    )


def _failed(message: str, remedy: str) -> GatewayError:
    return GatewayError(Code.NOT_FOUND, message, details={"remedy": remedy})


def tell(row: Mapping[str, Any]) -> None:
    """What a person has to know of a registry's answer."""
    label = row["registry"]
    if row["away"] is not None:
        kept = f"; what stands here was read {age(row['read_at'])}" if row["read_at"] is not None else ""
        note(f"The registry {label} was not of use: {row['away']}{kept}.")
    if row["more"]:
        note(f"The registry {label} has more than was asked for: other words find fewer.")
    if row["left_out"]:
        count = row["left_out"]
        note(f"{count} {'entry' if count == 1 else 'entries'} of {label} cannot be shown: not as an entry has to be.")


def age(read_at: float) -> str:
    """As a person says it."""
    seconds = max(0.0, time.time() - read_at)
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'} ago"
    return "just now"
