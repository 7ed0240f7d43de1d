"""The inputs of a `server.json` (arguments, variables, headers) to texts and questions, read with suspicion. Pure.

An input has a fixed value, a value with `{variables}` in it, or none, and then a person is asked. No text of a registry
may be a reference such as `${env:NAME}`: that would send secrets of this machine to whoever wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from mcpproxy_py.core import json_values
from mcpproxy_py.core.pins.scan.hidden_characters import hidden_characters
from mcpproxy_py.providers.catalog.recipe import CatalogQuestion, Kind, Place
from mcpproxy_py.providers.registry.places import RegistryRefused

MOST_VALUE: Final = 1000
MOST_ABOUT: Final = 200
MOST_CHOICES: Final = 30
_VARIABLE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z0-9_.-]{1,64})\}")
_LIKE_SHELL: Final = re.compile(r"[`;|<>$]|&&")
"""No shell reads it here, but whoever wrote it meant one to, or a program that hands it on. No dollar at all: put
together with what stands beside it, it would be a reference to a secret."""


def checked_text(value: object, what: str) -> str:
    """A text of a registry that goes into the configuration as it is. Raises `RegistryRefused`."""
    if isinstance(value, bool | int | float):
        return json_values.text_of(value)[:MOST_VALUE]
    if not isinstance(value, str):
        raise RegistryRefused(f"{what} is no text")
    if len(value) > MOST_VALUE:
        raise RegistryRefused(f"{what} has more than {MOST_VALUE} characters")
    if not value.isprintable() or hidden_characters(value, "text") is not None:
        raise RegistryRefused(f"{what} has characters that nobody sees")
    if found := _LIKE_SHELL.search(value):
        raise RegistryRefused(f"{what} has `{found[0]}`, as for a shell or a reference to a secret")
    return value


def about(wire: Mapping[str, Any]) -> str:
    """What a person is told of an input: short, on one line, and seen as it is."""
    value = wire.get("description")
    if not isinstance(value, str) or hidden_characters(value, "text") is not None:
        return ""
    line = " ".join(value.split())
    return json_values.quoted(line, MOST_ABOUT)


def listed(wire: Mapping[str, Any], key: str, most: int) -> list[Mapping[str, Any]]:
    value = wire.get(key) or ()
    if not isinstance(value, list | tuple) or len(value) > most or not all(isinstance(each, Mapping) for each in value):
        raise RegistryRefused(f"its `{key}` is no list of at most {most} objects")
    return list(cast("Iterable[Mapping[str, Any]]", value))


@dataclass(slots=True)
class Asked:
    """The questions so far. One of a name is one question, wherever its answer goes."""

    questions: dict[str, CatalogQuestion] = field(default_factory=dict[str, CatalogQuestion])

    def ask(self, kind: Kind, name: str, wire: Mapping[str, Any], place: Place | None, secret: bool = False) -> None:
        """Whatever one of several places needs is needed."""
        before = self.questions.get(name)
        if before is not None and place is None:
            raise RegistryRefused(f"it asks for {name} twice")
        default = wire.get("default")
        choices = wire.get("choices") or ()
        if not isinstance(choices, list | tuple) or len(choices) > MOST_CHOICES:
            raise RegistryRefused(f"the choices of {name} are no list of at most {MOST_CHOICES}")
        self.questions[name] = CatalogQuestion(
            kind, name, about(wire) or (before.about if before else ""),
            secret=secret or wire.get("isSecret") is True or bool(before and before.secret),
            required=wire.get("isRequired") is True or bool(before and before.required),
            default=checked_text(default, f"the default of {name}") if default not in (None, "") else None,
            choices=tuple(checked_text(each, f"a choice of {name}") for each in choices),
            fills=(*(before.fills if before else ()), *((place,) if place else ())),
        )  # fmt: skip

    def text(self, kind: Kind, wire: Mapping[str, Any], what: str, place: Place) -> str | None:
        """Its value with what is fixed filled in, where it has one; the variables left in it are asked for."""
        if wire.get("value") in (None, ""):
            return None
        value = checked_text(wire["value"], what)
        variables = wire.get("variables") or {}
        if not isinstance(variables, Mapping):
            raise RegistryRefused(f"the variables of {what} are no object")
        known: dict[str, str] = {}
        for name in _names(value, variables):
            of_it = variables[name]
            if not isinstance(of_it, Mapping):
                raise RegistryRefused(f"the variable {name} of {what} is no object")
            if of_it.get("value") not in (None, ""):
                known[name] = checked_text(of_it["value"], f"the variable {name}")
            else:
                required = kind == "url" or wire.get("isRequired") is True or of_it.get("isRequired") is True
                self.ask(kind, name, {**of_it, "isRequired": required}, place, secret=wire.get("isSecret") is True)
        return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), value)


def _names(value: str, variables: Mapping[str, Any]) -> Iterator[str]:
    return (name for name in dict.fromkeys(_PLACEHOLDER.findall(value)) if name in variables)


def label_of(wire: Mapping[str, Any], fallback: str) -> str:
    """What an argument that a person chooses is called."""
    for key in ("valueHint", "name"):
        value = wire.get(key)
        if isinstance(value, str) and _VARIABLE.fullmatch(name := value.strip("{}<>- ").replace(" ", "_")):
            return name
    return fallback
