"""How a server of the catalog is connected: its entry in the configuration, and what has to be asked for it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.providers.catalog.load import META, runner

Kind = Literal["env", "header", "arg", "url"]
KEYED: Final = ("api-key", "connection-string", "oauth-or-key", "oauth")
"""Where what an entry lists is needed, unless it says otherwise."""
AUTHORIZATION: Final = "Authorization"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in an entry `{name}` stands for an answer: `args` and an index, `env` and a name, `url`. Without an answer
    so many arguments go as belong together."""

    key: Literal["args", "env", "headers", "url"]
    at: int | str | None
    drops: int


@dataclass(frozen=True, slots=True)
class CatalogQuestion:
    """One thing that a person has to know: a variable, a header, or an argument. An answer goes where it `fills`
    something; if that is nowhere, it is the variable, the header or one more argument."""

    kind: Kind
    name: str
    about: str = ""
    secret: bool = False
    required: bool = True
    default: str | None = None
    choices: tuple[str, ...] = ()
    fills: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class CatalogRecipe:
    """The entry without what is asked for, and the questions. `note` is what a person should know beforehand."""

    config: Mapping[str, Any]
    questions: Sequence[CatalogQuestion] = ()
    notes: Sequence[str] = field(default_factory=tuple[str, ...])


def recipe(entry: ServerEntry, transport: str | None = None) -> CatalogRecipe | None:
    """`transport` chooses where there is a package and an address; `None` where the entry tells of neither.

    A package goes before an address that wants a login of its own, which nobody can do for a gateway.
    """
    if entry.of_registry:
        return None if why_not(entry, transport) else _of_registry(entry, transport)
    meta: Mapping[str, Any] = entry.wire["_meta"][META]
    packages = [each for each in entry.wire.get("packages", ()) if runner(each)]
    remotes = list(entry.wire.get("remotes", ()))
    if transport == "stdio" or (transport is None and packages and (not remotes or entry.auth.startswith("oauth"))):
        remotes = []
    elif transport is not None or remotes:
        packages = []
    found = _of_remote(remotes[0], entry) if remotes else _of_package(packages[0], entry) if packages else None
    if found is None:
        return None
    notes = [*found.notes, *([meta["caution"]] if "caution" in meta else [])]
    if mode := _sessions(meta):
        return CatalogRecipe({**found.config, "sessions": mode}, found.questions, notes)
    return CatalogRecipe(found.config, found.questions, notes)


def why_not(entry: ServerEntry, transport: str | None = None) -> str | None:
    """Why nothing of a registry's entry can be used; `None` where something can."""
    from mcpproxy_py.providers.registry.places import RegistryRefused

    try:
        _of_registry(entry, transport)
    except RegistryRefused as why:
        return str(why)
    return None


def _of_registry(entry: ServerEntry, transport: str | None) -> CatalogRecipe:
    from mcpproxy_py.providers.registry.recipes import registry_recipe

    return registry_recipe(entry, transport)


def filled(plan: CatalogRecipe, answers: Mapping[str, str]) -> dict[str, Any]:
    """The entry with these answers, by the name of the question, and defaults where there is none. What has neither is
    left out. In one pass, so that braces in an answer stand for themselves."""
    made: dict[str, Any] = deepcopy(dict(plan.config))
    known = {each.name: answers.get(each.name, each.default) for each in plan.questions}
    places = {place: None for each in plan.questions for place in each.fills}
    empty = {place for each in plan.questions if known[each.name] is None for place in each.fills}
    names = "|".join(re.escape(each.name) for each in plan.questions if each.fills)
    dropped: set[int] = set()
    for place in places:
        if place.key == "url":
            made["url"] = _with(made["url"], names, known)
        elif place.key == "args" and isinstance(place.at, int):
            if place in empty:
                dropped |= set(range(place.at - place.drops + 1, place.at + 1))
            else:
                made["args"][place.at] = _with(made["args"][place.at], names, known)
        elif place in empty:
            del made[place.key][place.at]
        else:
            made[place.key][place.at] = _with(made[place.key][place.at], names, known)
    if dropped:
        made["args"] = [arg for index, arg in enumerate(made["args"]) if index not in dropped]
    for each in plan.questions:
        value = known[each.name]
        if each.fills or value is None:
            continue
        if each.kind == "arg":
            made["args"] = [*made.get("args", ()), value]
        else:
            key = "env" if each.kind == "env" else "headers"
            made[key] = {**made.get(key, {}), each.name: value}
    return {key: value for key, value in made.items() if value != {} or key not in ("env", "headers")}


def _with(text: str, names: str, known: Mapping[str, str | None]) -> str:
    return re.sub(rf"\{{({names})\}}", lambda found: known[found[1]] or "", text) if names else text


def _sessions(meta: Mapping[str, Any]) -> str | None:
    """The mode that the catalog recommends, where it does."""
    said = meta.get("sessions")
    return said.get("mode") if isinstance(said, Mapping) else said


def _of_package(package: Mapping[str, Any], entry: ServerEntry) -> CatalogRecipe:
    command, *args = runner(package)
    variables = [_question("env", each, entry) for each in package.get("environmentVariables", ())]
    if package["registryType"] == "oci":  # a container sees only what is handed through
        args += [word for each in variables for word in ("-e", each.name)]
    given = package.get("packageArguments", ())
    fixed = [each["value"] for each in given if "value" in each]
    wanted = [CatalogQuestion("arg", each["valueHint"], each.get("description", "")) for each in given
              if "value" not in each]  # fmt: skip
    config = {"command": command, "args": [*args, package["identifier"], *fixed]}
    return CatalogRecipe(config, (*variables, *wanted))


def _of_remote(remote: Mapping[str, Any], entry: ServerEntry) -> CatalogRecipe:
    config = {"url": remote["url"], **({"transport": "sse"} if remote["type"] == "sse" else {})}
    headers = [_question("header", each, entry) for each in remote.get("headers", ())]
    if headers or entry.auth in ("none", "unknown", "local-login"):
        return CatalogRecipe(config, headers)
    about = "a key or token of this service, as `Bearer ...`"
    notes = ("This service has a login of its own (OAuth), which a gateway cannot do: it needs a token.",)
    only_login = entry.auth == "oauth"
    return CatalogRecipe(
        config,
        (CatalogQuestion("header", AUTHORIZATION, about, secret=True, required=entry.auth == "api-key"),),
        notes if only_login else (),
    )


def _question(kind: Kind, wire: Mapping[str, Any], entry: ServerEntry) -> CatalogQuestion:
    required = wire.get("isRequired", entry.auth in KEYED)
    return CatalogQuestion(kind, wire["name"], wire.get("description", ""), wire.get("isSecret", False), required)
